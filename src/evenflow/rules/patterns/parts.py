"""The operators of a pattern as it is written. `start` creates the state of a run, `thaw` restores a frozen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

from evenflow.rules.patterns.branching_states import All, Chain, Either, Ended
from evenflow.rules.patterns.states import (
    Again,
    Count,
    Env,
    Frozen,
    Hold,
    Leaf,
    OwningRun,
    Renewed,
    State,
    Timer,
    Unless,
    Wait,
)


class PatternPart(Protocol):
    """An operator of a pattern."""

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        """Begin a run at time `now` after the match `env`; rows at or after time `until` are too late."""

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        """Restore a frozen state."""

    def begins(self) -> list[AtomPart]:
        """The atoms that wait when a run begins."""

    def rooted(self) -> bool:
        """Whether a run depends on the time when it begins."""


@dataclass(frozen=True, eq=False)
class AtomPart:
    """Waits for a row. Atoms are numbered by `index`.

    `place` is where in a match its row goes, `first` where the first row goes if it is repeated; None without a tag.
    """

    index: int
    place: int | None
    first: int | None

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        leaf = Leaf(self, parent, until)
        leaf.env, leaf.age = env, -1
        key.wait(leaf)
        return leaf

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        leaf = Leaf(self, parent, until)
        env, leaf.age = frozen
        leaf.env = hold(env)
        key.wait(leaf)
        return leaf

    def begins(self) -> list[AtomPart]:
        return [self]

    def rooted(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class _One:
    """An operator with one operand."""

    pattern: PatternPart

    def begins(self) -> list[AtomPart]:
        return self.pattern.begins()

    def rooted(self) -> bool:
        return self.pattern.rooted()


@dataclass(frozen=True, eq=False)
class _Several:
    """An operator with several operands that begin together."""

    patterns: Sequence[PatternPart]

    def begins(self) -> list[AtomPart]:
        return [atom for pattern in self.patterns for atom in pattern.begins()]

    def rooted(self) -> bool:
        return any(pattern.rooted() for pattern in self.patterns)


@dataclass(frozen=True, eq=False)
class _Renewed(_One):
    """An operator that begins its operand again when that has ended or failed."""

    state: ClassVar[type[Renewed]]

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = self.state(self, parent, until)
        state.env = env
        state.child = self.pattern.start(key, state, env, now, until)
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        state = self.state(self, parent, until)
        env, child = frozen
        state.env = hold(env)
        state.child = self.pattern.thaw(key, state, child, hold, until)
        return state


@dataclass(frozen=True, eq=False)
class EveryPart(_Renewed):
    """`every pattern`."""

    state = Again


@dataclass(frozen=True, eq=False)
class FollowedPart(_Several):
    """`first -> second -> ...`."""

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = Chain(self, parent, until)
        state.links = {self.patterns[0].start(key, state, env, now, until): 0}
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        state = Chain(self, parent, until)
        state.links = {self.patterns[at].thaw(key, state, each, hold, until): at for at, each in frozen}
        return state

    def begins(self) -> list[AtomPart]:
        return self.patterns[0].begins()

    def rooted(self) -> bool:
        return self.patterns[0].rooted()


@dataclass(frozen=True, eq=False)
class AndPart(_Several):
    """`first and second and ...`; `places` are the places of a match that each operand fills."""

    places: Sequence[Sequence[int]]

    @cached_property
    def wanted(self) -> list[int]:
        """The numbers of the operands that must match."""
        return [number for number, pattern in enumerate(self.patterns) if not isinstance(pattern, NotPart)]

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = All(self, parent, until)
        state.env, state.found = env, [[] for _ in self.patterns]
        state.children = [pattern.start(key, state, env, now, until) for pattern in self.patterns]
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        state = All(self, parent, until)
        env, found, children = frozen
        state.env, state.found = hold(env), [[hold(each) for each in kept] for kept in found]
        key.stored += sum(map(len, state.found))
        state.children = _thawed(self.patterns, key, state, children, hold, until)
        return state


@dataclass(frozen=True, eq=False)
class OrPart(_Several):
    """`first or second or ...`."""

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = Either(self, parent, until)
        state.children = [pattern.start(key, state, env, now, until) for pattern in self.patterns]
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        state = Either(self, parent, until)
        state.children = _thawed(self.patterns, key, state, frozen, hold, until)
        return state


@dataclass(frozen=True, eq=False)
class NotPart(_Renewed):
    """`not pattern`, an operand of `and`."""

    state = Unless


@dataclass(frozen=True, eq=False)
class RepeatPart(_One):
    """`[least:most] pattern`; each run of the pattern gives one match."""

    least: int
    most: int

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = Count(self, parent, until)
        state.count, state.child = 0, self.pattern.start(key, state, env, now, until)
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        state = Count(self, parent, until)
        state.count, child = frozen
        state.child = self.pattern.thaw(key, state, child, hold, until)
        return state


@dataclass(frozen=True, eq=False)
class UntilPart(_Several):
    """`[least:most] first until second`; each run of the first gives one match. `places` are filled by the second."""

    least: int
    most: int | None
    places: Sequence[int]

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = Ended(self, parent, until)
        state.env, state.count = env, 0
        state.child, state.other = (pattern.start(key, state, env, now, until) for pattern in self.patterns)
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        state = Ended(self, parent, until)
        env, state.count, children = frozen
        state.env = hold(env)
        state.child, state.other = _thawed(self.patterns, key, state, children, hold, until)
        return state


@dataclass(frozen=True, eq=False)
class WithinPart(_One):
    """`pattern where timer:within(span)`; the span is in microseconds."""

    span: int

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        state = Timer(self, parent, min(until, now + self.span))
        state.deadline, state.age, state.over = now + self.span, -1, False
        key.remind(state)
        state.child = self.pattern.start(key, state, env, now, state.until)
        return state

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        deadline, age, child = frozen
        state = Timer(self, parent, min(until, deadline))
        state.deadline, state.age, state.over = deadline, age, False
        key.remind(state)
        state.child = self.pattern.thaw(key, state, child, hold, state.until)
        return state

    def rooted(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class IntervalPart:
    """`timer:interval(span)`; the span is in microseconds."""

    span: int

    def start(self, key: OwningRun, parent: State, env: Env, now: int, until: int) -> State:
        return self._begun(key, parent, until, now + self.span, -1, env)

    def thaw(self, key: OwningRun, parent: State, frozen: Frozen, hold: Hold, until: int) -> State:
        deadline, age, env = frozen
        return self._begun(key, parent, until, deadline, age, hold(env))

    def _begun(self, key: OwningRun, parent: State, until: int, deadline: int, age: int, env: Env) -> State:
        state = Wait(self, parent, until)
        state.deadline, state.age, state.env, state.over = deadline, age, env, False
        key.stored += 1
        key.remind(state)
        return state

    def begins(self) -> list[AtomPart]:
        return []

    def rooted(self) -> bool:
        return True


def _thawed(
    patterns: Sequence[PatternPart], key: OwningRun, state: State, frozen: Sequence[Frozen], hold: Hold, until: int
) -> list[State | None]:
    pairs = zip(patterns, frozen, strict=True)
    return [None if each is None else pattern.thaw(key, state, each[0], hold, until) for pattern, each in pairs]
