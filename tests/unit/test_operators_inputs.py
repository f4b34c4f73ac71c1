"""Two inputs that are read at different speeds: time is the least of what they have reached, and nothing is lost."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.operators.joins.join import WindowJoin
from evenflow.operators.joins.sided_join import SIDE, SidedJoin
from evenflow.operators.time.inputs import EVER, InputProgress, Inputs
from evenflow.operators.time.overtaken import KEYS
from evenflow.operators.time.timed import END, FLUSH
from evenflow.rules.operator import RuleOperator
from tests.support.timed_model import World

S = 1_000_000
ROWS = pa.schema({SIDE: pa.int32(), "k": pa.int64(), "at": pa.int64(), "left.n": pa.int64(), "right.n": pa.int64()})
SIDES = Inputs(SIDE, ("left", "right"))


def drawn(count=240, keys=5, seed=1, span=400):
    """(side, key, second, number) of both sides, in the order of time."""
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, span, count)).tolist()
    sides, whose = random.integers(0, 2, count).tolist(), random.integers(0, keys, count).tolist()
    return list(zip(sides, whose, at, range(count), strict=True))


def paced(rows, batches, speeds, files=16):
    """The rows of each micro-batch: each side is cut into files by time, and read at its own speed."""
    sides = [[row for row in rows if row[0] == side] for side in (0, 1)]
    cut = [
        [mine[part * len(mine) // files : (part + 1) * len(mine) // files] for part in range(files)] for mine in sides
    ]
    for number in range(batches):
        yield [
            row
            for parts, speed in zip(cut, speeds, strict=True)
            for part in parts[number * speed : (number + 1) * speed]
            for row in part
        ]


def batch_of(rows):
    columns = zip(*((s, k, at, n if s == 0 else None, n if s else None) for s, k, at, n in rows), strict=True)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)


def reached(rows, lateness):
    """What a tick says of a micro-batch: by side the latest time less the lateness."""
    found = [max((at * S for s, _, at, _ in rows if s == side), default=None) for side in (0, 1)]
    return [EVER if each is None else each - lateness * S for each in found]


def run(world, rows, lateness, speeds, batches=16, on_the_way=None, closing=None, walls=None):
    """Micro-batch by micro-batch; `on_the_way` is called in the middle, `closing` is a last time of both inputs."""
    for number, some in enumerate(paced(rows, batches, speeds)):
        if number == batches // 2 and on_the_way is not None:
            on_the_way()
        if some:
            world.feed(batch_of(some), [k for _, k, _, _ in some])
            told = reached(some, lateness)
            world.tick(max(told), *told, number * S if walls is None else walls[number])
    if closing is not None:
        world.tick(closing * S, closing * S, closing * S, 100 * S)


def pairs(rows, seconds):
    left, right = ([row for row in rows if row[0] == side] for side in (0, 1))
    return sorted(
        (k, n, m) for _, k, at, n in left for _, other, then, m in right if k == other and abs(at - then) < seconds
    )


def joined(world):
    return sorted((row["k"], row["n"], row["m"]) for row in world.rows())


def tallied(world, name):
    return sum(copy.tallies().get(name, 0) for copy in world.copies)


def join(seconds=10, inputs=SIDES, **more):
    operator = SidedJoin(ROWS, {"k": "k", "left.n": "n"}, {"right.n": "m"}, span=seconds * S, time="at")
    return World(operator, ROWS, [2], inputs=inputs, **more)


@pytest.mark.parametrize("speeds", [(1, 4), (4, 1), (1, 16), (1, 1)], ids=str)
@pytest.mark.parametrize("lateness", [0, 10])
def test_a_join_finds_all_pairs_however_far_one_side_lags(speeds, lateness):
    rows = drawn()
    world = join(copies=3, seed=lateness)
    run(world, rows, lateness, speeds)
    assert joined(world) == pairs(rows, 10)
    assert len(joined(world)) > 100
    assert tallied(world, "late") == 0


def test_rows_leave_the_windows_once_the_slower_side_has_passed_them():
    rows = drawn(4000, span=4000)
    world = join(seconds=3)
    (copy,) = world.copies
    kept = []
    for some in paced(rows, 16, (1, 4)):
        told = reached(some, 0)
        world.feed(batch_of(some), [k for _, k, _, _ in some])
        world.tick(max(told), *told, 0)
        kept.append(int(copy.inner._state.held.sum()))
    assert max(kept) > 1000  # the right side, which is ahead, waits for the left
    assert kept[-1] < 20
    assert copy.inner._state.store.length < 1200


def test_a_restart_in_the_middle_of_the_lag_changes_nothing():
    rows, plain, again = drawn(), join(), join()

    def restart():
        fresh = pickle.loads(again.code)
        for unit in range(again.units):
            state = again.copies[0].snapshot(unit)
            if state is not None:
                fresh.install(unit, pickle.loads(pickle.dumps(state)))
        again.copies = [fresh]

    run(plain, rows, 5, (1, 4))
    run(again, rows, 5, (1, 4), on_the_way=restart)
    assert joined(again) == joined(plain) == pairs(rows, 10)
    assert (again.copies[0]._progress.reached == plain.copies[0]._progress.reached).all()
    assert again.copies[0].snapshot(0)[0] == plain.copies[0].snapshot(0)[0]


def test_rows_that_come_too_late_for_a_pair_are_counted_by_side():
    world = join(seconds=10)
    for rows in ([(0, 1, 0, 0), (0, 1, 100, 1), (1, 1, 101, 2)], [(1, 1, 3, 3), (1, 1, 50, 4), (0, 1, 100, 5)]):
        world.feed(batch_of(rows), [1] * 3)
        told = reached(rows, 0)
        world.tick(max(told), *told, 0)
    assert joined(world) == [(1, 1, 2), (1, 5, 2)]
    counted = world.copies[0].tallies()
    assert counted == {"late": 1, "late of left": 0, "late of right": 1}  # 3 s: the row at 0 s had left


def streams(inputs, **more):
    """A join rule over two streams, in the order of time."""
    schema = pa.schema({SIDE: pa.int32(), "k": pa.int64(), "at": pa.int64(), "n": pa.int64()})
    operator = RuleOperator(
        "select L.n as n, R.n as m from L.win:time(10 sec), R.win:time(10 sec)",
        key=["k"],
        time="at",
        lateness_s=5,
        streams={"L": ["k", "at", "n"], "R": ["k", "at", "n"]},
        stream_column=SIDE,
        in_order=True,
    )
    operator.reads(schema)
    return World(operator, schema, [2, 0], timed=True, inputs=inputs, result=operator.schema(schema), **more)


def feed_streams(world, rows, speeds, lateness=5, batches=16):
    schema = pa.schema({SIDE: pa.int32(), "k": pa.int64(), "at": pa.int64(), "n": pa.int64()})
    for number, some in enumerate(paced(rows, batches, speeds)):
        if some:
            columns = zip(*some, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            world.feed(pa.RecordBatch.from_arrays(arrays, schema=schema), [k for _, k, _, _ in some])
            told = reached(some, lateness)
            world.tick(max(told), *([*told, number * S] if world.copies[0].sources else []))
    end = 10_000 * S
    world.tick(end, *([end, end, 99 * S] if world.copies[0].sources else []))


def found(world):
    return sorted((row["n"], row["m"]) for row in world.rows() if row["late"] is None)


def test_rules_over_two_streams_find_what_they_find_in_a_batch():
    rows = drawn()
    whole = streams(None)
    feed_streams(whole, rows, (16, 16), batches=1)
    lagging = streams(Inputs(SIDE, ("L", "R")), copies=3)
    feed_streams(lagging, rows, (1, 4))
    assert found(lagging) == found(whole)
    assert len(found(whole)) > 100
    assert tallied(lagging, "late") == 0


def test_with_the_policy_max_rows_of_the_slower_stream_are_late_and_counted():
    rows = drawn()
    world = streams(Inputs(SIDE, ("L", "R"), policy="max"))
    feed_streams(world, rows, (1, 4))
    late = tallied(world, "late of L")
    assert tallied(world, "late") == late > 50
    assert tallied(world, "late of R") == 0
    assert sum(row["late"] is not None for row in world.rows()) == late


def progress(idle=None, policy="min", units=1):
    return InputProgress(Inputs("i", ("a", "b"), None if idle is None else idle * S, policy), units)


U = np.array([0], np.int32)


def told(known, a, b, wall):
    now = known.advance(U, np.array([EVER if each is None else each * S for each in (a, b)]), wall * S)
    return None if now[0] == EVER else int(now[0]) // S


def test_an_input_that_has_had_no_row_holds_time_back_and_an_idle_one_does_not():
    known = progress()
    assert told(known, 50, None, 0) is None
    assert told(known, 90, None, 10_000) is None
    assert told(known, 100, 20, 10_001) == 20
    assert told(known, None, 40, 10_002) == 40
    assert told(known, None, 300, 10_003) == 100
    assert told(known, 90, None, 10_004) == 100  # it never goes back
    idle = progress(idle=60)
    assert told(idle, 50, None, 1000) is None
    assert told(idle, 55, None, 1030) is None
    assert told(idle, 60, None, 1059) is None
    assert told(idle, 70, None, 1060) == 70
    assert told(idle, 80, 10, 1061) == 10  # back again: rows that time has passed are late
    assert told(idle, 85, None, 1091) == 10
    assert told(idle, 90, None, 1120) == 10
    assert told(idle, 95, None, 1121) == 95
    assert told(idle, 99, None, 900) == 10  # the clock has stepped back
    greatest = progress(policy="max")
    assert told(greatest, 50, None, 0) == 50
    assert told(greatest, 10, 20, 0) == 50


def test_an_input_is_not_idle_because_nothing_ran():
    """After an hour the first micro-batches have rows of one input; the other one's come a little later."""
    known, an_hour = progress(idle=60), 3600
    assert told(known, 50, 40, 1000) == 40
    assert told(known, 60, None, 1020) == 40
    assert told(known, 4000, None, 1020 + an_hour) == 40
    assert told(known, 4010, 70, 1025 + an_hour) == 70
    assert told(known, 4020, None, 1035 + an_hour) == 70
    assert told(known, 8000, None, 1035 + 2 * an_hour) == 70
    assert told(known, 8010, None, 1054 + 2 * an_hour) == 70
    assert told(known, 8020, None, 1055 + 2 * an_hour) == 8020
    seldom = progress(idle=60)
    assert [told(seldom, at, 5 if not at else None, at) for at in (0, 600, 1200, 1800)] == [0, 5, 1200, 1800]


def test_what_a_unit_knows_of_its_inputs_goes_with_it():
    one, other = progress(idle=60, units=2), progress(idle=60, units=2)
    for known in (one, other):
        told(known, 50, None, 1000)
        told(known, 60, None, 1030)
    other.install(1, other.extract(0))
    assert (other.reached[0] == EVER).all()
    other.install(0, other.extract(1))
    assert told(other, 70, None, 1060) == told(one, 70, None, 1060) == 70
    one.install(0, ((1,), (2,)))  # stored by a query that had one input
    assert one.look(0)[0] == (70 * S, EVER)


def test_the_latest_time_of_each_input_by_name_and_by_number():
    named, times = Inputs("tag", ("x", "y", "z")), pa.array([5, None, 7, 6], pa.int64())
    assert named.latest(pa.array(["x", "x", "y", "x"]), times, "at").tolist() == [6 * S, 7 * S, EVER]
    assert named.latest(pa.array(["z"] * 4), times, "at").tolist() == [EVER, EVER, 7 * S]
    assert named.latest(pa.array(["z"]), pa.array([None], pa.int64()), "at").tolist() == [EVER] * 3
    assert named.latest(pa.array([2, 2, 0, 2], pa.int32()), times, "at").tolist() == [7 * S, EVER, 6 * S]
    with pytest.raises(FunctionError, match="column 'tag' is 'w' in a row; inputs are 'x', 'y', 'z'"):
        named.latest(pa.array(["x", "w"]), times[2:], "at")
    numbered = Inputs("side", ("left", "right"))
    for kind, strange in ((pa.int32(), -1), (pa.int8(), 2), (pa.uint8(), 255), (pa.int64(), None)):
        found = f"column 'side' is {strange} in a row; inputs are 0 to 1, for 'left', 'right': give `inputs` a name fo"
        for column in ([strange], [0, 1, strange], [strange, 1, 1]):
            with pytest.raises(FunctionError, match=found):
                numbered.latest(pa.array(column, kind), pa.array([1] * len(column)), "at")
    assert WindowJoin("tag", "x", "y", rows=1).inputs == ("tag", ("x", "y"))


def test_the_end_of_a_batch_needs_no_progress():
    rows = drawn()
    world = join()
    world.feed(batch_of(rows), [k for _, k, _, _ in rows])
    world.tick(*[END] * 4)
    assert joined(world) == pairs(rows, 10)


def unwaited(batches, rows=ROWS, column=None, **more):
    """A join of the last rows, without a lateness: rows (side, key, time, number) by micro-batch."""
    operator = SidedJoin(rows, {"k": "k", "left.n": "n"}, {"right.n": "m"}, last=3)
    world = World(operator, rows, [2], inputs=SIDES, units=1, **more)
    for some in batches:
        batch = batch_of(some)
        if column is not None:
            batch = pa.RecordBatch.from_arrays(
                [*batch.columns[:2], column(batch["at"]), *batch.columns[3:]], schema=rows
            )
        world.feed(batch, [k for _, k, _, _ in some])
        world.tick(FLUSH)
    return world


def overtaken(world):
    return [tallied(world, f"late{of}") for of in ("", " of left", " of right")]


def test_without_a_lateness_rows_that_later_ones_of_their_key_have_overtaken_are_counted():
    first, then = [(0, 1, 5, 0), (1, 1, 100, 1), (0, 1, 7, 2)], [(0, 1, 20, 3), (1, 1, 130, 4), (0, 1, 30, 5)]
    world = unwaited([first, then])
    assert len(world.rows()) == 7
    assert overtaken(world) == [2, 2, 0]
    assert overtaken(unwaited([first, then, [(1, 1, 120, 6), (1, 1, 130, 7)]], copies=3)) == [3, 2, 1]


def test_keys_in_order_do_not_overtake_each_other():
    """Two keys of one unit, each perfectly in order."""
    assert overtaken(unwaited([[(0, 1, 500 + n, n), (1, 2, n, n)] for n in range(20)])) == [0, 0, 0]
    more = [[(n % 2, key, 10_000 * n + key, n) for key in range(3 * KEYS)] for n in range(3)]
    world = unwaited(more)
    assert overtaken(world) == [0, 0, 0]
    assert world.copies[0].sizes(U) == 16 * KEYS + world.copies[0].inner.sizes(U)
    assert overtaken(unwaited([*more, more[0][-10:]])) == [10, 10, 0]
    assert overtaken(unwaited([*more, more[0][:10]])) == [0, 0, 0]  # not known any more


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (pa.int64(), {5: None, 30: 2**62}),  # in microseconds or whatever
        (pa.float64(), {5: None, 30: float("nan")}),
        (pa.timestamp("us", "UTC"), {5: None}),
        (pa.date32(), {}),
    ],
    ids=str,
)
def test_the_order_may_be_of_any_number_or_time_and_null(kind, times):
    rows = ROWS.set(2, pa.field("at", kind))

    def column(at):
        given = [times.get(each, each) for each in at.to_pylist()]
        return pa.array(
            given, pa.int32() if kind == pa.date32() else None if kind == pa.float64() else pa.int64()
        ).cast(kind)

    batches = [[(0, 1, 5, 0), (1, 1, 10, 1)], [(0, 1, 5, 2), (0, 1, 9, 3), (1, 1, 30, 4)], [(1, 1, 20, 5)]]
    assert overtaken(unwaited(batches, rows, column)) == ([2, 1, 1] if times else [3, 2, 1])


def test_what_was_latest_goes_with_its_unit_and_comes_with_state_of_before():
    one, other = (unwaited([[(0, 1, 500, 0)]]).copies[0] for _ in range(2))
    state = one.extract(0)
    assert one.sizes(U) == 0
    other.extract(0)
    for stored, late in ((state, 1), ((state[0][0], *state[1:]), 0), ((state[0][:2], *state[1:]), 0)):
        other.install(0, stored)
        before = other.tallies()["late"]
        rows = batch_of([(0, 1, 20, 3)])
        other.process(other.whole(rows), U, np.array([1]))
        other.process(other.whole(pa.record_batch({"__evenflow_now": [FLUSH]})), U, np.array([1]))
        assert other.tallies()["late"] - before == late
        other.extract(0)
