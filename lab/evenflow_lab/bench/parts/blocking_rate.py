"""Balances by blocking in a model of splitter, workers and merge: the second table of docs/ordered-regions.md.

No Spark, no clock, no noise of the machine: the same figures each time. The model is tests/support/blocking_model.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from tests.support.blocking_model import half, ideal, keep_up, shifting

from evenflow.policy import BlockingRate, LbAdaptive, LbStatic, Oracle, RoundRobin

Profile = list[tuple[float, list[float]]]


def oracle(profile: Profile, late: float = 0.0) -> Oracle:
    """Oracle* for a profile, told of each change `late` seconds after it."""
    return Oracle(schedule=[(second and second + late, [1 / each for each in slow]) for second, slow in profile])


BALANCES: dict[str, Callable[[Profile], Any]] = {
    "blocking-rate": lambda profile: BlockingRate(),
    "blocking-rate, explore=False": lambda profile: BlockingRate(explore=False),
    "blocking-rate, every=1": lambda profile: BlockingRate(every=1),
    "lb-adaptive": lambda profile: LbAdaptive(),
    "lb-static": lambda profile: LbStatic(),
    "round-robin": lambda profile: RoundRobin(),
    "Oracle*, a sample late": lambda profile: oracle(profile, late=1.0),
}


def late_share(balance: Any, profile: Profile, samples: int) -> float:
    """Frames given back in the last quarter of a run, over the ideal."""
    quarter = keep_up(balance, profile, samples).frames[-samples // 4 :]
    return float(np.mean(quarter) / ideal(profile[-1][1]))


def over_oracle(balance: Any, profile: Profile, samples: int) -> float:
    """The time a frame takes in a run, over Oracle*'s."""
    best, own = (keep_up(each, profile, samples).frames.sum() for each in (oracle(profile), balance))
    return float(best / max(own, 1.0))


def late_cases(samples: int) -> dict[str, Profile]:
    """Workers that become faster after a quarter of the run, and what must not be lost for it."""
    then = samples // 4
    return {
        "3 equal, one 5x faster": [(0, [5.0] * 3), (then, [1.0, 5.0, 5.0])],
        "2 equal, one 2x faster": [(0, [2.0] * 2), (then, [1.0, 2.0])],
        "8 equal, four 4x faster": [(0, [4.0] * 8), (then, [1.0] * 4 + [4.0] * 4)],
        "64 equal, eight 10x faster": [(0, [10.0] * 64), (then, [1.0] * 8 + [10.0] * 56)],
        "4 equal, one 20x slower": [(0, [1.0] * 4), (then, [1.0] * 3 + [20.0])],
        "16, half 100x slow": [(0, half(16, 100))],
        "8, half 100x slow until 1/8": [(0, half(8, 100)), (samples // 8, [1.0] * 8)],
        "16 equal": [(0, [1.0] * 16)],
    }


def table(head: str, cases: dict[str, Profile], figure: Callable[[Any, Profile, int], float], samples: int) -> None:
    """Print one row a case, one column a balance."""
    print(f"\n| {head} | " + " | ".join(BALANCES) + " |\n" + "|---" * (len(BALANCES) + 1) + "|")
    for case, profile in cases.items():
        cells = [f"{figure(make(profile), profile, samples):.2f}" for make in BALANCES.values()]
        print(f"| {case} | " + " | ".join(cells) + " |", flush=True)


def main(
    samples: Annotated[int, typer.Option(help="Samples of a run.", min=8)] = 120,
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "2,4,8,16,32,64",
) -> None:
    """Print the tables."""
    counts = [int(number) for number in workers.split(",")]
    slow: dict[str, Profile] = {f"{n}, half {f}x slow": [(0, half(n, f))] for f in (10, 100) for n in counts}
    moving: dict[str, Profile] = {
        f"{n}, all change every {seconds} s": shifting(n, seconds, 1, samples)
        for n in (2, 8, 32, 64)
        for seconds in (5, 10, 30)
    }
    table("share of the ideal, last quarter", late_cases(samples), late_share, samples)
    table("time over Oracle*", slow | moving, over_oracle, samples)
