"""`evenflow bench placement`: a graph of many operators on emulated workers and links, placement by placement.

Every placement runs the same seeded graph with the same rows on a cluster of its own. Latency is measured in the second
half of the run, when operators have been placed by what was measured in the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from evenflow.cli.demo.graph_run import GraphRun, observe_on
from evenflow.cli.polling import Watch
from evenflow.errors import InvalidArgument
from evenflow.model.capacity import Emulate
from evenflow.policy import placement_named
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.workloads.schemes import Scheme, scheme

REGION = "bench"


@dataclass(frozen=True)
class PlacementSetting:
    """A scheme of potential-driven §5 on emulated workers; from second `slow_at` on, if it is not 0, one is slow."""

    workers: int = 6
    operators: int = 40
    scheme: int = 3
    seconds: float = 60.0
    load: float = 0.6
    """Of each worker, if it is shared evenly."""
    slow_at: float = 0.0
    factor: float = 5.0
    """How many times slower that worker is then: the one that could do most."""
    seed: int = 1
    period: float = 1.0

    def __post_init__(self) -> None:
        if self.slow_at and not 0 < self.slow_at < self.seconds:
            raise InvalidArgument(f"slow_at={self.slow_at:g} of {self.seconds:g} seconds: give a second within the run")

    def drawn(self) -> Scheme:
        """The graph, its rows and its workers."""
        return scheme(self.scheme, self.workers, self.operators, self.seconds, self.load, self.seed)

    @property
    def measured(self) -> tuple[float, float]:
        """The seconds in which latency is measured: the second half of the time in which all is as usual."""
        end = self.slow_at or self.seconds
        return end / 2, end

    @property
    def measured_slow(self) -> tuple[float, float]:
        """The same while one worker is slow."""
        return (self.slow_at + self.seconds) / 2, self.seconds


@dataclass(frozen=True)
class SlowResult:
    """What became of a worker that turned slow."""

    worker: int
    placed_again_s: float | None
    """Seconds until the moves of the decision that takes most operators from it are done; None if there is none."""
    before_ms: float
    """Mean latency before."""
    after_ms: float
    """In the second half of the time after."""
    best_ms: float
    """In the same seconds of a run in which the worker was slow from the start."""
    of_best: float
    """`after_ms` divided by `best_ms`."""


@dataclass(frozen=True)
class PlacementResult:
    """The figures of one placement."""

    placement: str
    latency_ms: dict[str, float]
    """From the birth of the youngest row that contributed to a result until its endpoint: mean, p50, p99."""
    rows_per_s: float
    """Rows of sources, from the first of them to the last result."""
    total_pe: float
    """Potential energy with the paper's weights, as measured at the end."""
    load_std: float
    """Standard deviation of the workers' loads, in the mean while latency was measured."""
    moved: int
    """Operators that moved."""
    late_moved: int = 0
    """Those that moved while latency was measured."""
    results: int = 0
    """Results that latency was measured of."""
    slow: SlowResult | None = None


def check_placements(names: list[str]) -> None:
    """Refuse names that no placement has."""
    for name in names:
        placement_named(name)


def run(
    spark: SparkSession,
    setting: PlacementSetting,
    placement: str,
    drawn: Scheme,
    paths: Mapping[str, str],
    event_log: Path | None = None,
    watch: Watch = lambda rows: None,
) -> PlacementResult:
    """Run one placement; if a worker is to turn slow, a second time with that worker slow from the start."""

    def seen(emulate: Emulate, log: Path | None) -> GraphRun:
        with Cluster(spark, setting.workers, period=setting.period, event_log=log, emulate=emulate) as cluster:
            return observe_on(
                spark=spark,
                cluster=cluster,
                region=REGION,
                period=setting.period,
                placement=placement,
                drawn=drawn,
                paths=paths,
                watch=watch,
            )

    if not setting.slow_at:
        return result(setting, placement, drawn, seen(drawn.emulate(), event_log), None)
    found = seen(drawn.emulate(drawn.fastest, setting.factor, setting.slow_at), event_log)
    return result(setting, placement, drawn, found, seen(drawn.emulate(drawn.fastest, setting.factor), None))


def result(
    setting: PlacementSetting, placement: str, drawn: Scheme, seen: GraphRun, best: GraphRun | None
) -> PlacementResult:
    """The figures of a run, and of the run whose worker was slow from the start."""
    start, end = setting.measured
    summary = seen.latency(start, end)
    return PlacementResult(
        placement=placement,
        latency_ms={"mean": summary.mean, "p50": summary.p50, "p99": summary.p99},
        rows_per_s=sum(table.num_rows for table in drawn.rows.values()) / seen.seconds,
        total_pe=seen.last(end, "total_pe"),
        load_std=float(np.mean(seen.sampled(start, end, "load_std"))),
        moved=seen.moved(0.0, setting.seconds),
        late_moved=seen.moved(start, end),
        results=summary.rows,
        slow=None if best is None else _slow(setting, drawn, seen, best),
    )


def _slow(setting: PlacementSetting, drawn: Scheme, seen: GraphRun, best: GraphRun) -> SlowResult:
    after, least = (each.latency(*setting.measured_slow).mean for each in (seen, best))
    return SlowResult(
        worker=drawn.fastest,
        placed_again_s=seen.placed_after(setting.slow_at, drawn.fastest),
        before_ms=seen.latency(*setting.measured).mean,
        after_ms=after,
        best_ms=least,
        of_best=after / least if least else float("nan"),
    )


def report(setting: PlacementSetting, drawn: Scheme, results: list[PlacementResult]) -> dict[str, object]:
    """The figures that the command writes as JSON."""
    return {
        "emulated": True,
        "setting": asdict(setting),
        "coefficients": list(drawn.coefficients),
        "sources": {name: table.num_rows for name, table in drawn.rows.items()},
        "results": [asdict(each) for each in results],
    }
