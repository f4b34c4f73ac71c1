"""Patterns against their definition: any pattern, any rows, cut into any frames, units moved between two copies."""

import pickle
from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.rules.language import syntax as s
from evenflow.rules.patterns import waiting as pattern_waiting
from evenflow.rules.patterns.matching import Patterns
from tests.support.pattern_reference import Row, matches

pytestmark = pytest.mark.slow

STREAMS = ("Tick", "News")
SCHEMA = pa.schema([("x", pa.int64()), ("word", pa.string()), ("n", pa.int64())])
SECOND = 1_000_000


class Writer:
    """Writes a pattern that is allowed."""

    def __init__(self, draw, streams, least, waits):
        self.draw, self.streams, self.least, self.waits, self.tags = draw, streams, least, waits, 0

    def pattern(self, depth, seen, every=False, repeat=False, row=True):
        """A pattern; with `row`, one that is not true without a row."""
        kinds = ["atom", "atom"] if row else ["atom", "interval", "interval"]
        if depth:
            kinds += ["followed", "followed", "and", "or", "unless", "repeat", "within"]
            kinds += [] if every or repeat else ["every", "every"]
            kinds += [] if repeat else ["until", "until"]
        kind = self.draw(st.sampled_from(kinds))
        given = {"every": every, "repeat": repeat, "row": row}
        below = lambda seen, **more: self.pattern(depth - 1, seen, **{**given, **more})  # noqa: E731
        if kind == "atom":
            return self.atom(seen, repeat)
        if kind == "interval":
            return s.Interval(float(self.draw(st.integers(1, 6)))), seen
        if kind == "followed":
            left, known = below(seen)
            right, more = below(known, row=self.free())
            return s.Followed(left, right), more
        if kind in ("and", "or"):
            parts, known = [], set(seen)
            for number in range(self.draw(st.integers(2, 3))):
                part, more = below(seen, row=self.free() if kind == "and" and number else row)
                parts.append(part)
                known |= more
            whole = parts[0]
            for part in parts[1:]:
                whole = (s.And if kind == "and" else s.Or)(whole, part)
            return whole, known
        if kind == "unless":
            wanted, known = below(seen)
            never = s.Not(below(seen, row=True)[0])
            return (s.And(wanted, never) if self.draw(st.booleans()) else s.And(never, wanted)), known
        if kind == "repeat":
            least = self.draw(st.integers(1, 3))
            most = least if repeat else least + self.draw(st.integers(0, 2))
            part, known = below(seen, repeat=True, every=every)
            return s.Repeat(part, least, most), known
        if kind == "until":
            part, known = below(seen, repeat=True, row=True)
            until, more = below(seen)
            least = self.draw(st.integers(0, 2))
            most = self.draw(st.none() | st.integers(max(1, least), 3))
            return s.Until(part, until, least, most), known | more
        if kind == "within":
            part, known = below(seen)
            return s.Within(part, float(self.draw(st.integers(1, 6)))), known
        part, known = below(seen, every=True, row=True)
        return s.Every(part), known

    def free(self):
        """Whether the pattern beside one with a row must have a row, too."""
        return not self.waits or self.draw(st.booleans())

    def atom(self, seen, repeat):
        self.tags += 1
        tag = None if self.draw(st.integers(0, 5)) == 5 else f"t{self.tags}"
        conditions = [self.condition(seen) for _ in range(self.draw(st.sampled_from([0, 0, 1, 1, 2])))]
        whole = None
        for condition in conditions:
            whole = condition if whole is None else s.Binary("and", whole, condition)
        more = set() if tag is None else {tag, f"{tag}[0]"} if repeat else {tag}
        return s.Atom(tag, self.draw(st.sampled_from(self.streams)), whole), seen | more

    def condition(self, seen):
        name = self.draw(st.sampled_from(["x", "x", "word"]))
        operators = ["=", "<", ">", "!="] if name == "x" else ["=", "!="]
        other = s.Literal(
            self.least + self.draw(st.integers(0, 3)) if name == "x" else self.draw(st.sampled_from("ab"))
        )
        if seen and self.draw(st.booleans()):
            other = s.Column(self.draw(st.sampled_from(sorted(seen))), name)
        return s.Binary(self.draw(st.sampled_from(operators)), s.Column(None, name), other)


@st.composite
def cases(draw, in_order=False, waits=False):
    streams = STREAMS[: draw(st.integers(1, 2))]
    least = draw(st.sampled_from([0, 0, 1 << 60]))  # doubles do not tell such large numbers apart
    writer, depth = Writer(draw, streams, least, waits), draw(st.integers(0, 4))
    if waits and draw(st.booleans()):  # the commonest: a row, and after it no other within some time
        first, known = writer.atom(set(), False)
        wait = s.Interval(float(draw(st.integers(1, 6))))
        pattern = s.Followed(s.Every(first), s.And(wait, s.Not(writer.pattern(min(depth, 1), known)[0])))
    elif draw(st.booleans()):
        pattern = s.Every(writer.pattern(depth, set(), every=True)[0])
    else:
        pattern, _ = writer.pattern(depth, set())
    keys = draw(st.integers(1, 3))
    step = st.integers(0, 3) if in_order or draw(st.booleans()) else st.integers(-3, 4)
    row = st.tuples(
        st.integers(0, keys - 1),
        st.sampled_from(streams),
        step,
        st.none() | st.integers(0, 3) | st.integers(0, 3),
        st.sampled_from("ab"),
    )
    rows, now = [], 0
    for key, stream, by, x, word in draw(st.lists(row, min_size=draw(st.integers(0, 15)), max_size=25)):
        now += by
        rows.append(
            (key, Row(stream, now * SECOND, {"x": None if x is None else least + x, "word": word, "n": len(rows)}))
        )
    frames = draw(st.lists(st.tuples(st.integers(1, 8), st.lists(st.integers(0, 1), max_size=2)), max_size=8))
    return streams, pattern, rows, frames, 0 if in_order else draw(st.sampled_from([0, 0, 2]))


def push(copy, part, streams):
    batch = pa.RecordBatch.from_pylist([row.values for _, row in part], schema=SCHEMA)
    keys = np.array([key for key, _ in part], np.int64) * 7919
    units = np.array([key % 2 for key, _ in part], np.int32)
    times = np.array([row.time for _, row in part], np.int64)
    which = np.array([streams.index(row.stream) for _, row in part], np.int8)
    found, origin = copy.push(batch, units, keys, times, which if len(streams) > 1 else None)
    assert (np.diff(origin) >= 0).all()
    completed = [part[n][1].values["n"] for n in origin]
    return list(zip(completed, shown(found, len(origin)), strict=True))


def shown(found, count):
    """Matches as the tags and the numbers of their rows."""
    rows = found.to_pylist() if found.num_columns else [{}] * count
    return [frozenset((name[:-2], value) for name, value in match.items() if value is not None) for match in rows]


@settings(max_examples=300)
@given(cases() | cases(waits=True), st.sampled_from([1, 2, 8192]))
def test_matches_are_those_of_the_definition(case, ahead):
    with patch.multiple(pattern_waiting, AHEAD=min(16, ahead), PAIRS=ahead):
        check(case)


@settings(max_examples=240)
@given(cases(in_order=True) | cases(in_order=True, waits=True), st.integers(0, 2**32 - 1))
def test_time_that_passes_changes_no_match(case, seed):
    """Units are told at any moment that no row before some time comes any more; at last, that none comes at all."""
    random = np.random.default_rng(seed)
    rows = [row for _, row in case[2]]

    def passed(copies, owner, at):
        least = rows[at - 1].time if at else 0
        most = rows[at].time if at < len(rows) else least + 10 * SECOND
        for unit in range(2):
            if random.random() < 0.7:
                yield told(copies[owner[unit]], unit, int(random.integers(least, most + 1)))

    check(case, passed)


def told(copy, unit, now):
    """The matches that time completes."""
    found, times = copy.on_time(np.array([unit], np.int32), now)
    assert (np.diff(times) >= 0).all()
    assert (times <= now).all()
    return shown(found, len(times))


def check(case, passed=None):
    streams, pattern, rows, frames, late = case
    expected = Counter()
    copies = [
        Patterns(pattern, dict.fromkeys(streams, SCHEMA), [], lateness=late * SECOND, most=10**6) for _ in range(2)
    ]
    keep = [(tag, "n") for tag in copies[0].plan.sources]
    copies = [Patterns(pattern, dict.fromkeys(streams, SCHEMA), keep, lateness=late * SECOND) for _ in range(2)]
    for key in {key for key, _ in rows}:
        own = [row for other, row in rows if other == key]
        for n, env in matches(pattern, own, late * SECOND, passed is not None):
            tags = {(tag, own[at].values["n"]) for tag, at in env.items() if tag in copies[0].plan.sources}
            expected[None if n == len(own) else own[n].values["n"], frozenset(tags)] += 1
    owner, found, timely, at = {0: 0, 1: 1}, Counter(), Counter(), 0
    for size, moves in [*frames, (len(rows), [])]:
        part = rows[at : at + size]
        for found_by_time in passed(copies, owner, min(at, len(rows))) if passed else ():
            timely.update(found_by_time)
        at += size
        for copy in (0, 1):
            mine = [row for row in part if owner[row[0] % 2] == copy]
            found.update(push(copies[copy], mine, streams))
        for unit in moves:
            state = copies[owner[unit]].extract(unit)
            assert copies[owner[unit]].sizes(np.array([unit]))[0] == 0
            owner[unit] = 1 - owner[unit]
            if state is not None:
                copies[owner[unit]].install(unit, pickle.loads(pickle.dumps(state)))
    for unit in (0, 1) if passed else ():
        timely.update(told(copies[owner[unit]], unit, np.iinfo(np.int64).max))
    for match in list(timely.elements()):  # time has completed it before the row came with which it would have been
        n = next((n for n, tags in (expected - found) if tags == match), "nothing")
        found[n, match] += 1
    assert found == expected
    for copy in copies:
        for unit in (0, 1):
            copy.extract(unit)
        assert not any(copy._setting.waiting.leaves)  # nothing waits that belongs to nobody
