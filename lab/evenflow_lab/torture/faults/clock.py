"""A wall clock that steps, as when somebody sets it: `time.time` of a process that has these hooks."""

from __future__ import annotations

import time

from evenflow_lab.torture.faults.hooks import REAL_TIME, Hooks
from evenflow_lab.torture.schedule import Fault


def install(hooks: Hooks, who: str) -> None:
    """Have this process, a `worker` or a `driver`, see the steps of the present run; without any, its true clock."""
    steps = [(number, fault.seconds) for number, fault in enumerate(hooks.schedule.faults) if _hits(fault, who)]

    def stepped() -> float:
        return REAL_TIME() + sum(seconds for number, seconds in steps if hooks.done(number))

    time.time = stepped if steps else REAL_TIME


def _hits(fault: Fault, who: str) -> bool:
    return fault.kind == "step" and fault.victim == who
