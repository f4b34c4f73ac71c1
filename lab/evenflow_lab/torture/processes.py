"""Finding processes by a mark in their environment, which child processes inherit. Linux only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

MARK = "EVENFLOW_TORTURE"
PROC = Path("/proc")
KILL_S = 10.0
"""How long killed processes may take to end."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to end."""


def marked(mark: str, variable: str = MARK) -> list[int]:
    """The processes with a mark, without zombies."""
    wanted = f"{variable}={mark}".encode()
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0") and _stat(int(entry.name))[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def parent(pid: int) -> int:
    """The parent of a process; 0 if the process is gone."""
    with suppress(OSError):
        return int(_stat(pid)[1])
    return 0


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    there = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return sorted(child for child in there if pid and parent(child) == pid)


def name(pid: int) -> str:
    """The name of a process; empty if it is gone."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def java_above(pid: int) -> int:
    """The nearest Java process among a process and its ancestors; 0 if there is none."""
    while pid > 1 and name(pid) != "java":
        pid = parent(pid)
    return pid if pid > 1 else 0


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process; some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def sweep(mark: str, patience_s: float, variable: str = MARK) -> list[str]:
    """Wait until no process with a mark is left; after `patience_s`, kill the rest. Returns what was killed."""
    deadline = time.monotonic() + patience_s
    send(marked(mark, variable), signal.SIGCONT)
    names: list[str] = []
    while left := marked(mark, variable) or marked(
        mark, variable
    ):  # twice: a process that is just loading its program has no environment
        if time.monotonic() > deadline:
            names += [f"{name(pid)} {pid}" for pid in left if f"{name(pid)} {pid}" not in names]
            send(left, signal.SIGKILL)  # in each round: one of them may have started another in between
        if time.monotonic() > deadline + KILL_S:
            break
        time.sleep(0.1)
    return names


def undisturbed() -> AbstractContextManager[None]:
    """Ignore the signals that ask for the end, so that cleaning up is not interrupted."""
    return _handled_by(signal.SIG_IGN)


def interrupted_by_signals() -> AbstractContextManager[None]:
    """Have the signals that ask for the end raise KeyboardInterrupt, as Ctrl-C does."""
    return _handled_by(signal.default_int_handler)


@contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stat(pid: int) -> list[str]:
    """The fields of a process's stat from its state on: state, parent and more."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
