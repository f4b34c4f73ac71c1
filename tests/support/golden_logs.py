"""Scenarios whose event logs are kept as digests, and the program that makes them.

    .venv/bin/python -m tests.support.golden_logs [--write]

prints the digests as JSON; `--write` keeps them in the lab's tests, after a change that is meant to change
what simulations do.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from evenflow import sim

FILE = Path(__file__).parents[2] / "lab" / "tests" / "golden" / "event_logs.json"
MB = 1_000_000

ORDERED = sim.OrderedScene(12, row_s=2e-4, feeders=2, reorder_rows=50_000)
KEYED = sim.KeyedSetup(
    workers=8,
    units=256,
    feeders=3,
    groups=4096,
    phases=(sim.KeyPhase("zipf", 0.9, seconds=3.0), sim.KeyPhase("self-similar", seconds=3.0)),
    row_us=150.0,
    unit_bytes=MB,
    growth_bytes=20.0,
    memory_bytes=48 * MB,
    memory=(sim.MemoryStep(2.0, 1, 16 * MB),),
    loads=(sim.ExternalLoad(5, since=3.0),),
)
CHAINS = {"a": ("s", "x"), "b": ("a",), "c": ("b",), "d": ("x",), "e": ("d", "b"), "f": ("e",), "g": ("c",)}
GRAPH = sim.SimulatedGraph(
    sources=(sim.SimulatedSource("s", 90.0, 30.0, 2.0, 0.4), sim.SimulatedSource("x", 60.0)),
    operators=tuple(
        sim.SimulatedOperator(name, inputs, *((2.0 + place, 0.9) if len(inputs) == 1 else (0.5, 0.1, 4)))
        for place, (name, inputs) in enumerate(CHAINS.items())
    ),
    hosts=(sim.SimulatedHost(), sim.SimulatedHost(1.7), sim.SimulatedHost(0.8, 0.7)),
    move_ms=1.0,
    told=False,
)
SLOW = (sim.SlowWorkers("0-2", 6.0, 2.0, 8.0),)
SCENARIOS = {
    "ordered credits": (sim.Scenario(6.0, ordered=ORDERED, slow=SLOW), "credits"),
    "ordered blocking-rate": (sim.Scenario(20.0, ordered=ORDERED, slow=SLOW), "blocking-rate"),
    "keyed auto": (sim.Scenario(10.0, keyed=KEYED, slow=SLOW), "auto"),
    "keyed flux-hybrid": (sim.Scenario(10.0, keyed=KEYED, slow=SLOW), "flux-hybrid"),
    "graph potential": (sim.Scenario(60.0, graph=GRAPH, slow=SLOW), "potential"),
}


def event_logs() -> dict[str, dict[str, object]]:
    """By scenario: the SHA-256 of its event log, and some counts that say what is in it."""
    found: dict[str, dict[str, object]] = {}
    with TemporaryDirectory() as folder:
        for name, (scenario, balance) in SCENARIOS.items():
            file = Path(folder) / "log"
            run = sim.simulate(scenario, balance, event_log=file)
            body = file.read_bytes()
            moved = {"decisions": run.decisions, "units_moved": run.units_moved}
            found[name] = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body), "rows": run.rows, **moved}
    return found


if __name__ == "__main__":
    text = json.dumps(event_logs(), indent=2) + "\n"
    print(text, end="")
    if "--write" in sys.argv[1:]:
        FILE.write_text(text)
