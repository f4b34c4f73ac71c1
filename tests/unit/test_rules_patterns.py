"""Patterns, as tables: rows in, matches out. A row is written `A1`, its stream and x, at the second of its place."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.language.errors import RuleError, Text
from evenflow.rules.language.parser import parse
from evenflow.rules.patterns.matching import Patterns, TooManyWaiting
from evenflow.rules.patterns.waiting import LATEST

STREAMS = ("A", "B", "C")
SCHEMA = pa.schema([("x", pa.int64()), ("word", pa.string())])
SECOND = 1_000_000


def make(text, keep=None, **more):
    pattern = parse(text).pattern
    streams = dict.fromkeys(STREAMS, SCHEMA)
    if keep is None:
        found = Patterns(pattern, streams, [], text=Text(text), **more).plan.sources
        keep = [(tag, "x") for tag in found]
    return Patterns(pattern, streams, keep, text=Text(text), **more)


def push(patterns, rows, keys=None, times=None, words=None, start=0):
    count = len(rows)
    x = [None if row[1:] == "?" else int(row[1:]) for row in rows]
    batch = pa.RecordBatch.from_arrays([pa.array(x, pa.int64()), pa.array(words or ["w"] * count)], schema=SCHEMA)
    keys = np.array(keys or [0] * count, np.int64)
    times = np.array(times or range(start, start + count), np.int64) * SECOND
    streams = np.array([STREAMS.index(row[0]) for row in rows], np.int8)
    return patterns.push(batch, (keys % 4).astype(np.int32), keys, times, streams)


def found(text, rows, **more):
    """The matches, as tuples of the tags' x, in the order in which they were completed."""
    matches, _ = push(make(text), rows.split(), **more)
    return list(zip(*matches.to_pydict().values(), strict=True))


@pytest.mark.parametrize(
    ("pattern", "rows", "matches"),
    [
        # every
        ("a=A", "A1 A2", [(1,)]),
        ("every a=A", "A1 A2", [(1,), (2,)]),
        ("a=A -> b=B", "A1 A2 B3 A4 B5", [(1, 3)]),
        ("every (a=A -> b=B)", "A1 A2 B3 A4 B5", [(1, 3), (4, 5)]),
        ("every a=A -> b=B", "A1 A2 B3 A4 B5", [(1, 3), (2, 3), (4, 5)]),
        ("a=A -> every b=B", "A1 A2 B3 A4 B5", [(1, 3), (1, 5)]),
        ("every a=A -> every b=B", "A1 B2 A3 B4", [(1, 2), (1, 4), (3, 4)]),
        # what begins by a row sees the next only
        ("a=A -> b=A", "A1 A2", [(1, 2)]),
        ("every a=A -> b=A", "A1 A2 A3", [(1, 2), (2, 3)]),
        # filters that read earlier tags
        ("every a=A(x > 5) -> b=A(x < a.x)", "A9 A7 A8 A6", [(9, 7), (7, 6), (8, 6)]),
        ("every a=A -> b=B(x = a.x)", "A1 A2 B2 B1", [(2, 2), (1, 1)]),
        ("every a=A -> b=B(x + a.x = 10)", "A1 A2 B8 B9", [(2, 8), (1, 9)]),
        ("a=A -> b=B(b.x > a.x) -> c=C(x = a.x + b.x)", "A1 B1 B2 C2 C3", [(1, 2, 3)]),
        ("a=A -> b=B(x > a.x)", "A1 B? B2", [(1, 2)]),
        ("a=A -> b=B(x > a.x)", "A? B1 B2", []),
        # and, or
        ("a=A and b=B", "B1 A2 A3", [(2, 1)]),
        ("every (a=A and b=B)", "B1 A2 A3 B4", [(2, 1), (3, 4)]),
        ("(every a=A) and b=B", "A1 A2 B3 A4", [(1, 3), (2, 3), (4, 3)]),
        ("a=A or b=B", "B1 A2", [(None, 1)]),
        ("every (a=A or b=B)", "B1 A2", [(None, 1), (2, None)]),
        ("a=A and b=B and c=C", "C1 A2 B3", [(2, 3, 1)]),
        ("(a=A or b=B) -> c=C(x > a.x)", "B1 C5", []),
        # not
        ("every a=A -> (b=B and not C)", "A1 C2 A3 B4", [(3, 4)]),
        ("a=A -> (b=B and not C)", "A1 C2 B3", []),
        ("every a=A -> (b=B and not c=C(x = a.x))", "A1 A2 C1 B4", [(2, 4)]),
        ("every (b=B and not C)", "C1 B2 C3 B4", [(2,), (4,)]),
        ("a=A -> (b=B and not C and d=A)", "A1 B2 C3 A4", []),
        ("every (b=B and not [2:3] C)", "C1 C2 C3 B4", [(4,)]),
        ("b=A(x > 1) and not A(x > 1)", "A2", [(2,)]),  # the left one looks first
        ("not A(x > 1) and b=A(x > 1)", "A2", []),
        # repetition: the last row is the tag's, the first is tag[0]
        ("[3] a=A", "A1 A2 A3 A4 A5 A6", [(3, 1)]),
        ("every [2] a=A", "A1 A2 A3 A4 A5", [(2, 1), (4, 3)]),
        ("[2:3] a=A", "A1 A2 A3 A4", [(2, 1), (3, 1)]),
        ("[2:3] a=A -> b=B", "A1 A2 A3 B4 B5", [(2, 1, 4), (3, 1, 4)]),
        ("[2] (a=A -> b=B(x > a.x))", "A1 B2 A3 B1 B4", [(3, 1, 4, 2)]),
        # until: the last row of what is repeated is the tag's
        ("a=A until b=B", "A1 A2 B3 A4 B5", [(2, 1, 3)]),
        ("a=A until b=B", "B1", [(None, None, 1)]),
        ("every (a=A until b=B)", "A1 A2 B3 B4 A5 B6", [(2, 1, 3), (None, None, 4), (5, 5, 6)]),
        ("every ([2:] a=A until b=B)", "A1 B2 A3 A4 B5", [(4, 3, 5)]),
        ("every ([:2] a=A until b=B)", "A1 B2 A3 A4 B5", [(1, 1, 2), (4, 3, None), (None, None, 5)]),
        ("[1:2] a=A until b=B -> c=C", "A1 A2 C3", [(2, 1, None, 3)]),
        ("a=A -> (b=B(x > a.x) until C) -> d=A(x = b.x)", "A1 B2 B0 B4 C5 A2 A4", [(1, 4, 2, 4)]),
        ("a=A until timer:interval(2 sec)", "A0 A1 A2", [(1, 0)]),
        ("a=A until (b=B where timer:within(2 sec))", "A0 A1 A2 B3", []),
        ("(a=A where timer:within(2 sec)) until b=B", "A0 A1 C5 A6 B7", [(1, 0, 7)]),
        # time, in seconds from row to row
        ("every a=A -> b=B where timer:within(2 sec)", "A0 A1 B2", [(1, 2)]),
        ("every a=A -> (b=B -> c=C) where timer:within(3 sec)", "A0 B1 C2 A3 B4 A5 C6", [(0, 1, 2)]),
        ("(a=A and B) where timer:within(2 sec)", "B0 C1 A2", []),  # the key's first row begins it ...
        ("(a=A and B) where timer:within(2 sec)", "C0 C1 A2 B3", [(2,)]),  # ... that some atom may take
        ("every (a=A -> b=B where timer:within(2 sec))", "A0 A1 A2 B3", [(2, 3)]),
        ("(a=A where timer:within(1 sec)) or b=B", "C0 B1 A2", [(None, 1)]),
        # time that passes: noticed with the next row of the key, whichever that is
        ("every a=A -> (timer:interval(2 sec) and not B)", "A0 B1 A2 C3 B4", [(2,)]),  # b at the end of it is too late
        ("every a=A -> (timer:interval(2 sec) and not b=B(x = a.x))", "A0 A1 B1 C3", [(0,)]),
        ("every a=A -> timer:interval(2 sec) -> b=B", "A0 B1 B2", [(0, 2)]),
        ("a=A -> timer:interval(1 sec) -> b=B where timer:within(2 sec)", "A0 C1 C2 B3", []),
        ("a=A -> timer:interval(1 sec) -> b=B where timer:within(2 sec)", "A0 C1 B2", [(0, 2)]),
        ("a=A -> [2] timer:interval(1 sec) -> b=B", "A0 B1 C2 B3", [(0, 3)]),
        ("a=A -> (timer:interval(2 sec) or b=B)", "A0 C1 B2", [(0, None)]),
        ("timer:interval(2 sec) -> a=A", "A0 A1 A2", [(2,)]),
        ("a=A -> timer:interval(2 sec) where timer:within(2 sec)", "A0 C1 C2", []),  # what fails does so first
    ],
)
def test_matches(pattern, rows, matches):
    assert found(pattern, rows) == matches


@pytest.mark.parametrize("cut", range(5))
def test_frames_and_moves_change_nothing(cut):
    text = "every a=A -> (b=B and c=C(x > a.x)) where timer:within(9 sec)"
    rows = ["A1", "C2", "A3", "C4", "B5"]
    one, other = make(text), make(text)
    first, _ = push(one, rows[:cut])
    state = one.extract(0)
    assert one.extract(0) is None
    if state is not None:
        other.install(0, pickle.loads(pickle.dumps(state)))
    second, origin = push(other, rows[cut:], start=cut)
    assert first.num_rows == 0
    assert second.to_pylist() == [{"a.x": 1, "b.x": 5, "c.x": 2}, {"a.x": 3, "b.x": 5, "c.x": 4}]
    assert origin.tolist() == [4 - cut] * 2


def test_origin_is_the_row_that_completes():
    patterns = make("every a=A -> b=A(x > a.x)")
    matches, origin = push(patterns, ["A5", "A7", "A6", "A8", "A9"], keys=[1, 2, 1, 2, 1])
    assert list(zip(matches["a.x"].to_pylist(), matches["b.x"].to_pylist(), origin.tolist(), strict=True)) == [
        (5, 6, 2),
        (7, 8, 3),
        (6, 9, 4),
    ]


def test_an_ended_pattern_stays_ended_after_a_move():
    one, other = make("a=A"), make("a=A")
    assert push(one, ["A1"])[0].num_rows == 1
    other.install(0, one.extract(0))
    assert push(other, ["A2"])[0].num_rows == 0
    assert push(one, ["A2"], keys=[1])[0].num_rows == 1


def test_a_row_earlier_than_what_it_follows_is_passed_over():
    assert found("every a=A -> b=B", "A1 B2 B3", times=[5, 4, 6]) == [(1, 3)]
    assert found("(a=A and b=B) -> c=C", "A1 B2 C3 C4", times=[5, 3, 4, 5]) == [(1, 2, 4)]


@pytest.mark.parametrize(("lateness", "matches"), [(0, 0), (3 * SECOND, 1)])
def test_lateness_keeps_what_is_over_for_rows_of_its_time(lateness, matches):
    patterns = make("every (a=A -> b=B where timer:within(2 sec))", lateness=lateness)
    assert push(patterns, ["A1", "A3", "B2"], times=[0, 4, 1])[0].num_rows == matches


def test_a_row_at_the_end_of_the_time_is_too_late_whatever_the_lateness():
    patterns = make("a=A -> b=B where timer:within(2 sec)", lateness=3 * SECOND)
    assert push(patterns, ["A1", "B2", "B3"], times=[0, 2, 1])[0].to_pylist() == [{"a.x": 1, "b.x": 3}]


def test_other_keys_matter_not():
    rows = ["A1", "A2", "B3", "B4"]
    matches, origin = push(make("every a=A -> b=B"), rows, keys=[1, 2, 2, 1])
    assert matches.to_pylist() == [{"a.x": 2, "b.x": 3}, {"a.x": 1, "b.x": 4}]
    assert origin.tolist() == [2, 3]


def test_one_key_hash_in_two_units():
    patterns = make("every a=A -> b=B")
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3, 4]), pa.array(["w"] * 4)], schema=SCHEMA)
    units, keys = np.array([0, 1, 0, 1], np.int32), np.zeros(4, np.int64)
    matches, _ = patterns.push(batch, units, keys, np.arange(4), np.array([0, 0, 1, 1]))
    assert matches.to_pylist() == [{"a.x": 1, "b.x": 3}, {"a.x": 2, "b.x": 4}]


def test_filters_may_call_functions_and_compare_text():
    def longer(one, other):
        return one.str.len() - other.str.len()

    functions = {"longer": UserFunction(longer)}
    text = "every a=A -> b=B(longer(word, a.word) > 1 and word != a.word)"
    patterns = make(text, [("a", "word"), ("b", "word")], functions=functions)
    matches, _ = push(patterns, ["A1", "A2", "B3", "B4"], words=["x", "xyz", "xyz", "xyzzy"])
    assert matches.to_pylist() == [{"a.word": "x", "b.word": "xyz"}, {"a.word": "xyz", "b.word": "xyzzy"}]


def test_whole_numbers_are_compared_exactly():
    big = 1 << 60
    assert found("every a=A -> b=B(x > a.x)", f"A{big} B{big} B{big + 1}") == [(big, big + 1)]
    assert found("every a=A -> b=B(a.x = x)", f"A{big} B{big + 1} B{big}") == [(big, big)]


def test_matches_without_columns_are_counted():
    matches, origin = push(make("every A -> B", []), ["A1", "A2", "B3"])
    assert (matches.num_rows, origin.tolist()) == (2, [2, 2])


def test_too_many_under_way_is_an_error_with_a_remedy():
    patterns = make("every a=A -> b=B", most=10)
    push(patterns, ["A1"] * 9)
    with pytest.raises(TooManyWaiting, match=r"the key with hash 0 has 10 matches .* timer:within.* stricter filter"):
        push(patterns, ["A1"])
    with pytest.raises(TooManyWaiting):
        push(make("(every a=A) and b=B", most=10), ["A1"] * 10)


def test_what_is_over_is_removed():
    patterns = make("every a=A -> b=B where timer:within(2 sec)", most=10)
    for second in range(100):
        push(patterns, ["A1", "A2"], times=[second, second])
    assert patterns.sizes(np.array([0, 1]))[1] == 0
    push(patterns, ["A1"], times=[200])
    assert len(patterns._units[0][0].leaves) == 2
    assert len(patterns._units[0][0].deadlines) == 1


def test_a_key_that_waits_for_nothing_takes_no_memory():
    patterns = make("every a=A -> b=B")
    push(patterns, ["A1", "A2"], keys=[0, 1])
    assert (patterns.sizes(np.array([0, 1, 2])) > 0).tolist() == [True, True, False]
    push(patterns, ["B3", "C4"], keys=[0, 2])
    assert (patterns.sizes(np.array([0, 1, 2])) > 0).tolist() == [False, True, False]
    assert list(patterns._units) == [1]


def test_rows_that_are_not_needed_any_more_are_dropped():
    patterns = make("every (a=A -> b=B)")
    for start in range(0, 40_000, 2000):
        push(patterns, ["A1", "B2"] * 999 + ["A3", "C4"], keys=[*range(1000), *range(1000)], start=start)
    assert len(patterns._kept) < 10_000


def test_install_wants_an_empty_unit():
    patterns = make("every a=A -> b=B")
    push(patterns, ["A1"])
    with pytest.raises(ValueError, match="unit 0 is installed but has matches under way"):
        patterns.install(0, patterns.snapshot(0))


def test_a_frozen_unit_can_be_looked_at_and_goes_on():
    patterns = make("every a=A -> b=B")
    push(patterns, ["A1"])
    assert pickle.dumps(patterns.snapshot(0)) == pickle.dumps(patterns.snapshot(0))
    assert push(patterns, ["B2"])[0].to_pylist() == [{"a.x": 1, "b.x": 2}]


@pytest.mark.parametrize(
    ("pattern", "message", "column"),
    [
        ("a=Nothing", "unknown stream 'Nothing'", 1),
        ("a=A -> a=B", "tag 'a' is given twice", 8),
        ("a=A -> b=B(y = 1)", "unknown column 'y'", 12),
        ("a=A -> b=B(x = c.x)", "unknown stream or alias 'c'", 16),
        ("a=A and b=B(x = a.x)", "unknown stream or alias 'a'", 17),
        ("a=A -> (b=B and not c=C) -> d=A(x = c.x)", "unknown stream or alias 'c'", 37),
        ("a=A(word > 1)", "does not fit", 5),
        ("a=A(x)", "needs a condition", 5),
        ("a=A -> not B", "not needs something to wait for beside it", 8),
        ("not a=A and not B", "not needs something to wait for beside it", 1),
        ("every (a=A -> every b=B)", "every cannot stand inside every", 15),
        ("[2] every a=A", "every cannot stand inside a repetition", 5),
        ("[2] [1:2] a=A", "cannot stand inside a repetition", 5),
        ("a=A where timer:within(0 sec)", "is no span of time", 1),
    ],
)
def test_what_cannot_work_is_said_where_it_stands(pattern, message, column):
    with pytest.raises(RuleError, match=message) as error:
        make(pattern)
    assert error.value.column == column


def test_a_column_that_the_pattern_does_not_have_cannot_be_kept():
    with pytest.raises(ValueError, match=r"keeps b.x: the pattern has no such tag"):
        make("a=A", [("b", "x")])


def test_reads_and_schema():
    patterns = make("every a=A(x > 1) -> b=B(word = a.word)", [("a", "x")])
    assert patterns.reads == {("A", "x"), ("A", "word"), ("B", "word")}
    assert patterns.schema == pa.schema([("a.x", pa.int64())])
    patterns.warm_up(SCHEMA)
    assert push(patterns, ["A2", "B3"])[0].to_pylist() == [{"a.x": 2}]


def test_warming_up_calls_all_code_and_leaves_no_state():
    text = "every a=A -> b=B(x > a.x and word != a.word) -> c=C(x = b.x + 1)"
    patterns = make(text)
    patterns.warm_up(SCHEMA)
    assert not patterns._units
    matches, _ = push(patterns, ["A1", "B2", "C3"], words=["x", "y", "z"])
    assert matches.to_pylist() == [{"a.x": 1, "b.x": 2, "c.x": 3}]


def test_time_alone_completes_a_match():
    """At its time, in the order of times, once; and what comes after it begins then."""
    one, other = (make("every a=A -> timer:interval(3 sec) -> (timer:interval(2 sec) and not B)") for _ in range(2))
    push(one, ["A1", "A2", "A3"], keys=[0, 4, 0], times=[0, 1, 2])
    units = np.zeros(1, np.int32)
    assert one.on_time(units, 5 * SECOND - 1)[0].num_rows == 0
    other.install(0, pickle.loads(pickle.dumps(one.extract(0))))
    matches, times = other.on_time(units, 6 * SECOND)
    assert (matches.to_pylist(), times.tolist()) == ([{"a.x": 1}, {"a.x": 2}], [5 * SECOND, 6 * SECOND])
    assert push(other, ["B1"], start=6)[0].num_rows == 0  # the third was to wait until 7
    assert other.on_time(units, LATEST)[0].num_rows == 0
    assert other.extract(0) is None  # and no key is left


def test_a_time_that_must_wait_for_a_row_holds_up_nothing_else():
    """A within that begins again with the next row does not keep what is outside of it from its time."""
    patterns = make("every a=A -> (timer:interval(5 sec) and not (b=B and C) where timer:within(2 sec))")
    push(patterns, ["A1"])
    assert patterns.on_time(np.zeros(1, np.int32), 4 * SECOND)[0].num_rows == 0
    matches, times = patterns.on_time(np.zeros(1, np.int32), 9 * SECOND)
    assert (matches.to_pylist(), times.tolist()) == ([{"a.x": 1}], [5 * SECOND])


def test_waits_for_a_time_have_a_limit():
    patterns = make("every a=A -> timer:interval(1 hour)", most=3)
    with pytest.raises(TooManyWaiting, match="has 3 matches of the pattern under way"):
        push(patterns, ["A1", "A2", "A3"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("every timer:interval(5 sec) -> a=A", "every repeats something that needs no row: write a=Stream -> timer"),
        ("every (a=A or timer:interval(5 sec))", "every repeats something that needs no row"),
        ("a=A and not timer:interval(5 sec)", "not repeats something that needs no row: write ... where timer:within"),
        ("timer:interval(5 sec) until a=A", "until repeats something that needs no row"),
        ("[2] (a=A until b=B)", "until cannot stand inside a repetition"),
        ("[2:] a=A", "a repetition without a last number needs UNTIL"),
        ("every a=A until b=B", "'until' where"),
        ("a=A -> timer:interval(0 sec)", "timer:interval(0 sec) is no span of time to wait for"),
        ("timer:interval(5 sec)", "the pattern waits for no row: let it begin with one"),
    ],
)
def test_what_time_alone_cannot_begin_again(text, says):
    with pytest.raises(RuleError) as caught:
        make(text)
    assert says in str(caught.value)
