"""A worker's memory for state, shared by all evaluations of its keyed operators (flux §6.1).

There are no pages: operators keep their state in arrays of their own, so the pool counts bytes. A member says how many
it holds after every step, and asks before it takes more. There are no threads: a member that has to give up memory does
so within the call of the one that asks.
"""

from __future__ import annotations

from typing import Protocol

from evenflow.errors import InvalidArgument

IDLE_S = 5.0
"""A member without rows for this long gives up memory before the others."""


class Member(Protocol):
    """The state of one evaluation."""

    used: float
    """When it last had rows, in seconds."""

    def give_up(self, amount: int) -> None:
        """Put at least `amount` bytes on disk, if it holds so many."""

    def check_fits(self, budget: int) -> None:
        """Raise a MemoryBudget if a unit of its alone is larger than so many bytes."""


class Pool:
    """`budget` bytes, and how many of them each member holds; without a budget nothing is ever spilled."""

    def __init__(self, budget: int | None = None) -> None:
        if budget is not None and budget < 1:
            raise InvalidArgument(f"a memory budget of {budget} bytes: give a positive number, or None for no budget")
        self.budget = budget
        self.held = 0
        self.peak = 0
        """The most that was ever held."""
        self._members: dict[Member, int] = {}

    def join(self, member: Member) -> None:
        """Add a member, which holds nothing yet."""
        self._members[member] = 0

    def leave(self, member: Member) -> None:
        """Remove a member, with all it holds."""
        self.held -= self._members.pop(member, 0)

    def holds(self, member: Member, amount: int) -> None:
        """Note how many bytes `member` holds now."""
        self.held += amount - self._members[member]
        self._members[member] = amount
        self.peak = max(self.peak, self.held)

    def over(self, more: int = 0) -> int:
        """Bytes beyond the budget if `more` are taken; 0 if they fit."""
        return 0 if self.budget is None else max(0, self.held + more - self.budget)

    def limit(self, member: Member) -> int:
        """Bytes that `member` may hold: what the others leave free, or its fair share if that is more."""
        if self.budget is None:
            return 1 << 62
        return max(self.budget - self.held + self._members[member], self.budget // max(1, len(self._members)))

    def ask(self, member: Member, amount: int, *, everything: bool = False) -> None:
        """Have others give up `amount` bytes: the idle, and what exceeds a fair share; or `everything` they hold."""
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

    def resize(self, budget: int) -> None:
        """Have another budget: donate what is more, relinquish what is less.

        Nothing has changed after an error: a unit would not fit, or the disk takes no more. What has gone to disk
        before that returns.
        """
        before = self.budget or 0
        if budget >= before:
            self.donate(budget - before)
            return
        for member in self._members:
            member.check_fits(budget)
        try:
            self.relinquish(before - budget)
        except BaseException:  # the user's code, when state is pickled; or a disk that is full
            self.budget = before
            raise

    def donate(self, amount: int) -> None:
        """Add bytes to the budget."""
        self._resize(amount)

    def relinquish(self, amount: int) -> None:
        """Take bytes from the budget; what exceeds it goes to disk now, that of the largest members first."""
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
