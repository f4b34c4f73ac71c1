"""How near to the bound balances come at scale, and what that costs: simulated, with a slow rack of a tenth.

The control plane is the real one, on the simulator's virtual clock. A tenth of the workers is four times slower from
second 5 on. "of bound" is the throughput of the second half of the run over the most that any balance could do: what
all workers can do together or, of a keyed operator, if that is less, what the worker with the hottest unit alone can
do. Deciding is processor time of the balance; messages and bytes are those between the controller and everybody else.
A file of figures that is there already is gone on with; `--draw` draws what is in it. The figures of docs/scaling.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import typer

from evenflow import sim
from evenflow.control.events import Peer, Said
from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import MovedEntry
from evenflow.model.messages import ToFeeder, ToWorker
from evenflow.runtime.wire.messages import packed
from evenflow.sim.keyed.popularity import unit_shares
from evenflow.sim.simulation import DataPlane, Simulation

SLOW, SINCE_S, SECONDS = 4.0, 5.0, {"ordered": 60.0, "keyed": 30.0}
ORDERED = ("credits", "blocking-rate", "round-robin"), (16, 64, 256, 1024, 4096)
KEYED = ("auto", "flux-auto", "dlb-h", "hash"), (10, 32, 100, 320, 1000)
UNITS_A_WORKER = 16
ROW_US = 1000.0


@dataclass(frozen=True)
class ScaleFigures:
    """The figures of one run."""

    kind: str
    balance: str
    workers: int
    units: int
    of_bound: float
    rows_per_s: float
    decisions: int
    """How often the balance was asked."""
    decide_ms: float
    """Processor time of asking it, in the mean."""
    longest_ms: float
    units_moved: int
    messages_per_s: float
    bytes_per_s: float
    took_s: float
    """Processor time of the simulation."""


class CountedSimulation(Simulation):
    """A simulation that counts the bytes of all messages as a live cluster would send them."""

    bytes = 0

    def say(self, time: float, peer: Peer, message: Said) -> None:
        self.bytes += len(packed(message))
        super().say(time, peer, message)

    def _tell(self, peer: Peer, message: ToWorker | ToFeeder) -> None:
        self.bytes += len(packed(message))
        super()._tell(peer, message)


def timed(balance: Any) -> list[float]:
    """Let a balance note the processor time of each decision, and return where it does."""
    times: list[float] = []
    decide = balance.decide

    def decided(snapshot: Any) -> Any:
        began = process_time()
        found = decide(snapshot)
        times.append(process_time() - began)
        return found

    balance.decide = decided
    return times


def scenario(kind: str, workers: int) -> tuple[sim.Scenario, int, float]:
    """The scenario, its units, and the rows a second that no balance can exceed."""
    slow = max(1, workers // 10)
    rack = (sim.SlowWorkers(f"0-{slow - 1}", SLOW, SINCE_S),)
    most = (workers - slow + slow / SLOW) * 1e6 / ROW_US
    if kind == "ordered":
        scene = sim.OrderedScene(workers, row_s=ROW_US * 1e-6)
        return sim.Scenario(SECONDS[kind], ordered=scene, slow=rack), 0, most
    units = UNITS_A_WORKER * workers
    keys = sim.KeyPhase("zipf", exponent=0.5)
    setup = sim.KeyedSetup(
        workers, units, max(1, workers // 10), phases=(keys,), groups=64 * units, row_us=ROW_US, row_jitter_us=50.0,
        feeder_us=0.0, packet_rows=4, skew_rows=min(64 * workers, 6_400), unit_bytes=100_000,
    )  # fmt: skip
    hottest = float(unit_shares(setup, keys).max())
    return sim.Scenario(SECONDS[kind], keyed=setup, slow=rack), units, min(most, 1e6 / ROW_US / hottest)


def run(kind: str, balance: str, workers: int) -> ScaleFigures:
    """Simulate one of them."""
    given, units, bound = scenario(kind, workers)
    plane: DataPlane = given.plane(balance)
    times, began = timed(plane.balance), process_time()  # type: ignore[attr-defined]
    world = CountedSimulation(plane, workers)
    half = given.seconds / 2
    world.run(half)
    before = _rows(plane)
    world.run(given.seconds)
    rate = (_rows(plane) - before) / half
    times = times or [0.0]
    return ScaleFigures(
        kind=kind,
        balance=balance,
        workers=workers,
        units=units,
        of_bound=rate / bound,
        rows_per_s=rate,
        decisions=len(times),
        decide_ms=1e3 * sum(times) / len(times),
        longest_ms=1e3 * max(times),
        units_moved=sum(len(entry.units) for entry in entries_of(world.log.written, MovedEntry)),
        messages_per_s=world.messages / given.seconds,
        bytes_per_s=world.bytes / given.seconds,
        took_s=process_time() - began,
    )


def _rows(plane: Any) -> int:
    """Rows that have been answered."""
    return int(plane.rows_out if hasattr(plane, "rows_out") else plane.arrays.feeders["answered"].sum())


def shown(row: ScaleFigures) -> str:
    """One line."""
    size = f"{row.kind:>8} {row.balance:>14} {row.workers:>6,} {row.units:>8,}"
    cost = f"{row.decide_ms:>9.2f} {row.longest_ms:>10.1f} {row.units_moved:>8,}"
    traffic = f"{row.messages_per_s:>11,.0f} {row.bytes_per_s / 1e6:>8.2f}"
    return f"{size} {row.of_bound:>8.3f} {cost} {traffic} {row.took_s:>7.1f}"


HEAD = (
    f"{'':>8} {'balance':>14} {'workers':>6} {'units':>8} {'of bound':>8} {'decide ms':>9} {'longest ms':>10} "
    f"{'moved':>8} {'messages/s':>11} {'MB/s':>8} {'CPU s':>7}"
)


def draw(rows: list[ScaleFigures], folder: Path) -> None:
    """The curves of docs/scaling.md."""
    from matplotlib.figure import Figure

    titles = {"ordered": "ordered regions", "keyed": f"keyed operators, {UNITS_A_WORKER} units a worker"}
    for what, label, log in (
        ("of_bound", "throughput, as a share of the bound", False),
        ("decide_ms", "processor time of a decision (ms)", True),
        ("bytes_per_s", "control plane (bytes a second)", True),
    ):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        for axes, (kind, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            for place, name in enumerate(dict.fromkeys(row.balance for row in rows if row.kind == kind)):
                mine = [row for row in rows if (row.kind, row.balance) == (kind, name)]
                style = {"color": f"C{place}", "lw": 5 - 1.2 * place, "ms": 10 - 2 * place}  # all show where they agree
                axes.plot(
                    [row.workers for row in mine], [getattr(row, what) for row in mine], "o-", label=name, **style
                )
            axes.set_xscale("log")
            axes.set(xlabel="workers", title=title)
            if log:
                axes.set_yscale("log")
            else:
                axes.set_ylim(0.0, 1.05)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8, loc="best" if log else "center left")
        figure.axes[0].set_ylabel(label)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"scaling-{what.replace('_', '-')}.png", dpi=110)


def main(
    json_file: Annotated[Path, typer.Option("--json", help="Figures; those that are there are not made again.")],
    draw_to: Annotated[Path | None, typer.Option("--draw", help="Folder for the pictures.")] = None,
    only: Annotated[str, typer.Option(help="ordered, keyed, or a balance; all if it is not given.")] = "",
    most: Annotated[int, typer.Option(help="Workers, at most.")] = 4096,
) -> None:
    """Simulate, print and draw."""
    rows = [ScaleFigures(**row) for row in json.loads(json_file.read_text())] if json_file.exists() else []
    done = {(row.kind, row.balance, row.workers) for row in rows}
    cases = [*product(["ordered"], *ORDERED), *product(["keyed"], *KEYED)]
    print(HEAD)
    for case in cases:
        if case not in done and case[2] <= most and {case[0], case[1], ""} & {only}:
            rows.append(run(*case))
            json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
            print(shown(rows[-1]), flush=True)
    if draw_to is not None:
        draw(sorted(rows, key=lambda row: row.workers), draw_to)
