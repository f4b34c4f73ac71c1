"""Numbers for the batches of rows that are not all processed yet, and how many of their rows are left."""

from __future__ import annotations

from collections.abc import Hashable


class BatchIds:
    """Senders name their batches by tags. Numbers rise with time, so rows sorted by number are in order of arrival."""

    def __init__(self) -> None:
        self._numbers = 0
        self._tags: dict[int, tuple[Hashable, int]] = {}
        """By number: the tag of the batch, and how many rows with that number are left."""
        self._left: dict[Hashable, int] = {}
        """By tag: how many rows are left."""

    def number(self, tag: Hashable, rows: int) -> int:
        """A new number for `rows` rows of the batch `tag`."""
        self._numbers += 1
        self._tags[self._numbers] = tag, rows
        self._left[tag] = self._left.get(tag, 0) + rows
        return self._numbers

    def subtract(self, number: int, rows: int) -> Hashable:
        """Some rows with a number are processed, or have left; the tag of their batch."""
        tag, left = self._tags.pop(number)
        if left > rows:
            self._tags[number] = tag, left - rows
        self._left[tag] -= rows
        if not self._left[tag]:
            del self._left[tag]
        return tag

    def left(self, tag: Hashable) -> int:
        """How many rows of a batch are left."""
        return self._left.get(tag, 0)
