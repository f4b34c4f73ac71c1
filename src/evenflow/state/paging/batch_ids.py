"""Whose rows are still to be done: batches go by what their sender calls them, rows by the number of their batch."""

from __future__ import annotations

from typing import Any


class BatchIds:
    """Numbers rise with time, so that to sort rows by number is to sort them by arrival."""

    def __init__(self) -> None:
        self._numbers = 0
        self._tags: dict[int, tuple[Any, int]] = {}
        """By number: what the batch is called, and how many rows of that number are not done."""
        self._left: dict[Any, int] = {}
        """By what batches are called: how many of their rows are not done."""

    def number(self, tag: Any, rows: int) -> int:
        """A number for so many rows of a batch."""
        self._numbers += 1
        self._tags[self._numbers] = tag, rows
        self._left[tag] = self._left.get(tag, 0) + rows
        return self._numbers

    def subtract(self, number: int, rows: int) -> Any:
        """So many rows are done, or not here any more; what their batch is called."""
        tag, left = self._tags.pop(number)
        if left > rows:
            self._tags[number] = tag, left - rows
        self._left[tag] -= rows
        if not self._left[tag]:
            del self._left[tag]
        return tag

    def left(self, tag: Any) -> int:
        """Rows of a batch that are not done."""
        return self._left.get(tag, 0)
