"""Fuzzing: many mutated frames, handshakes, messages, movements and blobs, each kind in a process of its own.

`python -m tests.support.fuzz KIND SEED CASES` is one such process; it prints its results as JSON. A process that
does not end, or is ended by a signal, has found a crash.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support import fuzz_graph, fuzz_store, fuzz_wire
from tests.support.scripts import ROOT

TARGETS: dict[str, Callable[[], Any]] = {
    "frames": fuzz_wire.Frames,
    "handshakes": fuzz_wire.Handshakes,
    "messages to the controller": fuzz_wire.ToController,
    "frames to a worker": fuzz_wire.ToWorker,
    "frames of graphs to a worker": fuzz_graph.ToGraph,
    "movements": fuzz_wire.Movements,
    "manifests": fuzz_store.Manifests,
    "claims": fuzz_store.Claims,
    "lists of operators": fuzz_store.Lists,
    "format files": fuzz_store.Formats,
    "segments": fuzz_store.Segments,
    "snapshots": fuzz_store.Snapshots,
}
SHARE = {"frames": 0.35, "handshakes": 0.2, "messages to the controller": 0.1, "frames to a worker": 0.05}
"""The share of each kind in all cases; the other kinds share the rest equally."""


def run(kind: str, seed: int, cases: int) -> dict[str, Any]:
    """Try `cases` cases of one kind; returns how many had each result, and the peak memory in MB."""
    target, found = TARGETS[kind](), Counter[str]()
    began, first = time.perf_counter(), 0
    for number in range(cases):
        draw = random.Random(f"{kind} {seed} {number}")
        try:
            found[target.case(draw)] += 1
        except Exception as error:
            raise fuzz_wire.Wrong(f"{kind}, seed {seed}, case {number}: {type(error).__name__}: {error}") from error
        if number < 10:
            first = _peak()
    took = time.perf_counter() - began
    return {"kind": kind, "cases": cases, **found, "seconds": round(took, 1), "peak_mb": _peak(), "first_mb": first}


def run_apart(kind: str, seed: int, cases: int, patience: float) -> dict[str, Any]:
    """The same as `run` in a process of its own; `wrong` says what went wrong, if anything."""
    command = [sys.executable, "-m", "tests.support.fuzz", kind, str(seed), str(cases)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return {"kind": kind, "cases": cases, "wrong": f"it did not end within {patience:g} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return {"kind": kind, "cases": cases, "wrong": f"exit status {done.returncode}: {last}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def shares(cases: int) -> dict[str, int]:
    """The number of cases of each kind, together about `cases`."""
    rest = (1.0 - sum(SHARE.values())) / (len(TARGETS) - len(SHARE))
    return {kind: round(cases * SHARE.get(kind, rest)) for kind in TARGETS}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
