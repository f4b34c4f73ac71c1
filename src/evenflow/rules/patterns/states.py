"""What a key's pattern is waiting for: a tree of states, one for each operator that has begun.

A state is one run through a part of the pattern (see `pattern_parts`). It tells its parent `true` (a match of the part;
`ended` if it can give no other) or `false` (it can give none any more). Leaves are atoms that wait for a row. `freeze`
turns a state into plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Env: TypeAlias = tuple[tuple[int, ...], int]
"""A match so far: the row in each place (-1 if none), and the latest of their times."""
Hold: TypeAlias = Callable[[Env], Env]


class Key(Protocol):
    """What states need of the key they belong to."""

    now: int
    """The time of the row that is being looked at."""
    stored: int
    """Matches kept by `and` until its other operands match too."""

    def wait(self, leaf: Leaf) -> None:
        """An atom begins to wait."""

    def leave(self, leaf: Leaf) -> None:
        """An atom waits no longer."""

    def remind(self, timer: Timer) -> None:
        """Call the timer's `expire` when its time is over."""

    def forget(self, timer: Timer) -> None:
        """A timer that is not needed any more."""


class State:
    """One run through a part."""

    __slots__ = ("parent", "part", "until")

    def __init__(self, part: Any, parent: State | None, until: int) -> None:
        self.part, self.parent, self.until = part, parent, until

    @property
    def above(self) -> State:
        """The parent, which all but the root have."""
        assert self.parent is not None
        return self.parent

    def true(self, key: Key, child: State, env: Env, ended: bool) -> None:
        """A child has matched."""
        raise NotImplementedError

    def false(self, key: Key, child: State) -> None:
        """A child can match no more."""
        raise NotImplementedError

    def delays(self, child: State) -> bool:
        """Whether what comes of a child's failing depends on when that is; else it makes no difference when.

        Where something begins anew that counts time from then on, the next row must be waited for.
        """
        return self.above.delays(self)

    def quit(self, key: Key) -> None:
        """Stop waiting."""
        raise NotImplementedError

    def fresh(self) -> bool:
        """Whether this is as it was when the key's pattern began, whatever its time."""
        raise NotImplementedError

    def freeze(self, hold: Hold) -> Any:
        """A plain value from which `Part.thaw` makes the same state; `hold` is called with each match so far."""
        raise NotImplementedError


class Leaf(State):
    """An atom that waits. `handle` is its place in the table of all that wait, `age` orders those of a key."""

    __slots__ = ("age", "env", "handle")
    env: Env
    age: int
    handle: int

    def hit(self, key: Key, row: int, time: int) -> None:
        """The row has come."""
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

    def quit(self, key: Key) -> None:
        key.leave(self)

    def fresh(self) -> bool:
        return True

    def freeze(self, hold: Hold) -> Any:
        return hold(self.env), self.age


class Renewed(State):
    """One run of its pattern at a time, each from the same matches so far; when one fails, another begins."""

    __slots__ = ("child", "env")
    env: Env
    child: State

    def false(self, key: Key, child: State) -> None:
        self.child = self.part.pattern.start(key, self, self.env, key.now, self.until)

    def delays(self, child: State) -> bool:
        rooted: bool = self.part.pattern.rooted()
        return rooted

    def quit(self, key: Key) -> None:
        self.child.quit(key)

    def fresh(self) -> bool:
        return self.child.fresh()

    def freeze(self, hold: Hold) -> Any:
        return hold(self.env), self.child.freeze(hold)


class Again(Renewed):
    """`every`: when its pattern has ended, well or not, another run of it begins."""

    __slots__ = ()

    def true(self, key: Key, child: State, env: Env, ended: bool) -> None:
        if ended:
            self.false(key, child)
        self.above.true(key, self, env, False)


class Unless(Renewed):
    """`not`: false as soon as its pattern matches; it watches for another if that fails."""

    __slots__ = ()

    def true(self, key: Key, child: State, env: Env, ended: bool) -> None:
        if not ended:
            child.quit(key)
        self.above.false(key, self)


class Count(State):
    """Repetition: one run after the other, true after each from the least number on."""

    __slots__ = ("child", "count")
    count: int
    child: State

    def true(self, key: Key, child: State, env: Env, ended: bool) -> None:
        self.count += 1
        over = self.count == self.part.most
        if not over:
            self.child = self.part.pattern.start(key, self, env, env[1], self.until)
        if self.count >= self.part.least:
            self.above.true(key, self, env, over)

    def false(self, key: Key, child: State) -> None:
        self.above.false(key, self)

    def quit(self, key: Key) -> None:
        self.child.quit(key)

    def fresh(self) -> bool:
        return self.count == 0 and self.child.fresh()

    def freeze(self, hold: Hold) -> Any:
        return self.count, self.child.freeze(hold)


class Timer(State):
    """`timer:within`: false when its time is over. `child` is None once it is done."""

    __slots__ = ("age", "child", "deadline")
    deadline: int
    age: int
    child: State | None

    def true(self, key: Key, child: State, env: Env, ended: bool) -> None:
        if ended:
            self._done(key)
        self.above.true(key, self, env, ended)

    def false(self, key: Key, child: State) -> None:
        self._done(key)
        self.above.false(key, self)

    def expire(self, key: Key) -> None:
        """The time is over."""
        if self.child is not None:
            self.child.quit(key)
            self.child = None
            self.above.false(key, self)

    def _done(self, key: Key) -> None:
        self.child = None
        key.forget(self)

    def quit(self, key: Key) -> None:
        if self.child is not None:
            self.child.quit(key)
            self._done(key)

    def fresh(self) -> bool:
        return False

    def freeze(self, hold: Hold) -> Any:
        assert self.child is not None
        return self.deadline, self.age, self.child.freeze(hold)
