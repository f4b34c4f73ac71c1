"""A worker's memory for state, shared by all evaluations of its keyed operators (flux §6.1).

There are no pages: operators keep their state in arrays of their own, so the pool counts bytes. A member tells what it
holds after every step, and asks before it takes more. Nobody is interrupted: whoever has to give memory up does so at
once, in the caller's turn.
"""

from __future__ import annotations

from typing import Protocol

from evenflow.errors import InvalidArgument

IDLE_S = 5.0
"""Who has had no rows for so long gives up its memory before those who have."""


class Member(Protocol):
    """One evaluation's state."""

    used: float
    """When it was last worked with."""

    def give_up(self, amount: int) -> None:
        """Put state on disk, at least `amount` bytes if there is so much."""


class Pool:
    """`budget` bytes, and who holds how much of them; without a budget nothing is ever spilled."""

    def __init__(self, budget: int | None = None) -> None:
        if budget is not None and budget < 1:
            raise InvalidArgument(f"a memory budget of {budget} bytes: give a positive number, or None for no budget")
        self.budget = budget
        self.held = 0
        self.peak = 0
        """The most that was ever held."""
        self._members: dict[Member, int] = {}

    def join(self, member: Member) -> None:
        """From now on `member` takes part."""
        self._members[member] = 0

    def leave(self, member: Member) -> None:
        """`member` holds nothing any more."""
        self.held -= self._members.pop(member, 0)

    def holds(self, member: Member, amount: int) -> None:
        """`member` holds so many bytes now."""
        self.held += amount - self._members[member]
        self._members[member] = amount
        self.peak = max(self.peak, self.held)

    def over(self, more: int = 0) -> int:
        """Bytes beyond the budget if `more` are taken; 0 if they fit."""
        return 0 if self.budget is None else max(0, self.held + more - self.budget)

    def limit(self, member: Member) -> int:
        """Bytes that `member` may hold while the others keep theirs, or its fair share if that is more."""
        if self.budget is None:
            return 1 << 62
        return max(self.budget - self.held + self._members[member], self.budget // max(1, len(self._members)))

    def ask(self, member: Member, amount: int, *, everything: bool = False) -> None:
        """Have others give up `amount` bytes: the idle, and who has more than a fair share; or whoever has any."""
        if self.budget is None:
            return
        fair = self.budget // max(1, len(self._members))
        others = [other for other in self._members if other is not member]
        idle = {id(other): member.used - other.used >= IDLE_S for other in others}
        others.sort(key=lambda other: (not idle[id(other)], -self._members[other]))
        wanted = self.held - amount
        for other in others:
            spare = self._members[other] - (0 if everything or idle[id(other)] else fair)
            if self.held > wanted and spare > 0:
                other.give_up(min(spare, self.held - wanted))

    def donate(self, amount: int) -> None:
        """Allow so many bytes more."""
        self._resize(amount)

    def relinquish(self, amount: int) -> None:
        """Allow so many bytes less; what is too much goes to disk now, those who hold most first."""
        self._resize(-amount)
        for member in sorted(self._members, key=lambda each: -self._members[each]):
            if over := self.over():
                fair = (self.budget or 0) // len(self._members)
                member.give_up(min(over, max(0, self._members[member] - fair)))
        for member in self._members:
            if over := self.over():
                member.give_up(over)

    def _resize(self, change: int) -> None:
        if self.budget is None:
            raise InvalidArgument("memory cannot be donated or taken back where there is no budget: give one first")
        if self.budget + change < 1:
            raise InvalidArgument(f"{-change} bytes cannot be taken from a budget of {self.budget}: leave some")
        self.budget += change
