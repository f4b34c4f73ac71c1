"""A local disk for spilled state with the faults of the schedule: it is full, or a process that uses it is killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evenflow.errors import SpillError
from evenflow.state.paging.spill import Part, Segment
from evenflow.torture.hooks import Hooks, kill
from evenflow.torture.schedule import Fault

_append, _read = Segment.append, Segment.read


def install(hooks: Hooks) -> None:
    """Make this process's spilling faulty for the present run; Spark reuses processes for the next runs."""

    def strike(number: int, fault: Fault) -> None:
        if hooks.claim(number) and fault.kind == "kill":
            kill(hooks.folder, fault.victim)

    def append(segment: Segment, items: Iterable[tuple[int, list[Part]]]) -> None:
        hooks.reach("spill", strike)
        if hooks.spill_full:
            raise SpillError(f"cannot write to {segment.path}: No space left on device, as the schedule says")
        _append(segment, items)

    def read(segment: Segment, numbers: Iterable[int]) -> Iterator[tuple[int, list[memoryview]]]:
        hooks.reach("unspill", strike)
        return _read(segment, numbers)

    Segment.append = append  # type: ignore[method-assign, assignment]
    Segment.read = read  # type: ignore[method-assign, assignment]
