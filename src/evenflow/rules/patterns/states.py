"""The state of a key's run: a tree of states, one for each operator that has begun.

A state is one run through a part of the pattern (see `parts`). It calls its parent's `true` when the part has matched
(`ended` if it cannot match again), or `false` when it cannot match any more. Leaves are atoms that wait for a row.
`freeze` turns a state into plain values. States of operators with several operands are in `branching_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol, TypeAlias

Env: TypeAlias = tuple[tuple[int, ...], int]
"""A match so far: the number of the row in each place (-1 if none), and the latest time of these rows."""
Hold: TypeAlias = Callable[[Env], Env]
Frozen: TypeAlias = Any
"""A state as numbers, tuples and lists, nested as the pattern is; only the part that froze it knows its shape."""


class OwningRun(Protocol):
    """The run that states belong to, as far as they need it."""

    now: int
    """The time of the current row."""
    stored: int
    """The number of matches that `and` keeps until its other operands match, too, or that wait for a time."""

    def wait(self, leaf: Leaf) -> None:
        """An atom begins to wait."""

    def leave(self, leaf: Leaf) -> None:
        """An atom no longer waits."""

    def remind(self, timer: PatternClock) -> None:
        """Call the timer's `expire` when its time is over."""

    def forget(self, timer: PatternClock) -> None:
        """The timer is not needed any more."""


class State:
    """One run through a part of the pattern; rows at or after time `until` are too late for it."""

    __slots__ = ("parent", "part", "until")

    part: Any
    """The operator in `parts` that made this state; each class of states has its class of parts, which imports it."""

    def __init__(self, part: object, parent: State | None, until: int) -> None:
        self.part, self.parent, self.until = part, parent, until

    @property
    def above(self) -> State:
        """The parent; the root has none."""
        assert self.parent is not None
        return self.parent

    def ancestors(self) -> Iterator[State]:
        """All states above this one."""
        state = self.parent
        while state is not None:
            yield state
            state = state.parent

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        """A child has matched."""
        raise NotImplementedError

    def false(self, key: OwningRun, child: State) -> None:
        """A child cannot match any more."""
        raise NotImplementedError

    def delays(self, child: State) -> State | None:
        """The state that begins again when a child fails, if the moment of failure makes a difference; else None.

        It does if the new run depends on the time. Then the child must not fail before the next row comes.
        """
        return self.above.delays(self)

    def quit(self, key: OwningRun) -> None:
        """End this state and all below it without a result."""
        raise NotImplementedError

    def fresh(self) -> bool:
        """Whether the state is as it was when the key's pattern began, apart from the time."""
        raise NotImplementedError

    def freeze(self, hold: Hold) -> Frozen:
        """A plain value from which `PatternPart.thaw` restores the state; `hold` translates row numbers in matches."""
        raise NotImplementedError


class Leaf(State):
    """An atom that waits. `handle` is its index in `WaitingAtoms`, `age` orders the atoms of a key."""

    __slots__ = ("age", "env", "handle")
    env: Env
    age: int
    handle: int

    def hit(self, key: OwningRun, row: int, time: int) -> None:
        """Take a row."""
        rows, latest = self.env
        atom = self.part
        if atom.place is not None:
            bound = list(rows)
            bound[atom.place] = row
            if atom.first is not None and bound[atom.first] < 0:
                bound[atom.first] = row
            rows = tuple(bound)
        key.leave(self)
        self.above.true(key, self, (rows, max(latest, time)), True)

    def quit(self, key: OwningRun) -> None:
        key.leave(self)

    def fresh(self) -> bool:
        return True

    def freeze(self, hold: Hold) -> Frozen:
        return hold(self.env), self.age


class Renewed(State):
    """One run of the operand at a time, each after the same match `env`; when one fails, another begins."""

    __slots__ = ("child", "env")
    env: Env
    child: State

    def false(self, key: OwningRun, child: State) -> None:
        self.child = self.part.pattern.start(key, self, self.env, key.now, self.until)

    def delays(self, child: State) -> State | None:
        return self if self.part.pattern.rooted() else None

    def quit(self, key: OwningRun) -> None:
        self.child.quit(key)

    def fresh(self) -> bool:
        return self.child.fresh()

    def freeze(self, hold: Hold) -> Frozen:
        return hold(self.env), self.child.freeze(hold)


class Again(Renewed):
    """`every`: when a run of the operand has ended or failed, another begins."""

    __slots__ = ()

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        if ended:
            self.false(key, child)
        self.above.true(key, self, env, False)


class Unless(Renewed):
    """`not`: false as soon as its operand matches; if a run of the operand fails, another begins."""

    __slots__ = ()

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        if not ended:
            child.quit(key)
        self.above.false(key, self)


class Count(State):
    """Repetition: one run of the operand after the other; true after each match from the least number on."""

    __slots__ = ("child", "count")
    count: int
    child: State

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        self.count += 1
        over = self.count == self.part.most
        if not over:
            self.child = self.part.pattern.start(key, self, env, env[1], self.until)
        if self.count >= self.part.least:
            self.above.true(key, self, env, over)

    def false(self, key: OwningRun, child: State) -> None:
        self.above.false(key, self)

    def quit(self, key: OwningRun) -> None:
        self.child.quit(key)

    def fresh(self) -> bool:
        return self.count == 0 and self.child.fresh()

    def freeze(self, hold: Hold) -> Frozen:
        return self.count, self.child.freeze(hold)


class PatternClock(State):
    """Something that happens at the time `deadline`, unless it is `over` by then. `age` orders the clocks of a key."""

    __slots__ = ("age", "deadline", "over")
    rank: ClassVar[int]
    """Of clocks with the same deadline, the one with the lower rank goes first: failures before matches."""
    deadline: int
    age: int
    over: bool

    def expire(self, key: OwningRun) -> None:
        """The time has come."""
        raise NotImplementedError

    def fresh(self) -> bool:
        return False


class Timer(PatternClock):
    """`timer:within`: false when its time is over."""

    __slots__ = ("child",)
    rank = 0
    child: State

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        if ended:
            self._done(key)
        self.above.true(key, self, env, ended)

    def false(self, key: OwningRun, child: State) -> None:
        self._done(key)
        self.above.false(key, self)

    def expire(self, key: OwningRun) -> None:
        self.over = True
        self.child.quit(key)
        self.above.false(key, self)

    def _done(self, key: OwningRun) -> None:
        self.over = True
        key.forget(self)

    def quit(self, key: OwningRun) -> None:
        if not self.over:
            self.child.quit(key)
            self._done(key)

    def freeze(self, hold: Hold) -> Frozen:
        return self.deadline, self.age, self.child.freeze(hold)


class Wait(PatternClock):
    """`timer:interval`: true when its time has come, if that is before `until`.

    The next operand begins at that time, even if the run notices it later.
    """

    __slots__ = ("env",)
    rank = 1
    env: Env

    def expire(self, key: OwningRun) -> None:
        self.over = True
        key.now = self.deadline
        key.stored -= 1
        rows, latest = self.env
        self.above.true(key, self, (rows, max(latest, self.deadline)), True)

    def quit(self, key: OwningRun) -> None:
        self.over = True
        key.stored -= 1
        key.forget(self)

    def freeze(self, hold: Hold) -> Frozen:
        return self.deadline, self.age, hold(self.env)
