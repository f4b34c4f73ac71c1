"""Samples of a graph's placement for the event log, and warnings of operators that are too heavy for any worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from evenflow.control.graphs.statistics import GraphStatistics
from evenflow.model.entries import (
    GraphSampleEntry,
    HostPart,
    LinkPart,
    Maybe,
    OperatorMovePart,
    PlacedPart,
    UnitsMovePart,
)
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.model.graphs.spread import SpreadOperator
from evenflow.policy.graph.energies.energy import PartialPlacement
from evenflow.policy.graph.moves.levels import Decision

LISTED_ENERGIES = 64
"""A graph with more operators than these gets no energies of operators in its samples, only the total."""


def host_loads(problem: PlacementProblem) -> npt.NDArray[np.float64]:
    """By host, its mean load as placed now."""
    loads = np.array([float(np.mean(host.background or (0.0,))) for host in problem.hosts])
    series = [float(np.mean(operator.series)) for operator in problem.operators]
    np.add.at(loads, np.array(problem.placed, np.int64), series)
    scaled: npt.NDArray[np.float64] = loads * np.array([host.coefficient for host in problem.hosts])
    return scaled


def too_heavy(problem: PlacementProblem) -> dict[str, str]:
    """By operator that is heavier than any worker, the warning, without the name of the graph."""
    most = max(host.quota / host.coefficient for host in problem.hosts)
    loads = {operator.name: sum(operator.series) / len(operator.series) for operator in problem.operators}
    return {
        name: f"operator {name!r} has a load of {load:.2f}, and no worker may have more than {most:.2f}: it stays "
        "behind its input. Make it cheaper, or spread it by a key"
        for name, load in loads.items()
        if load > most
    }


def energies_of(problem: PlacementProblem) -> tuple[float, list[Maybe[float]]]:
    """The total energy as placed now, and the potential energy of each operator where it is; UNSET if they are many."""
    if not problem.operators:
        return 0.0, []
    partial = PartialPlacement(problem)
    energies: list[Maybe[float]] = []
    for operator, host in enumerate(problem.placed):
        partial.add(operator, host)
    total = partial.total()
    if len(problem.placed) > LISTED_ENERGIES:
        return total, [UNSET for _ in problem.placed]
    for operator, host in enumerate(problem.placed):
        partial.remove(operator)
        energies.append(round(float(partial.pe_of(operator)[host]), 4))
        partial.add(operator, host)
    return total, energies


def graph_sample(
    time: float,
    region: str,
    placement: str,
    problem: PlacementProblem,
    spread: Sequence[SpreadOperator],
    decision: Decision,
    measured: GraphStatistics,
) -> GraphSampleEntry:
    """The figures that the placement saw, and its moves; in `problem`, units of spread operators are background."""
    loads = host_loads(problem)
    total, energies = energies_of(problem)
    summary = measured.latencies.summary
    return GraphSampleEntry(
        time=time,
        region=region,
        placement=placement,
        seconds=round(measured.periods[-1].seconds, 6),
        operators=_placed(problem, energies),
        hosts=_hosts(problem, loads, measured),
        links=[
            LinkPart(source=one, target=other, rows_s=round(rows, 1), bytes_s=round(size, 1))
            for (one, other), (rows, size) in sorted(measured.link_use.items())
        ],
        total_pe=round(float(total), 6),
        load_std=round(float(loads.std()), 6),
        level=decision.level,
        why=decision.why,
        moves=[
            OperatorMovePart(name=problem.operators[move.operator].name, worker=problem.hosts[move.target].id)
            for move in decision.operators
        ],
        units=[
            UnitsMovePart(
                name=spread[move.spread].name,
                units=len(move.units),
                source=problem.hosts[move.source].id,
                target=problem.hosts[move.target].id,
            )
            for move in decision.units
        ],
        latency_ms=measured.latencies.summary_ms or UNSET,
        results=summary.rows if summary is not None else UNSET,
    )


def _placed(problem: PlacementProblem, energies: Sequence[Maybe[float]]) -> list[PlacedPart]:
    """Each whole operator: where it is, its load, and its potential energy there."""
    return [
        PlacedPart(
            name=operator.name,
            worker=problem.hosts[host].id,
            load=round(float(np.mean(operator.series)), 6),
            pe=energy,
        )
        for operator, host, energy in zip(problem.operators, problem.placed, energies, strict=True)
    ]


def _hosts(problem: PlacementProblem, loads: npt.NDArray[np.float64], measured: GraphStatistics) -> list[HostPart]:
    """Each worker: its speed, its load, and the rows that it took and that waited there."""
    return [
        HostPart(
            worker=host.id,
            coefficient=round(host.coefficient, 4),
            load=round(float(load), 6),
            rows_s=round(measured.taken.get(host.id, 0.0), 1),
            queue=measured.queued.get(host.id, UNSET),
        )
        for host, load in zip(problem.hosts, loads, strict=True)
    ]
