"""The load of one controller: time and bytes of the control plane by workers, units, connections and operators.

There is no cluster. The real controller gets the messages of so many workers and feeders as bytes, and its answers are
encoded. "busy" is the processor time for that, per second of the cluster: at 1 the thread of the controller is full.
All other messages wait for the longest single event. The tables of docs/scaling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from time import process_time
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from evenflow.control.controller import Controller
from evenflow.control.events import (
    Event,
    FeederJoinedEvent,
    GraphPlacing,
    MessageEvent,
    RegionOpenedEvent,
    SendInstruction,
    TickEvent,
)
from evenflow.control.regions.keyed import KeyedRegion
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.model.latency import Latencies
from evenflow.model.messages import (
    ConnectionCounts,
    ConsumerReport,
    FeederArrivals,
    FeederBegan,
    FeederReport,
    FlowProgress,
    FlowReport,
    Message,
    WorkerHello,
    WorkerReport,
)
from evenflow.policy import Balance, KeyedBalance, balance_named, keyed_balance_named, placement_named
from evenflow.runtime.wire.messages import TO_CONTROLLER, packed

FEEDER = 1_000_000
REPORT_S = 0.1
REGION = "r"
Units = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
NO_UNITS: Units = np.zeros(0, np.int32)
NO_COUNTS: Counts = np.zeros(0, np.int64)
Told = Iterable[tuple[int, Message]]


class Load:
    """A controller, and counts of its messages, bytes and processor time."""

    def __init__(self, workers: int) -> None:
        self.controller, self.reader = Controller(workers), TO_CONTROLLER
        self.busy = self.longest = 0.0
        self.heard = self.told = self.bytes_in = self.bytes_out = 0
        for worker in range(workers):
            self.handle(MessageEvent(0.0, worker + 1, WorkerHello(worker, "h", 1, 1, transfer_port=1, deep=1)))

    def open(self, balance: Balance | KeyedBalance, units: int = 0, placing: GraphPlacing | None = None) -> None:
        """Open the region, and let its feeder join; one of a keyed region with `units` begins an evaluation."""
        self.handle(RegionOpenedEvent(0.0, REGION, "o", balance, units, graph=placing))
        self.handle(FeederJoinedEvent(0.0, FEEDER, REGION))
        if units:
            self.hear(0.0, [(FEEDER, FeederBegan(0))])

    def owners(self) -> npt.NDArray[np.int32]:
        """By unit of the keyed region, its worker."""
        region = self.controller.region(REGION)
        assert isinstance(region, KeyedRegion)
        return region.movements.table.owners

    def handle(self, event: Event, body: bytes = b"") -> None:
        """One event, from the bytes of its message to those of the answers."""
        began = process_time()
        if body and isinstance(event, MessageEvent):
            event = MessageEvent(event.time, event.peer, self.reader.decode(body, "it"))  # type: ignore[arg-type]
        answers = [packed(each.message) for each in self.controller.handle(event) if isinstance(each, SendInstruction)]
        took = process_time() - began
        self.busy, self.longest = self.busy + took, max(self.longest, took)
        self.told, self.bytes_out = self.told + len(answers), self.bytes_out + sum(map(len, answers))

    def hear(self, time: float, messages: Told) -> None:
        """Handle messages of peers at a time."""
        for peer, message in messages:
            body = packed(message)
            self.heard, self.bytes_in = self.heard + 1, self.bytes_in + len(body)
            self.handle(MessageEvent(time, peer, message), body)  # type: ignore[arg-type]

    def start(self) -> None:
        self.busy = self.longest = 0.0
        self.heard = self.told = self.bytes_in = self.bytes_out = 0

    def row(self, seconds: float) -> str:
        """The figures, a second of the cluster."""
        traffic = f"{self.heard / seconds:>9,.0f} {self.told / seconds:>9,.0f}"
        size = f"{self.bytes_in / seconds / 1e6:>8.2f} {self.bytes_out / seconds / 1e6:>8.2f}"
        return f"{self.busy / seconds:>8.3f} {self.longest * 1e3:>10.1f} {traffic} {size}"


HEAD = f"{'busy':>8} {'longest ms':>10} {'in/s':>9} {'out/s':>9} {'in MB/s':>8} {'out MB/s':>8}"


def consumed(seconds: float, busy_s: float, rows: int, units: Units, unit_rows: Counts, row_bytes: int = 8) -> Message:
    """A worker's report of what it did, none of whose units has another size than before."""
    return ConsumerReport(
        region=REGION,
        seconds=seconds,
        idle_s=seconds - busy_s,
        busy_s=busy_s,
        rows=rows,
        bytes=row_bytes * rows,
        units=units,
        unit_rows=unit_rows,
        sized=NO_UNITS,
        sizes=NO_COUNTS,
        on_disk=NO_UNITS,
        pending=NO_COUNTS,
    )


def ordered(workers: int, balance: str, seconds: int) -> str:
    """One feeder of an ordered region reports once a second; blocking moves about among the connections."""
    load, rng = Load(workers), np.random.default_rng(1)
    load.open(balance_named(balance))
    for second in range(1, seconds + 4):
        blocked = rng.dirichlet(np.full(workers, 0.05)) * 0.9
        counts = {
            worker: ConnectionCounts(
                blocked_s=float(blocked[worker]),
                rows_sent=1000,
                frames_sent=10,
                rows_done=1000,
                frames_done=10,
                busy_s=0.9,
                under_way_s=1.0,
            )
            for worker in range(workers)
        }
        load.hear(second, [(FEEDER, FeederReport(1.0, 1000 * workers, counts))])
        load.handle(TickEvent(second))
        if second == 3:  # imports, and compiled code
            load.start()
    return load.row(seconds)


def keyed(workers: int, units: int, balance: str, seconds: int, zipf: float = 1.0) -> str:
    """Workers and one feeder report ten times a second; rows fall on units by Zipf's law, most units have some."""
    load, rng = Load(workers), np.random.default_rng(1)
    load.open(keyed_balance_named(balance), units + 1)
    share = rng.permutation(np.arange(1, units + 1) ** -zipf)
    share /= share.sum()
    rows_s = 50_000 * workers

    def reports() -> Iterator[tuple[int, Message]]:
        drawn = rng.poisson(share * rows_s * REPORT_S)
        had = np.flatnonzero(drawn).astype(np.int32)
        yield FEEDER, FeederArrivals(had, drawn[had].astype(np.int64))
        owners = load.owners()
        busiest = np.bincount(owners[had], drawn[had], workers).max()
        for worker in range(workers):
            mine = had[owners[had] == worker]
            rows = drawn[mine].astype(np.int64)
            total = int(rows.sum())
            yield worker + 1, consumed(REPORT_S, REPORT_S * total / busiest, total, mine, rows)

    _rounds(load, seconds, reports)
    return load.row(seconds)


def chain_node(number: int, operators: int) -> NodeShape:
    """An operator of chains of ten."""
    first, last = number % 10 == 0, number % 10 == 9
    return NodeShape(
        name=f"n{number}",
        kind="map",
        first=number,
        units=1,
        readers=(number + 1,) if not last and number + 1 < operators else (),
        inputs=(-1,) if first else (number - 1,),
        endpoint=last,
    )


def graph(workers: int, operators: int, placement: str, seconds: int) -> str:
    """Chains of ten operators; workers report ten times a second."""
    load, rng = Load(workers), np.random.default_rng(1)
    shape = GraphShape(("s",), tuple(chain_node(number, operators) for number in range(operators)))
    placing = GraphPlacing(shape, placement_named(placement), every_s=2.0)
    load.open(keyed_balance_named("hash"), operators + 1, placing)
    cost = rng.uniform(10, 50, operators)

    def reports() -> Iterator[tuple[int, Message]]:
        yield FEEDER, FlowProgress({0: 100}, Latencies())
        owners = load.owners()[:operators]
        for worker in range(workers):
            mine = np.flatnonzero(owners == worker).astype(np.int32)
            rows = np.full(len(mine), 100, np.int64)
            micros, total = (cost[mine] * 100).astype(np.int64), int(rows.sum())
            yield (
                worker + 1,
                FlowReport(
                    region=REGION,
                    seconds=REPORT_S,
                    units=mine,
                    rows_in=rows,
                    rows_out=rows,
                    micros=micros,
                    calls=np.full(len(mine), 2, np.int64),
                    bytes_out=80 * rows,
                ),
            )
            yield worker + 1, WorkerReport(total, 1, float(micros.sum()) * 1e-6)
            yield worker + 1, consumed(REPORT_S, REPORT_S, total, NO_UNITS, NO_COUNTS, row_bytes=0)

    _rounds(load, seconds, reports)
    return load.row(seconds)


def _rounds(load: Load, seconds: int, reports: Callable[[], Told]) -> None:
    """Reports ten times a second, a tick once; the first two seconds are not counted."""
    for tenth in range(1, 10 * (seconds + 2) + 1):
        load.hear(tenth * REPORT_S, reports())
        if tenth % 10 == 0:
            load.handle(TickEvent(tenth * REPORT_S))
        if tenth == 20:
            load.start()


def main(
    seconds: Annotated[int, typer.Option(help="Seconds of the cluster that are counted.", min=1)] = 5,
    most: Annotated[int, typer.Option(help="Workers, at most.")] = 4096,
) -> None:
    """Print the tables."""
    print(f"\nordered regions, one feeder, a report a second\n{'balance':>14} {'workers':>8} {HEAD}")
    for balance, workers in product(("credits", "blocking-rate"), (16, 64, 256, 1024, 4096)):
        if workers <= most:
            print(f"{balance:>14} {workers:>8,} {ordered(workers, balance, seconds)}", flush=True)
    print(f"\nkeyed operators, ten reports a second\n{'balance':>14} {'workers':>8} {'units':>10} {HEAD}")
    sizes = (10, 4_096), (100, 4_096), (100, 100_000), (1_000, 100_000), (1_000, 1_000_000)
    for balance, (workers, units) in product(("auto", "dlb-h", "flux"), sizes):
        if workers <= most:
            print(f"{balance:>14} {workers:>8,} {units:>10,} {keyed(workers, units, balance, seconds)}", flush=True)
    print(f"\noperator graphs, ten reports a second\n{'placement':>14} {'workers':>8} {'operators':>10} {HEAD}")
    for placement, (workers, operators) in product(("greedy", "potential"), ((10, 100), (100, 1_000), (1_000, 10_000))):
        if workers <= most:
            row = graph(workers, operators, placement, seconds)
            print(f"{placement:>14} {workers:>8,} {operators:>10,} {row}", flush=True)
