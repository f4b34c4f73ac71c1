"""The merger: a reorder buffer that gives results back in the order in which their frames were sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import ProtocolError


@dataclass(slots=True)
class _Slot:
    """One frame's place: who may answer it, and what they have answered so far."""

    rows: int
    parts: dict[int, list[Any]]
    size: dict[int, int] = field(default_factory=dict)
    answer: list[Any] | None = None


class Merger:
    """Sequence numbers out, results in, batches in order out.

    Every sequence is issued by `expect`, may be given to further workers by `also`, is answered by whichever of them is
    first, and leaves through `ready` once it and all before it are answered. Later answers are taken and thrown away.
    Held memory is the caller's to bound: it sees `held_bytes`, and who can answer the head, which everything waits for.
    """

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        self._next = 0
        self._head = 0
        self._spare: set[tuple[int, int]] = set()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._slots)

    def expect(self, owner: int, rows: int) -> int:
        """Issue the next sequence number to a frame of `rows` rows sent to worker `owner`."""
        sequence = self._next
        self._next += 1
        self._slots[sequence] = _Slot(rows, {owner: []})
        return sequence

    def also(self, owner: int, sequence: int) -> None:
        """The frame was sent to worker `owner` too."""
        self._slots[sequence].parts[owner] = []

    def add(self, owner: int, sequence: int, part: Any, size: int, last: bool) -> bool:
        """Take a part of an answer; whether it completed the first answer to its frame."""
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
        return True

    def lose(self, owner: int) -> list[int]:
        """Worker `owner` will answer nothing more; the sequences that now nobody is going to answer."""
        self._spare = {(worker, sequence) for worker, sequence in self._spare if worker != owner}
        orphans = []
        for sequence, slot in self._slots.items():
            if slot.answer is None and owner in slot.parts:
                self._forgo(slot, owner)
                if not slot.parts:
                    orphans.append(sequence)
        return orphans

    def ready(self) -> list[Any]:
        """The parts that may leave now, in order."""
        parts: list[Any] = []
        while (slot := self._slots.get(self._head)) is not None and slot.answer is not None:
            parts.extend(slot.answer)
            self.held_bytes -= sum(slot.size.values())
            del self._slots[self._head]
            self._head += 1
        return parts

    @property
    def head_owners(self) -> set[int]:
        """The workers that have the first frame not answered yet, which everything behind it waits for."""
        return next((set(slot.parts) for slot in self._slots.values() if slot.answer is None), set())

    def waiting(self) -> dict[int, set[int]]:
        """Unanswered sequences, oldest first, and who has been asked."""
        return {sequence: set(slot.parts) for sequence, slot in self._slots.items() if slot.answer is None}

    def _forgo(self, slot: _Slot, owner: int) -> None:
        del slot.parts[owner]
        self.held_bytes -= slot.size.pop(owner, 0)
