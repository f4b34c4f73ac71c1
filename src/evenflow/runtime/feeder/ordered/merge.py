"""The ordered merge: a reorder buffer that gives results back in the order in which their frames were first sent.

Or, where order does not matter, in the order in which they are complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import ProtocolError


@dataclass(slots=True)
class _Slot:
    """One frame's place."""

    parts: dict[int, list[Any]] = field(default_factory=dict)
    """The answer so far of each worker that has the frame."""
    size: dict[int, int] = field(default_factory=dict)
    """Bytes of these parts, by worker."""
    answer: list[Any] | None = None
    """The first answer that was complete."""
    age: tuple[float, int] = (0.0, 0)
    """When its rows arrived, and how many."""


class OrderedMerge:
    """Results in as they come, batches out in order; with `ordered=False`, out as they come (ordered-regions §4.1).

    A frame is announced by `expect`, once for each worker that has it, and new frames are numbered without a gap. The
    first complete answer counts; it leaves through `ready` once all before it are answered, or at once. Later answers
    are taken and thrown away. The caller bounds the memory: it sees `held_bytes`, and whom to read from (`head_owners`)
    to make room.
    """

    def __init__(self, ordered: bool = True) -> None:
        self._ordered = ordered
        self.held_bytes = 0
        """Of answers that wait for earlier ones, and of parts of answers."""
        self._slots: dict[int, _Slot] = {}
        self._head = 0
        """The sequence that leaves next, if they leave in order."""
        self._complete: list[int] = []
        """Sequences that leave next, if they leave as they come."""
        self._ages: list[tuple[float, int]] = []
        self._spare: set[tuple[int, int]] = set()
        """Worker and sequence of answers that will come too late."""

    def __len__(self) -> int:
        return len(self._slots)

    def expect(self, owner: int, sequence: int, arrived: float = 0.0, rows: int = 0) -> None:
        """Worker `owner` is sent a frame: the next, of `rows` rows that have `arrived` then, or one others have too."""
        self._slots.setdefault(sequence, _Slot(age=(arrived, rows))).parts[owner] = []

    def add(self, owner: int, sequence: int, part: Any, size: int, last: bool) -> bool:
        """Take a part of an answer, of `size` bytes; whether it completed the first answer to its frame."""
        if (owner, sequence) in self._spare:
            if last:
                self._spare.discard((owner, sequence))
            return False
        slot = self._slots.get(sequence)
        if slot is None or slot.answer is not None or owner not in slot.parts:
            raise ProtocolError(f"worker {owner} answered frame {sequence}, which is not waiting for its answer")
        slot.parts[owner].append(part)
        slot.size[owner] = slot.size.get(owner, 0) + size
        self.held_bytes += size
        if not last:
            return False
        for other in [worker for worker in slot.parts if worker != owner]:
            self._forgo(slot, other)
            self._spare.add((other, sequence))
        slot.answer = slot.parts.pop(owner)
        if not self._ordered:
            self._complete.append(sequence)
        return True

    def lose(self, owner: int) -> None:
        """Worker `owner` will answer nothing more: throw away the parts of its answers."""
        self._spare = {(worker, sequence) for worker, sequence in self._spare if worker != owner}
        for slot in self._slots.values():
            if slot.answer is None and owner in slot.parts:
                self._forgo(slot, owner)

    def ready(self) -> list[Any]:
        """The parts that may leave now, in order or as they came."""
        while self._ordered and (slot := self._slots.get(self._head)) is not None and slot.answer is not None:
            self._complete.append(self._head)
            self._head += 1
        leaving = [self._slots.pop(sequence) for sequence in self._complete]
        self._complete.clear()
        self._ages += [slot.age for slot in leaving]
        self.held_bytes -= sum(sum(slot.size.values()) for slot in leaving)
        return [part for slot in leaving for part in slot.answer or ()]

    def ages(self) -> list[tuple[float, int]]:
        """When the rows of the frames that left since the last call had arrived, and how many, frame by frame."""
        ages, self._ages = self._ages, []
        return ages

    @property
    def head_owners(self) -> set[int]:
        """The workers that have the first unanswered frame, for which everything behind it waits.

        If nothing waits for others, those that have the first frame of whose answer parts are here.
        """
        open_ones = (slot for slot in self._slots.values() if slot.answer is None and (self._ordered or slot.size))
        return next((set(slot.parts) for slot in open_ones), set())

    def _forgo(self, slot: _Slot, owner: int) -> None:
        del slot.parts[owner]
        self.held_bytes -= slot.size.pop(owner, 0)
