"""Processes by a mark in their environment, which all inherit whoever starts them. Linux only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "EVENFLOW_TORTURE"
PROC = Path("/proc")
KILL_S = 10.0
"""How long killed processes may take to go."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for the end."""


def marked(mark: str) -> list[int]:
    """The processes that carry a mark, zombies left out."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0") and _stat(int(entry.name))[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def parent(pid: int) -> int:
    """Who has started a process; 0 if it is gone."""
    with suppress(OSError):
        return int(_stat(pid)[1])
    return 0


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    there = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return sorted(child for child in there if pid and parent(child) == pid)


def name(pid: int) -> str:
    """What a process is called."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def java_above(pid: int) -> int:
    """The Java process that a process descends from; 0 if there is none."""
    while pid > 1 and name(pid) != "java":
        pid = parent(pid)
    return pid if pid > 1 else 0


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to each; some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def sweep(mark: str, patience_s: float) -> list[str]:
    """Wait until none is left that carries a mark; then kill the rest, and tell what they were."""
    deadline = time.monotonic() + patience_s
    send(marked(mark), signal.SIGCONT)
    names: list[str] = []
    while left := marked(mark) or marked(mark):  # twice: one that just loads its program has no environment to read
        if time.monotonic() > deadline:
            names += [f"{name(pid)} {pid}" for pid in left if f"{name(pid)} {pid}" not in names]
            send(left, signal.SIGKILL)  # and again: one of them may have started another in between
        if time.monotonic() > deadline + KILL_S:
            break
        time.sleep(0.1)
    return names


@contextmanager
def undisturbed() -> Iterator[None]:
    """Clean up without being interrupted once more."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Have all signals that ask for the end raise KeyboardInterrupt, as Ctrl-C does."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stat(pid: int) -> list[str]:
    """State and parent, and what follows."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
