"""The merger: a reorder buffer that gives results back in the order in which their frames were sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import ProtocolError


@dataclass(slots=True)
class _Slot:
    owner: int
    rows: int
    parts: list[Any] = field(default_factory=list)
    size: int = 0
    done: bool = False


class Merger:
    """Sequence numbers out, results in, batches in order out.

    Every sequence is issued by `expect`, answered by one or more parts, and leaves through `ready` once it and all
    before it are complete. Held memory is the caller's to bound: it sees `held_bytes` and the owner of the head, the
    only one whose answer lets the buffer shrink.
    """

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        self._next = 0
        self._head = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._slots)

    def expect(self, owner: int, rows: int) -> int:
        """Issue the next sequence number to a frame of `rows` rows sent to worker `owner`."""
        sequence = self._next
        self._next += 1
        self._slots[sequence] = _Slot(owner, rows)
        return sequence

    def add(self, owner: int, sequence: int, part: Any, size: int, last: bool) -> int:
        """Take a part of an answer; the rows of the frame that this completes, or 0."""
        slot = self._slots.get(sequence)
        if slot is None or slot.done or slot.owner != owner:
            raise ProtocolError(f"worker {owner} answered frame {sequence}, which is not waiting for its answer")
        slot.parts.append(part)
        slot.size += size
        slot.done = last
        self.held_bytes += size
        return slot.rows if last else 0

    def ready(self) -> list[Any]:
        """The parts that may leave now, in order."""
        parts: list[Any] = []
        while (slot := self._slots.get(self._head)) is not None and slot.done:
            parts.extend(slot.parts)
            self.held_bytes -= slot.size
            del self._slots[self._head]
            self._head += 1
        return parts

    @property
    def head_owner(self) -> int | None:
        """The worker whose answer everything else waits for."""
        slot = self._slots.get(self._head)
        return None if slot is None else slot.owner

    def outstanding(self) -> dict[int, list[int]]:
        """Unanswered sequences by worker."""
        waiting: dict[int, list[int]] = {}
        for sequence, slot in self._slots.items():
            if not slot.done:
                waiting.setdefault(slot.owner, []).append(sequence)
        return waiting
