"""The workloads of `evenflow bench placement` as simulated graphs: same operators, costs, hosts, links and rates."""

from __future__ import annotations

from typing import Any

from evenflow.sim.graphs.model import SimulatedGraph, SimulatedHost, SimulatedLink, SimulatedOperator, SimulatedSource
from evenflow.workloads.scheme_graphs import flows
from evenflow.workloads.schemes import Scheme


def simulated_scheme(scheme: Scheme, **options: Any) -> SimulatedGraph:
    """A scheme as it is run live; `options` are fields of `SimulatedGraph`.

    Arrivals are drawn anew, of the same rates. A join of rows of one key is one of all rows whose pairs pass in the
    mean as often.
    """
    names = list(scheme.rates)
    taken, given = flows(scheme.drawn, [scheme.rates[name].mean for name in names])
    streams = [*names, *(each.name for each in scheme.drawn)]
    operators = []
    for each, rows, results in zip(scheme.drawn, taken.tolist(), given.tolist(), strict=True):
        selectivity = results / rows / max(1, each.window) if rows else 0.0
        inputs = tuple(streams[stream] for stream in each.inputs)
        cost_ms = scheme.costs_us[each.name] * 1e-3
        operators.append(SimulatedOperator(each.name, inputs, cost_ms, selectivity, each.window))
    sources = tuple(
        SimulatedSource(name, rates.high, rates.low, rates.phase_s, rates.deviation_s)
        for name, rates in scheme.rates.items()
    )
    hosts = tuple(SimulatedHost(coefficient) for coefficient in scheme.coefficients)
    links = tuple(SimulatedLink(one, other, delay) for (one, other), delay in scheme.link_ms.items())
    return SimulatedGraph(sources, tuple(operators), hosts, links, **options)
