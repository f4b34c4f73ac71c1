"""A scenario from the event log of a live run: its workers, what rows cost them, and how rows fell on units.

Costs are taken from service times and rows, in steps of STEP_S, so that workers which became slow do so here, too.
Feeders have rows all the time unless no worker was ever busy: then rows come at the rate of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument, nearest
from evenflow.eventlog.reading import entries_of, read_log, refuse_damaged
from evenflow.model.entries import (
    EventEntry,
    GraphSampleEntry,
    KeyedSampleEntry,
    PerformanceEntry,
    RegionEntry,
    RegionOpenedEntry,
    SampleEntry,
    UnitRowsEntry,
)
from evenflow.sim.keyed.setup import KeyedSetup, SpeedStep
from evenflow.sim.ordered.scene import OrderedScene, WorkerLoad
from evenflow.sim.scenario import Scenario

Grid = npt.NDArray[np.float64]
STEP_S = 5.0
"""Seconds over which the cost of a row is taken."""
CHANGE = 1.1
"""A worker's cost has changed if it is so many times what it was, or less than one part of that."""
BUSY = 0.9
"""A worker that is busy for a larger part of a step could do no more."""
TRACE = 200_000
"""Rows of the trace that units are drawn into; it is gone through over and over."""
SAMPLES = (SampleEntry, KeyedSampleEntry, GraphSampleEntry)
USED = (*SAMPLES, RegionOpenedEntry, PerformanceEntry, UnitRowsEntry)
Sample = SampleEntry | KeyedSampleEntry


@dataclass(frozen=True)
class WorkerCosts:
    """Step by step, from the first sample on: seconds a row on each worker, and the part of the time it was busy."""

    workers: list[int]
    seconds: list[float]
    """When each step begins, from 0 on."""
    row_s: Grid
    """One row a step, one column a worker; where a worker had no rows, as it was before."""
    busy: Grid
    rows_s: float
    """Rows a second that all workers did, over the whole run."""

    @property
    def base(self) -> float:
        """Seconds a row on the fastest worker."""
        return float(np.median(self.row_s, axis=0).min())


def recorded_scenario(path: str | Path, region: str | None = None, seed: int = 1) -> Scenario:
    """The scenario of one region of an event log, which is named if there are several; graphs do not count."""
    entries = read_log(Path(path))
    refuse_damaged(Path(path), entries, USED)
    return _of_region(entries, path, region, seed)


def _of_region(entries: list[EventEntry], path: str | Path, region: str | None, seed: int) -> Scenario:
    kinds = {entry.region: type(entry) for entry in entries if isinstance(entry, SAMPLES)}
    if not kinds:
        raise InvalidArgument(f"{path} has no samples: was anything fed while it was written?")
    if region is not None and region not in kinds:
        raise InvalidArgument(f"{path} has no region {region!r}; {nearest(region, kinds)}")
    able = [name for name, kind in kinds.items() if kind is not GraphSampleEntry]
    if region is None and len(able) > 1:
        names = ", ".join(map(repr, able))
        raise InvalidArgument(f"{path} has several regions: choose one of {names} (--region NAME)")
    name = region or next(iter(able or kinds))
    if kinds[name] is GraphSampleEntry:
        raise InvalidArgument(
            f"region {name} of {path} is a graph, and an event log does not have what rows cost its operators: "
            "write a scenario with a table [graph]"
        )
    mine = [entry for entry in entries_of(entries, RegionEntry) if entry.region == name]
    ordered = kinds[name] is SampleEntry
    costs = _costs(entries_of(mine, SampleEntry) if ordered else entries_of(mine, KeyedSampleEntry))
    return (_ordered if ordered else _keyed)(mine, costs, seed)


def _done(sample: Sample) -> dict[int, tuple[int, float]]:
    """By worker, the rows and the service time so far."""
    if isinstance(sample, SampleEntry):
        return {each.worker: (each.rows_done, each.busy_s) for each in sample.connections}
    return {each.worker: (each.rows, each.busy_s) for each in sample.consumers}


def _costs(samples: Sequence[Sample]) -> WorkerCosts:
    """What rows cost, from samples with cumulative counters."""
    picked = list(samples[:1])
    for sample in samples[1:]:
        if sample.time - picked[-1].time >= STEP_S or sample is samples[-1]:
            picked.append(sample)
    if len(picked) < 2:
        raise InvalidArgument("the event log has one sample of the region: record for some seconds at least")
    told = [_done(sample) for sample in picked]
    workers = sorted(set().union(*told))
    counts = np.zeros((2, len(picked), len(workers)))
    for place, by_worker in enumerate(told):
        for worker, counted in by_worker.items():
            counts[:, place, workers.index(worker)] = counted
    done, used = np.maximum(np.diff(counts, axis=1), 0.0)
    times = np.array([sample.time for sample in picked])
    with np.errstate(invalid="ignore", divide="ignore"):
        cost = np.where(done > 0, used / done, np.nan)
    if np.isnan(cost).all(axis=0).any():
        idle = workers[int(np.argmax(np.isnan(cost).all(axis=0)))]
        raise InvalidArgument(f"worker {idle} has had no rows: what they cost it is not known; record for longer")
    for place in range(len(cost)):
        before = cost[place - 1] if place else np.nanmedian(cost, axis=0)
        cost[place] = np.where(np.isnan(cost[place]), before, cost[place])
    span = np.diff(times)
    if span.min() <= 0:
        raise InvalidArgument("samples of the event log do not come one after the other: give the log of one run")
    seconds = [round(float(time), 3) for time in times[:-1] - times[0]]
    return WorkerCosts(workers, seconds, cost, used / span[:, None], float(done.sum() / span.sum()))


def _changes(costs: WorkerCosts) -> list[list[tuple[float, float]]]:
    """For each worker: (second, cost of a row over the base from then on), when it changes."""
    found = []
    for place in range(len(costs.workers)):
        steps: list[tuple[float, float]] = []
        for second, cost in zip(costs.seconds, costs.row_s[:, place], strict=True):
            factor = round(float(cost / costs.base), 4)
            if not steps or not 1 / CHANGE < factor / steps[-1][1] < CHANGE:
                steps.append((second, factor))
        found.append(steps)
    return found


def _rate(mine: list[RegionEntry], costs: WorkerCosts) -> float:
    """Rows that came a second, if no worker was ever too busy for more; else infinite."""
    told = entries_of(mine, PerformanceEntry)
    came, seconds = sum(entry.rows_in for entry in told), sum(entry.seconds for entry in told)
    return came / seconds if seconds and came and costs.busy.max() < BUSY else inf


def _feeders(mine: list[RegionEntry]) -> int:
    return max(1, *(entry.feeders for entry in mine if isinstance(entry, Sample)))


def _balance(mine: list[RegionEntry]) -> str:
    return next((entry.balance or "" for entry in entries_of(mine, RegionOpenedEntry)), "")


def _length(mine: list[RegionEntry]) -> float:
    """Seconds from the first sample to the last."""
    times = [entry.time for entry in mine if isinstance(entry, Sample)]
    return times[-1] - times[0]


def _ordered(mine: list[RegionEntry], costs: WorkerCosts, seed: int) -> Scenario:
    loads = []
    for worker, steps in enumerate(_changes(costs)):
        ends = [second for second, _ in steps[1:]] + [inf]
        loads += [
            WorkerLoad(worker, factor, begin, end)
            for (begin, factor), end in zip(steps, ends, strict=True)
            if factor != 1.0
        ]
    rate, feeders = _rate(mine, costs), _feeders(mine)
    scene = OrderedScene(
        workers=len(costs.workers),
        row_s=costs.base,
        loads=tuple(loads),
        feeders=feeders,
        rate=0.0 if rate == inf else rate / feeders,
        seed=seed,
    )
    return Scenario(_length(mine), _balance(mine), ordered=scene)


def _keyed(mine: list[RegionEntry], costs: WorkerCosts, seed: int) -> Scenario:
    changes = _changes(costs)
    opened = next((entry for entry in entries_of(mine, RegionOpenedEntry) if entry.units), None)
    if opened is None or not opened.units:
        raise InvalidArgument(
            "the event log does not say how many units there are (entry 'region-opened'): its begin is lost"
        )
    last = entries_of(mine, KeyedSampleEntry)[-1]
    rows, size = sum(each.rows for each in last.consumers), sum(each.bytes for each in last.consumers)
    setup = KeyedSetup(
        workers=len(costs.workers),
        units=opened.units,
        feeders=_feeders(mine),
        rates=((0.0, _rate(mine, costs)),),
        trace=_trace(mine, opened.units, seed),
        row_us=costs.base * 1e6,
        row_jitter_us=0.0,
        row_bytes=max(1, round(size / max(rows, 1))),
        speeds=tuple(1 / steps[0][1] for steps in changes),
        steps=tuple(
            SpeedStep(worker, second, 1 / factor)
            for worker, steps in enumerate(changes)
            for second, factor in steps[1:]
        ),
        unit_bytes=last.state_bytes // opened.units,
        region=opened.region,
        seed=seed,
    )
    return Scenario(_length(mine), _balance(mine), keyed=setup)


def _trace(mine: list[RegionEntry], units: int, seed: int) -> tuple[int, ...]:
    """Units of rows, as they fell in the recording: part by part, in an order drawn by the seed."""
    told = entries_of(mine, UnitRowsEntry)
    if not told:
        raise InvalidArgument(
            "the event log does not say how rows fell on units (entries 'unit-rows'): record it with this version"
        )
    rng, parts = np.random.default_rng(seed), []
    total = sum(entry.rows for entry in told)
    for entry in told:
        shares = np.zeros(units)
        shares[entry.units] = entry.unit_rows
        rest = np.flatnonzero(shares == 0)
        some = rng.permutation(rest)[: entry.others]
        if len(some):
            shares[some] = max(0, entry.rows - sum(entry.unit_rows)) / len(some)
        count = max(1, round(TRACE * entry.rows / total))
        parts.append(rng.choice(units, count, p=shares / shares.sum()))
    return tuple(np.concatenate(parts).tolist())
