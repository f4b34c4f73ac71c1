"""What a pattern means, by definition: slow, on the whole list of a key's rows at once, without any state.

`run` gives all that a pattern does which begins at some place: when it is true, and when and how it ends. A place is
(row, 0, (time, ...)) for what happens before a row is looked at, because of its time, and (row, 1, (atom,)) for what an
atom does. At the same time, what fails is before what is true, then what began earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree

Place = tuple[int, int, tuple[Any, ...]]
EVER = 1 << 62


@dataclass(frozen=True)
class Row:
    stream: str
    time: int
    values: dict[str, Any]


@dataclass(frozen=True)
class True_:
    place: Place
    env: dict[str, int]
    latest: int


@dataclass(frozen=True)
class Outcome:
    trues: list[True_]
    end: Place | None
    well: bool = False


def matches(
    pattern: s.Pattern, rows: list[Row], lateness: int = 0, ended: bool = False
) -> list[tuple[int, dict[str, int]]]:
    """The row that completes each match, and the row of each tag.

    With `ended`, all time has passed after the last row; what that completes has the number of a row after the last.
    """
    atoms = tree.atoms(pattern)
    waits = [node for node in tree.walk(pattern) if isinstance(node, s.Interval)]
    counted = [n for n, row in enumerate(rows) if waits or any(_alone(atom, row, atoms) for atom in atoms)]
    if not counted:
        return []
    known = [rows[n] for n in counted]
    if ended:
        counted.append(len(rows))
        known.append(Row("", EVER, {}))
    meaning = Meaning(known, atoms, waits, lateness, _repeated(pattern))
    found = meaning.run(pattern, (0, 0, ()), {}, -EVER, meaning.rows[0].time, EVER)
    return [(counted[true.place[0]], {tag: counted[n] for tag, n in true.env.items()}) for true in found.trues]


class Meaning:
    def __init__(self, rows, atoms, waits, lateness: int, repeated: set[str]) -> None:
        self.rows, self.atoms, self.waits, self.lateness, self.repeated = rows, atoms, waits, lateness, repeated

    def run(self, node, begin: Place, env, latest: int, now: int, until: int) -> Outcome:
        match node:
            case s.Atom():
                return self.atom(node, begin, env, latest, until)
            case s.Every():
                return self.every(node, begin, env, latest, now, until)
            case s.Followed():
                return self.followed(node, begin, env, latest, now, until)
            case s.And():
                return self.both(node, begin, env, latest, now, until)
            case s.Or():
                return self.either(node, begin, env, latest, now, until)
            case s.Repeat():
                return self.repeat(node, begin, env, latest, now, until)
            case s.Within():
                return self.within(node, begin, env, latest, now, until)
            case s.Until():
                return self.until(node, begin, env, latest, now, until)
            case s.Interval():
                return self.interval(node, begin, env, latest, now, until)
        raise TypeError(node)

    def after(self, begin: Place) -> range:
        return range(begin[0] + begin[1], len(self.rows))

    def atom(self, node, begin, env, latest, until) -> Outcome:
        for n in self.after(begin):
            row = self.rows[n]
            if row.stream == node.stream and latest <= row.time < until and self.passes(node, n, env):
                bound = dict(env)
                if node.tag is not None:
                    bound[node.tag] = n
                    if node.tag in self.repeated:
                        bound.setdefault(f"{node.tag}[0]", n)
                place = n, 1, (next(i for i, atom in enumerate(self.atoms) if atom is node),)
                return Outcome([True_(place, bound, max(latest, row.time))], place, True)
        return Outcome([], None)

    def passes(self, node, n, env) -> bool:
        own = {None, node.tag, node.stream}

        def value(column: s.Column):
            if column.owner in own:
                return self.rows[n].values[column.name]
            return self.rows[env[column.owner]].values[column.name] if column.owner in env else None

        return all(_holds(each, value) for each in tree.conjuncts(node.filter))

    def every(self, node, begin, env, latest, now, until) -> Outcome:
        trues: list[True_] = []
        while True:
            one = self.run(node.pattern, begin, env, latest, now, until)
            trues += one.trues
            if one.end is None:
                return Outcome(trues, None)
            begin, now = one.end, self.time(one.end)

    def followed(self, node, begin, env, latest, now, until) -> Outcome:
        left = self.run(node.left, begin, env, latest, now, until)
        rights = [self.run(node.right, t.place, t.env, t.latest, t.latest, until) for t in left.trues]
        trues = [true for right in rights for true in right.trues]
        if left.end is None or any(right.end is None for right in rights):
            return Outcome(trues, None)
        # a left that ended well began a right, which ends later
        end, well = max([(left.end, False)] + [(right.end, right.well) for right in rights])
        return Outcome(trues, end, well)

    def both(self, node, begin, env, latest, now, until) -> Outcome:
        nodes = chained(node)
        given = begin, env, latest, now, until
        wanted = {n: self.run(each, *given) for n, each in enumerate(nodes) if not isinstance(each, s.Not)}
        never = [self.unwanted(each.pattern, *given) for each in nodes if isinstance(each, s.Not)]
        fails = [each for each in never if each is not None]
        fails += [each.end for each in wanted.values() if each.end is not None and not each.well]
        trues = []
        for combination in product(*(each.trues for each in wanted.values())):
            place = max(true.place for true in combination)
            merged = dict(env)
            for n, true in zip(wanted, combination, strict=True):
                merged.update({tag: true.env[tag] for tag in tags(nodes[n]) if tag in true.env})
            trues.append(True_(place, merged, max(true.latest for true in combination)))
        done = None
        if all(each.well for each in wanted.values()):
            done = max(each.end for each in wanted.values())
        if fails and (done is None or min(fails) < done):
            return Outcome([true for true in trues if true.place < min(fails)], min(fails))
        return Outcome(trues, done, done is not None)

    def unwanted(self, node, begin, env, latest, now, until) -> Place | None:
        """Where what must not happen does."""
        while True:
            one = self.run(node, begin, env, latest, now, until)
            if one.trues:
                return min(true.place for true in one.trues)
            if one.end is None:
                return None
            begin, now = one.end, self.time(one.end)

    def either(self, node, begin, env, latest, now, until) -> Outcome:
        all_ = [self.run(each, begin, env, latest, now, until) for each in chained(node)]
        trues = [true for each in all_ for true in each.trues]
        well = [each.end for each in all_ if each.well]
        if well:
            return Outcome([true for true in trues if true.place <= min(well)], min(well), True)
        ends = [each.end for each in all_]
        return Outcome(trues, None if None in ends else max(ends))

    def repeat(self, node, begin, env, latest, now, until) -> Outcome:
        trues: list[True_] = []
        for count in range(1, node.most + 1):
            one = self.run(node.pattern, begin, env, latest, now, until)
            if not one.trues:
                return Outcome(trues, one.end)
            (true,) = one.trues
            begin, env, latest, now = true.place, true.env, true.latest, true.latest
            if count >= node.least:
                trues.append(true)
        return Outcome(trues, begin, True)

    def until(self, node, begin, env, latest, now, until) -> Outcome:
        other = self.run(node.until, begin, env, latest, now, until)
        stop = min(other.trues, key=lambda true: true.place, default=None)
        given = other.end if stop is None and other.end is not None and node.most is None else None  # q has failed
        count, dead = 0, stop is None and other.end is not None
        while True:
            one = self.run(node.pattern, begin, env, latest, now, until)
            ends = [stop.place] if stop else [given] if given else []
            happens = min([each for each in (one.end, *ends) if each is not None], default=None)
            if happens is None:
                return Outcome([], None)
            if stop and happens == stop.place:
                if count < node.least:
                    return Outcome([], happens)
                merged = env | {tag: stop.env[tag] for tag in tags(node.until) if tag in stop.env}
                return Outcome([True_(happens, merged, max(latest, stop.latest))], happens, True)
            if given and happens == given:
                return Outcome([], happens)
            if not one.trues:
                if count < node.least or (dead and other.end < happens):
                    return Outcome([], happens)
                if stop is None:
                    return Outcome([], other.end)  # q goes on alone; if it has failed, so has all
                if count >= node.least:
                    merged = env | {tag: stop.env[tag] for tag in tags(node.until) if tag in stop.env}
                    return Outcome([True_(stop.place, merged, max(latest, stop.latest))], stop.place, True)
            (true,) = one.trues
            count += 1
            begin, env, latest, now = true.place, true.env, true.latest, true.latest
            if count == node.most:
                return Outcome([true], true.place, True)

    def within(self, node, begin, env, latest, now, until) -> Outcome:
        limit = now + round(node.seconds * 1e6)
        one = self.run(node.pattern, begin, env, latest, now, min(until, limit))
        over = next((n for n in self.after(begin) if self.rows[n].time - self.lateness >= limit), None)
        if over is None:
            return one
        end = over, 0, (limit + self.lateness, 0)
        if one.end is not None and one.end < end:
            return one
        return Outcome([true for true in one.trues if true.place < end], end)

    def interval(self, node, begin, env, latest, now, until) -> Outcome:
        limit = now + round(node.seconds * 1e6)
        over = next((n for n in self.after(begin) if self.rows[n].time >= limit), None)
        if over is None or limit >= until:
            return Outcome([], None)
        which = next(i for i, wait in enumerate(self.waits) if wait is node)
        place = over, 0, (limit, 1, begin, which)
        return Outcome([True_(place, env, max(latest, limit))], place, True)

    def time(self, place: Place) -> int:
        """When something happened; what fails because of its time does so when the next row comes."""
        n, by_row, what = place
        return what[0] if not by_row and what and what[1] else self.rows[n].time


def chained(node) -> list[Any]:
    return [*(chained(node.left) if type(node.left) is type(node) else [node.left]), node.right]


def tags(node) -> list[str]:
    """The tags that a pattern may give."""
    if isinstance(node, s.Not):
        return []
    if isinstance(node, s.Atom):
        return [] if node.tag is None else [node.tag, f"{node.tag}[0]"]
    return [tag for child in tree.children(node) for tag in tags(child)]


def _repeated(node, inside: bool = False) -> set[str]:
    inside = inside or isinstance(node, s.Repeat)
    if isinstance(node, s.Atom):
        return {node.tag} if inside else set()
    if isinstance(node, s.Until):
        return _repeated(node.pattern, True) | _repeated(node.until, inside)
    return {tag for child in tree.children(node) for tag in _repeated(child, inside)}


def _alone(atom: s.Atom, row: Row, atoms: list[s.Atom]) -> bool:
    """Whether a row passes what the atom asks of it alone."""
    own = {None, atom.tag, atom.stream}
    parts = [each for each in tree.conjuncts(atom.filter) if {c.owner for c in _columns(each)} <= own]
    return row.stream == atom.stream and all(_holds(each, lambda column: row.values[column.name]) for each in parts)


def _columns(node) -> list[s.Column]:
    return [each for each in tree.walk(node) if isinstance(each, s.Column)]


def _holds(condition: s.Binary, value) -> bool:
    left, right = (
        each.value if isinstance(each, s.Literal) else value(each) for each in (condition.left, condition.right)
    )
    if left is None or right is None:
        return False
    return {"=": left == right, "<": left < right, ">": left > right, "!=": left != right}[condition.operator]
