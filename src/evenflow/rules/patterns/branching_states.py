"""The states of operators with several operands: `->`, `and`, `or`, `until`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from evenflow.rules.patterns.states import Env, Frozen, Hold, OwningRun, State


class Chain(State):
    """`->`: each match of an operand begins a run of the next. `links` are the current runs, each with its operand."""

    __slots__ = ("links",)
    links: dict[State, int]

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        at = self.links[child] + 1
        if ended:
            del self.links[child]
        if at == len(self.part.patterns):
            self.above.true(key, self, env, not self.links)
        else:
            self.links[self.part.patterns[at].start(key, self, env, env[1], self.until)] = at

    def false(self, key: OwningRun, child: State) -> None:
        del self.links[child]
        if not self.links:
            self.above.false(key, self)

    def delays(self, child: State) -> State | None:
        return self.above.delays(self) if len(self.links) == 1 else None

    def quit(self, key: OwningRun) -> None:
        for link in self.links:
            link.quit(key)

    def fresh(self) -> bool:
        return all(at == 0 and link.fresh() for link, at in self.links.items())

    def freeze(self, hold: Hold) -> Frozen:
        return [(at, link.freeze(hold)) for link, at in self.links.items()]


class All(State):
    """`and`: the matches of each operand are kept in `found`, and combined with those of the others."""

    __slots__ = ("children", "env", "found")
    env: Env
    children: list[State | None]
    found: list[list[Env]]

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        at = self.children.index(child)
        if ended:
            self.children[at] = None
        self.found[at].append(env)
        key.stored += 1
        wanted = self.part.wanted
        matches = list(product(*([env] if n == at else self.found[n] for n in wanted)))
        over = bool(matches) and all(self.children[n] is None for n in wanted)
        for number, match in enumerate(matches, 1):
            last = over and number == len(matches)
            if last:
                self.quit(key)
            self.above.true(key, self, self._merged(dict(zip(wanted, match, strict=True))), last)
            if not self.found:
                return  # the parent has quit

    def _merged(self, match: dict[int, Env]) -> Env:
        env = self.env
        for at, found in match.items():
            env = _merged(env, found, self.part.places[at])
        return env

    def false(self, key: OwningRun, child: State) -> None:
        self.children[self.children.index(child)] = None
        self.quit(key)
        self.above.false(key, self)

    def quit(self, key: OwningRun) -> None:
        key.stored -= sum(map(len, self.found))
        for child in self.children:
            if child is not None:
                child.quit(key)
        self.found, self.children = [], []

    def fresh(self) -> bool:
        return not any(self.found) and all(child is not None and child.fresh() for child in self.children)

    def freeze(self, hold: Hold) -> Frozen:
        return hold(self.env), [[hold(each) for each in kept] for kept in self.found], _frozen(self.children, hold)


class Either(State):
    """`or`: ends when one operand has ended with a match, fails when all have failed."""

    __slots__ = ("children",)
    children: list[State | None]

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        if ended:
            self.children[self.children.index(child)] = None
            self.quit(key)
        self.above.true(key, self, env, ended)

    def false(self, key: OwningRun, child: State) -> None:
        self.children[self.children.index(child)] = None
        if not any(self.children):
            self.above.false(key, self)

    def delays(self, child: State) -> State | None:
        others = any(other is not None and other is not child for other in self.children)
        return None if others else self.above.delays(self)

    def quit(self, key: OwningRun) -> None:
        for child in self.children:
            if child is not None:
                child.quit(key)

    def fresh(self) -> bool:
        return all(child is not None and child.fresh() for child in self.children)

    def freeze(self, hold: Hold) -> Frozen:
        return _frozen(self.children, hold)


class Ended(State):
    """`until`: runs of the operand `child` one after the other, until `other` matches; `env` is the match so far.

    `child` is None when it has failed, `other` when it has.
    """

    __slots__ = ("child", "count", "env", "other")
    env: Env
    count: int
    child: State | None
    other: State | None

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        if child is self.other:
            self.other = None if ended else self.other
            self.quit(key)
            if self.count < self.part.least:
                self.above.false(key, self)
            else:
                self.above.true(key, self, _merged(self.env, env, self.part.places), True)
            return
        self.env, self.count, self.child = env, self.count + 1, None
        if self.count == self.part.most:
            self.quit(key)
            self.above.true(key, self, env, True)
        else:
            self.child = self.part.patterns[0].start(key, self, env, env[1], self.until)

    def false(self, key: OwningRun, child: State) -> None:
        over = self._fails_with(child)
        if child is self.child:
            self.child = None
        else:
            self.other = None
        if over:
            self.quit(key)
            self.above.false(key, self)

    def _fails_with(self, child: State) -> bool:
        """Whether no match is possible any more when a child fails."""
        if child is self.child:
            return self.other is None or self.count < self.part.least
        return self.child is None or self.part.most is None

    def delays(self, child: State) -> State | None:
        return self.above.delays(self) if self._fails_with(child) else None

    def quit(self, key: OwningRun) -> None:
        for child in (self.child, self.other):
            if child is not None:
                child.quit(key)
        self.child = self.other = None

    def fresh(self) -> bool:
        return self.count == 0 and all(child is not None and child.fresh() for child in (self.child, self.other))

    def freeze(self, hold: Hold) -> Frozen:
        return hold(self.env), self.count, _frozen([self.child, self.other], hold)


def _merged(env: Env, found: Env, places: Sequence[int]) -> Env:
    """A match, and the rows in some places of another."""
    rows = list(env[0])
    for place in places:
        rows[place] = found[0][place]
    return tuple(rows), max(env[1], found[1])


def _frozen(children: Sequence[State | None], hold: Hold) -> list[Frozen]:
    """The operands of a state, frozen; None where one has ended."""
    return [None if child is None else (child.freeze(hold),) for child in children]
