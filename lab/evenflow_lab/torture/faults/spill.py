"""A local disk for spilled state with the faults of the schedule: it is full, or a process that uses it is killed.

They strike where a process opens a file of spilled state, as Python's audit events tell.
"""

from __future__ import annotations

import errno
import os
import sys

from evenflow_lab.torture.faults.hooks import Hooks, kill
from evenflow_lab.torture.schedule import Fault

SUFFIX = ".spill"
_present: list[Hooks] = []
"""The hooks of the present run, once this process watches its files; Spark reuses processes for later runs."""


def install(hooks: Hooks) -> None:
    """Make this process's spilling faulty for the present run. The audit hook stays until the process ends."""
    if not _present:
        sys.addaudithook(_opening)
    _present[:] = [hooks]


def _opening(event: str, about: tuple[object, ...]) -> None:
    """Look at every audit event; those of other files pass."""
    if event != "open" or not str(about[0]).endswith(SUFFIX):
        return
    writes = isinstance(about[2], int) and bool(about[2] & os.O_WRONLY)
    for hooks in _present:
        _strike(hooks, writes, str(about[0]))


def _strike(hooks: Hooks, writes: bool, path: str) -> None:
    """Carry out the faults that are due when a process opens a file of spilled state."""

    def strike(number: int, fault: Fault) -> None:
        if hooks.claim(number) and fault.kind == "kill":
            kill(hooks.folder, fault.victim)

    hooks.reach("spill" if writes else "unspill", strike)
    if writes and hooks.spill_full:
        raise OSError(errno.ENOSPC, "No space left on device, as the schedule says", path)
