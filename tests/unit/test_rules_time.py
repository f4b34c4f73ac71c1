"""Time that passes without rows: batches come out, what waits too long is let go, windows that are empty too."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evenflow.errors import InvalidArgument
from evenflow.operators.time.timed import END
from evenflow.rules.operator import RuleOperator
from tests.support import timed_model
from tests.support.rules_time import SECOND, Moving, run

BATCH = "select k, count(*) n, sum(x) s from T.win:time_batch(10 sec) group by k"


def rows_of(keys, times, **more):
    count = len(keys)
    return pa.record_batch(
        {
            "k": pa.array(keys, pa.int64()),
            "t": pa.array(times, pa.int64()),
            "x": pa.array(np.arange(count, dtype=float)),
            **more,
        }
    )


def told(operator, seconds, *units):
    """What comes out when time has come so far."""
    found = operator.on_time(seconds * SECOND, np.array(units, np.int32))
    return [] if found is None else found.to_pylist()


def timed(rule, **more):
    return RuleOperator(rule, **{"key": ["k"], "time": "t", "in_order": True, **more})


def sparse(count=800, seed=1):
    """Many keys with few rows each."""
    random = np.random.default_rng(seed)
    return rows_of(
        random.integers(0, 300, count), np.sort(random.integers(0, 200, count)) - random.integers(0, 5, count)
    )


def windows(rows, span=10):
    found = {}
    for row in rows.to_pylist():
        found.setdefault((row["k"], row["t"] // span), []).append(row["x"])
    return found


def counted(found):
    return sorted((row["k"], row["n"], row["s"]) for row in found if row["n"] is not None)


@pytest.mark.parametrize(
    ("frame", "lateness"), [(None, None), *((frame, late) for frame in (None, 1, 100) for late in (0, 5, 1000))]
)
def test_every_window_comes_out_of_every_key(frame, lateness):
    rows = sparse()
    operator = timed(BATCH, lateness_s=lateness)
    found, late = run(operator, rows, rows["k"], frame=frame, lateness=lateness)
    kept = rows.take(pa.array([place for place in range(rows.num_rows) if place not in set(late)]))
    expected = sorted((key, len(x), sum(x)) for (key, _), x in windows(kept).items())
    assert counted(found) == expected
    beside = sorted((row["late"] for row in found if row.get("late")), key=lambda row: row["x"])
    assert beside == rows.take(pa.array(sorted(late), pa.int64())).to_pylist()
    assert lateness != 5 or not late


def test_windows_come_out_when_time_has_passed_and_not_before():
    rows = rows_of([1, 2, 3, 1], [3, 12, 30, 31])
    driver = Moving(timed(BATCH, lateness_s=5), rows, rows["k"], 4, lateness=5)
    driver.frame([0, 1])
    assert driver.results == []  # time is 7
    driver.frame([2])
    assert [(row["k"], row["n"]) for row in driver.results] == [(1, 1), (2, 1)]
    driver.frame([3])
    assert len(driver.results) == 2
    driver.tell(40)
    assert len(driver.results) == 2  # rows at 30 and 31 are held back
    driver.end()
    assert sorted((row["k"], row["n"]) for row in driver.results[2:]) == [(1, 1), (3, 1)]


def test_a_window_ends_at_its_end():
    rows = rows_of([1], [9])
    for now, out in ((9, 0), (10, 1)):
        operator = timed(BATCH)
        operator.process(rows, np.zeros(1, np.int32), np.ones(1, np.int64))
        assert len(told(operator, now, 0)) == out
    early = rows_of([1], [-1])  # before 1970
    operator = timed(BATCH)
    operator.process(early, np.zeros(1, np.int32), np.ones(1, np.int64))
    assert told(operator, -1, 0) == []
    assert len(told(operator, 0, 0)) == 1


def test_windows_come_in_the_order_of_their_ends_and_of_the_rules():
    rules = {
        "short": "select t, x from T.win:time_batch(5 sec)",
        "long": "select count(*) n from T.win:time_batch(10 sec)",
        "filtered": "select sum(x) s from T(x > 0).win:time_batch(5 sec) having sum(x) > 2",
        "none": "select x from T.win:length_batch(3)",
    }
    rows = rows_of([1, 2, 1, 2, 1], [1, 2, 4, 7, 11])
    operator = timed(rules)
    operator.process(rows, np.array([1, 2, 1, 2, 1], np.int32), rows["k"].to_numpy())
    shown = [(row["rule"], row["t"] or row["n"] or row["s"]) for row in told(operator, 100, 0, 1, 2, 3)]
    expected = "short 7, long 2, filtered 3.0, short 11, filtered 4.0, long 1"  # the first of each closed with rows
    assert ", ".join(f"{rule} {value}" for rule, value in shown) == expected
    assert told(operator, 200, 0, 1, 2, 3) == []
    assert operator.on_end(np.arange(4, dtype=np.int32)) is None  # length_batch is not full, and does not come
    assert told(operator, 300, *range(100)) == []  # units that never had a row


def test_batches_of_which_no_row_passes():
    rows = rows_of([1, 2, 3, 4], [1, 1, 1, 1])  # x is 0, 1, 2, 3
    for having, counts in (("", [0, 0, 0, 1]), ("having count(*) = 0", [0, 0, 0]), ("having max(x) = 3", [1])):
        operator = timed(f"select count(*) n from T.win:time_batch(10 sec) where x > 2 {having}")
        operator.process(rows, np.zeros(4, np.int32), rows["k"].to_numpy())
        assert sorted(row["n"] for row in told(operator, 10, 0)) == counts


def test_other_units_are_left_alone():
    rows = rows_of([1, 2], [1, 1])
    operator = timed(BATCH)
    operator.process(rows, np.array([1, 2], np.int32), np.array([1, 2]))
    assert [row["k"] for row in told(operator, 50, 2)] == [2]
    assert [row["k"] for row in told(operator, 50, 0, 1, 2)] == [1]


def test_state_that_comes_before_rows_comes_out_with_time():
    rows = rows_of([1, 1], [1, 2])
    one = timed(BATCH)
    one.process(rows, np.zeros(2, np.int32), np.ones(2, np.int64))
    state = one.extract(0)
    assert told(one, 1_000, 0) == []
    other = timed(BATCH)
    other.install(0, state)
    with pytest.raises(InvalidArgument, match="before it knows the columns"):
        told(other, 1_000, 0)
    other = timed(BATCH)
    other.reads(rows.schema)
    other.install(0, state)
    assert told(other, 1_000, 0) == [{"k": 1, "n": 2, "s": 1.0}]
    assert other.extract(0) is None


TWO = {"streams": {"P": ["k", "t", "x"], "A": ["k", "t", "x"]}, "stream_column": "s"}
FOLLOWED = "select p.x as p, a.x as a from pattern [every p=P -> a=A where timer:within(10 sec)]"


@pytest.mark.parametrize("frame", [None, 7, 60])
@pytest.mark.parametrize("first", ["A", "P"])
def test_two_streams_are_merged_by_their_times(frame, first):
    """All of one stream before all of the other in arrival: each person's auction comes five seconds after."""
    count = 60
    keys = np.arange(count) % 20
    at = np.arange(count) * 30
    people = rows_of(keys, at, s=pa.array(["P"] * count))
    auctions = rows_of(keys, at + 5, s=pa.array(["A"] * count))
    parts = [auctions, people] if first == "A" else [people, auctions]
    rows = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    lateness = None if frame is None else 10_000
    found, late = run(timed(FOLLOWED, lateness_s=lateness, **TWO), rows, rows["k"], frame=frame, lateness=lateness)
    assert sorted((row["p"], row["a"]) for row in found) == [(float(n), float(n)) for n in range(count)]
    assert not late


PATTERNS = [
    "every a=T(x > 0) -> b=T(x < 0) where timer:within(10 sec)",
    "every (a=T(x > 0) -> b=T(x < 0) where timer:within(10 sec))",
    "every (a=T(x > 0) -> b=T(x < 0)) where timer:within(10 sec)",
    "every a=T(x > 0) -> (b=T(x < 0) and not c=T(x = 0)) where timer:within(10 sec)",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_waits_for_too_long_is_let_go(pattern):
    operator = timed(pattern)
    count = 2_000
    rows = rows_of(range(count), np.arange(count) // 100, g=pa.array(["some text"] * count))
    operator.process(rows, (np.arange(count) % 4).astype(np.int32), np.arange(count))
    units = np.arange(4, dtype=np.int32)
    full = operator.sizes(units).sum()
    operator.on_time(20 * SECOND, units)
    half = operator.sizes(units).sum()
    operator.on_time(29 * SECOND, units)
    assert full > 1500 * count
    assert 0.4 * full < half < 0.6 * full
    assert operator.sizes(units).sum() == 0
    assert not any(operator._engine.rules[""].state._setting.waiting.leaves)
    assert all(operator.extract(int(unit)) is None for unit in units)


@pytest.mark.parametrize(
    "rule",
    [
        "select sum(x) from T.win:time(10 sec)",
        "select sum(x) from T(x >= 0).win:time(10 sec)",
        "select sum(x) from T.win:time(10 sec) group by g",
        "select max(A.x - B.x) from T.std:lastevent() A, T.win:time(10 sec) B",
        "select count(*) from T.std:groupwin(g).win:time_batch(10 sec)",
        "every a=T(x > 0) -> b=T(x < 0) where timer:within(10 sec)",
    ],
)
def test_nothing_stays_of_keys_that_come_no_more(rule):
    """One hundred keys a second, each for one second only."""
    operator = timed(rule)
    units, sizes = np.arange(4, dtype=np.int32), []
    for second in range(200):
        keys = np.arange(100) + 100 * second
        rows = rows_of(keys, np.full(100, second), g=pa.array((keys % 7).astype(str)))
        operator.process(rows, (keys % 4).astype(np.int32), keys)
        operator.on_time(second * SECOND, units)
        sizes.append(int(operator.sizes(units).sum()))
    assert max(sizes[100:]) < 1.5 * max(sizes[:40])
    for state in operator._engine.world.states:
        assert not hasattr(state, "slots") or len(state.slots) < 3_000


def test_a_long_open_batch_is_not_walked_for_every_row():
    """A window with many rows of one key takes each at the same cost."""
    count = 60_000
    rows = rows_of(np.zeros(count), np.arange(count) // 10_000)
    operator = timed("select count(*) n from T.win:time_batch(1 hour)")
    operator.process(rows, np.zeros(count, np.int32), np.zeros(count, np.int64))
    assert operator.on_end(np.zeros(1, np.int32)).to_pylist() == [{"n": count}]


DELAYING = [
    "(b=T(x < 0) -> a=T(x > 0)) where timer:within(7 sec)",
    "[1:2] (a=T(x > 0) where timer:within(2 sec))",
    "(b=T(x < 0) -> a=T(x > 0) where timer:within(2 sec)) or (c=T(x = 0) -> d=T(x > 0) where timer:within(1 sec))",
    "b=T(x < 0) -> every (([2] a=T(x > 0)) where timer:within(10 sec))",
    "every (([2] a=T(x > 0)) where timer:within(10 sec))",
    "every b=T(x < 0) -> (a=T(x > 0) and not (c=T(x = 0) where timer:within(3 sec))) where timer:within(9 sec)",
    "every (b=T(x < 0) -> (a=T(x > 0) where timer:within(4 sec) or c=T(x = 0) where timer:within(6 sec)))",
    "every b=T(x < 0) -> every (([2] a=T(x > 0)) where timer:within(5 sec)) where timer:within(20 sec)",
]


@pytest.mark.parametrize("pattern", DELAYING)
@pytest.mark.parametrize("seed", range(3))
def test_what_begins_anew_begins_with_a_row(pattern, seed):
    """A timer that makes something begin anew counts from the next row, however often time passes before."""
    random = np.random.default_rng(seed)
    times, keys = np.cumsum(random.integers(0, 6, 40)), random.integers(0, 3, 40)
    rows = rows_of(keys, times).set_column(2, "x", pa.array(random.integers(-1, 2, 40).astype(float)))
    plain, told_often = timed(pattern), timed(pattern)
    units = np.zeros(1, np.int32)
    for place in range(40):
        given = rows.slice(place, 1), units, keys[place : place + 1]
        assert plain.process(*given)[0].to_pylist() == told_often.process(*given)[0].to_pylist()
        for now in range(times[place], times[min(place + 1, 39)] + 1):
            told(told_often, now, 0)


@pytest.mark.parametrize("lateness", [None, 5, 40])
@pytest.mark.parametrize("copies", [1, 3])
def test_behind_rows_that_wait(lateness, copies):
    """As on a worker: rows and ticks of any units come, in frames, while units move."""
    rows = sparse()
    operator = timed(BATCH, lateness_s=lateness)
    operator.reads(rows.schema)
    world = timed_model.World(operator, rows.schema, [1], timed=lateness is not None, units=16, copies=copies)
    keys, latest = rows["k"].to_numpy(), 0
    for start in range(0, rows.num_rows, 100):
        world.feed(rows.slice(start, 100), keys[start : start + 100])
        if lateness is not None:
            latest = max(latest, pc.max(rows["t"].slice(start, 100)).as_py())
            world.tick((latest - lateness) * SECOND)
    world.tick(END)
    late = {row["late"]["x"] for row in world.rows() if row.get("late")}
    kept = rows.filter(pc.invert(pc.is_in(rows["x"], pa.array(sorted(late), pa.float64()))))
    expected = sorted((key, len(x), sum(x)) for (key, _), x in windows(kept).items())
    assert counted(world.rows()) == expected
    assert world.late == len(late)
    assert (lateness == 5) >= bool(late)


ALARM = "select a.x as x from pattern [every a=T(x < 400) -> (timer:interval(7 sec) and not b=T(x >= 400))]"


@pytest.mark.parametrize(
    ("frame", "lateness"), [(None, None), *((frame, late) for frame in (None, 1, 100) for late in (0, 5, 1000))]
)
def test_an_alarm_if_nothing_follows(frame, lateness):
    """Whatever frames, lateness and moves: with rows of its key, with those of others, or at the end."""
    rows = sparse()
    rows = rows.set_column(2, "x", pa.array(np.random.default_rng(3).permutation(rows.num_rows)))
    found, late = run(timed(ALARM, lateness_s=lateness), rows, rows["k"], frame=frame, lateness=lateness)
    kept = [row for place, row in enumerate(rows.to_pylist()) if place not in set(late)]
    kept = sorted(kept, key=lambda row: row["t"])  # stable, as the driver has it
    expected = []
    for place, a in enumerate(kept):
        after = (b["x"] >= 400 for b in kept[place + 1 :] if b["k"] == a["k"] and b["t"] < a["t"] + 7)
        expected += [a["x"]] if a["x"] < 400 and not any(after) else []
    assert sorted(row["x"] for row in found if row["x"] is not None) == sorted(expected)
    assert len(expected) > 100


def test_alarms_come_in_the_order_of_their_times_and_of_the_rules():
    rules = {
        "short": "select a.x as x from pattern [every a=T -> timer:interval(2 sec)]",
        "windows": "select count(*) n from T.win:time_batch(5 sec)",
        "long": "select a.x as x from pattern [every a=T -> timer:interval(5 sec)] where a.x > 0",
    }
    rows = rows_of([2, 1, 1], [0, 0, 3])
    operator = timed(rules)
    operator.process(rows, np.array([2, 1, 1], np.int32), rows["k"].to_numpy())
    assert told(operator, 1, 1, 2) == []
    found = [(row["rule"], row["x"], row["n"]) for row in told(operator, 9, 1, 2)]
    windows = [("windows", None, 2), ("windows", None, 1)]
    assert found == [("short", 0.0, None), ("short", 2.0, None), *windows, ("long", 1.0, None), ("long", 2.0, None)]


def test_alarms_by_the_rows_of_the_key_alone():
    """As rows arrive: the time of a key is that of its latest row, of any stream and content."""
    operator = RuleOperator(ALARM, key=["k"], time="t", as_they_come=True, lateness_s=3)
    rows = rows_of([1, 2, 1], [0, 50, 8])
    found, origin = operator.process(rows, np.zeros(3, np.int32), rows["k"].to_numpy())
    assert (found["x"].to_pylist(), origin.tolist()) == ([0.0], [2])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "Europe/Berlin")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.int32(), pa.int32()),
        (pa.float64(), pa.float64()),
    ],
)
def test_a_window_tells_its_edges_as_times(kind, expected):
    times = pa.array([3, 12, 31], pa.int64())
    times = times.cast(pa.timestamp("s")).cast(kind) if pa.types.is_timestamp(kind) else times.cast(kind)
    rule = "select window_start() a, window_end() b from T.win:time_batch(10 sec) having window_end() is not null"
    operator = timed(rule)
    rows = rows_of([1, 1, 1], [0, 0, 0]).set_column(1, "t", times)
    given, _ = operator.process(rows, np.zeros(3, np.int32), np.ones(3, np.int64))
    ended = operator.on_end(np.zeros(1, np.int32))
    assert given.schema == ended.schema == operator.schema(rows.schema)
    assert given.schema.field("a").type == expected
    found = pa.Table.from_batches([given, ended])
    numbers = [
        found[name].cast(expected if not pa.types.is_timestamp(expected) else pa.timestamp("us")) for name in "ab"
    ]
    scale = SECOND if pa.types.is_timestamp(expected) else 1
    assert [each.cast(pa.int64()).to_pylist() for each in numbers] == [
        [start * scale for start in (0, 10, 30)],
        [end * scale for end in (10, 20, 40)],
    ]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("select window_end() from T.win:time(10 sec)", "window_end() stands in rules over win:time_batch"),
        ("select window_end() from T", "window_end() stands in rules over win:time_batch"),
        ("select window_start() from T.win:length_batch(3)", "window_start() stands in rules over win:time_batch"),
        ("select x from T.win:time_batch(10 sec) where window_end() > 3", "window_end() cannot stand in WHERE"),
        ("select window_end() from T.win:time_batch(500 msec)", "needs a timestamp as time="),
    ],
)
def test_edges_of_what_has_none(rule, says):
    with pytest.raises(InvalidArgument) as caught:
        timed(rule).schema(rows_of([1], [0]).schema)
    assert says in str(caught.value)
