"""Nodes of graphs against plain loops over rows, with any cuts into batches and units that move at any time."""

import pickle

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.graph.build.binding import bind
from evenflow.graph.hashing import hashes_of
from evenflow.graph.reference import evaluate

LEFT = pa.schema([("k", pa.string()), ("j", pa.int32()), ("a", pa.int64()), ("t", pa.int64())])
RIGHT = pa.schema([("b", pa.string()), ("u", pa.int64()), ("k", pa.string()), ("j", pa.int32())])
KEYS = st.tuples(st.sampled_from(["x", "y", "", None]), st.sampled_from([0, 1, None]))


@st.composite
def arrivals(draw):
    """Rows of both sides in the order of arrival: (side, (k, j), time), each with its number."""
    rows = draw(st.lists(st.tuples(st.integers(0, 1), KEYS, st.integers(0, 30)), max_size=60))
    cuts = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    return rows, cuts


def batches(rows, cuts):
    """The rows as batches of one side each: a batch ends where the side changes, and where `cuts` says so."""
    found = []
    for number, ((side, key, time), cut) in enumerate(zip(rows, cuts, strict=True)):
        if cut or not found or found[-1][0] != side:
            found.append((side, []))
        found[-1][1].append((number, key, time))
    return [(side, batch(side, part)) for side, part in found]


def batch(side, part):
    if side == 0:
        rows = [{"k": k, "j": j, "a": number, "t": time} for number, (k, j), time in part]
    else:
        rows = [{"k": k, "j": j, "b": str(number), "u": time} for number, (k, j), time in part]
    made = pa.RecordBatch.from_pylist([{}, *rows], schema=RIGHT if side else LEFT)
    return made.slice(1)  # arrays of a slice begin in the middle of their buffers


def naive(rows, most, span):
    """Pairs of (left, right) numbers, by a loop over all rows that came before."""
    pairs = []
    for number, (side, key, _) in enumerate(rows):
        if None in key:
            continue
        seen = [place for place in range(number + 1) if rows[place][1] == key]
        latest = max(rows[place][2] for place in seen)
        if span and rows[number][2] <= latest - span:
            continue
        others = [place for place in seen[:-1] if rows[place][0] != side]
        if span:
            others = sorted(
                (place for place in others if rows[place][2] > latest - span), key=lambda p: (rows[p][2], p)
            )
        others = others[-most:] if most else others
        pairs += [(other, number) if side else (number, other) for other in others]
    return pairs


def joined(rows, span, units):
    g = ef.Graph()
    window = {"rows": rows} if rows else {"seconds": span, "time": ("t", "u")}
    g.endpoint("out", g.source("left").join(g.source("right"), on=["k", "j"], units=units, **window))
    return bind(g, {"left": LEFT, "right": RIGHT}).nodes[0].operator


def moved(copies, owner, unit, target):
    """Let a unit go to another copy, pickled as on its way between workers."""
    state = copies[owner[unit]].extract(unit)
    owner[unit] = target
    if state is not None:
        copies[target].install(unit, pickle.loads(pickle.dumps(state)))


@settings(max_examples=150, deadline=None)
@given(
    arrivals(),
    st.sampled_from([(1, 0), (2, 0), (5, 0), (0, 4), (0, 15)]),
    st.sampled_from([1, 3]),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 3), st.integers(0, 1)), max_size=8),
)
def test_joins_are_a_loop_over_pairs(given_rows, window, units, moves):
    rows, cuts = given_rows
    operator = joined(*window, units)
    copies, owner = [operator.fresh(), operator.fresh()], [0] * operator.units
    found = []
    for number, (side, each) in enumerate(batches(rows, cuts)):
        for when, unit, target in moves:
            if when == number and unit < operator.units:
                moved(copies, owner, unit, target)
        unit_of, keys = operator.routed(side, each)
        for place, copy in enumerate(copies):
            mine = np.flatnonzero(np.array(owner)[unit_of] == place)
            if len(mine):
                result = copy.process(side, each.take(pa.array(mine)), unit_of[mine], keys[mine])
                assert result.schema.names == ["k", "j", "a", "t", "b", "u"]
                found += result.select(["a", "b", "k", "j"]).to_pylist()
    pairs = [(row["a"], int(row["b"])) for row in found]
    expected = naive(rows, *window)
    assert sorted(pairs) == sorted(expected)
    if units == 1:
        assert pairs == expected, "by the arriving row, then oldest first"
    for row in found:
        assert (row["k"], row["j"]) == rows[row["a"]][1] == rows[int(row["b"])][1]


TICKS = pa.schema([("k", pa.string()), ("v", pa.int64())])
PAIRS = st.lists(st.tuples(st.sampled_from(["x", "y", "z", None]), st.integers(-5, 5) | st.none()), max_size=40)


@settings(max_examples=100, deadline=None)
@given(
    PAIRS, st.integers(1, 5), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 1)), max_size=8)
)
def test_keyed_nodes_may_move_at_any_time(pairs, size, moves):
    g = ef.Graph()
    g.endpoint("out", g.source("ticks").keyed("k", ef.RollingSum("v", rows=3), units=4))
    plan = bind(g, {"ticks": TICKS})
    whole = pa.RecordBatch.from_pylist([{"k": k, "v": v} for k, v in pairs], schema=TICKS)
    parts = [whole.slice(start, size) for start in range(0, len(pairs), size)]
    expected = evaluate(plan, [("ticks", part) for part in parts])["out"].to_pylist()
    assert evaluate(plan, [("ticks", whole)])["out"].to_pylist() == expected
    operator = plan.nodes[0].operator
    copies, owner = [operator.fresh(), operator.fresh()], [0] * operator.units
    found = {}
    for number, part in enumerate(parts):
        for when, unit, target in moves:
            if when == number:
                moved(copies, owner, unit, target)
        unit_of, keys = operator.routed(0, part)
        for place, copy in enumerate(copies):
            mine = np.flatnonzero(np.array(owner)[unit_of] == place)
            if len(mine):
                result = copy.process(0, part.take(pa.array(mine)), unit_of[mine], keys[mine])
                found.update(zip((number * size + mine).tolist(), result.to_pylist(), strict=True))
    assert [found[place] for place in range(len(pairs))] == expected


COLUMNS = {
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=70),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, allow_nan=False, places=3),
    pa.decimal128(9, 1): st.decimals(-(10**7), 10**7, allow_nan=False, places=1),
    pa.timestamp("us"): st.datetimes(),
    pa.date32(): st.dates(),
    pa.time32("s"): st.times().map(lambda time: time.replace(microsecond=0)),
}


@st.composite
def key_columns(draw):
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    count = draw(st.integers(0, 12))
    lists = [draw(st.lists(COLUMNS[kind] | st.none(), min_size=count, max_size=count)) for kind in kinds]
    return [pa.array(values, kind) for values, kind in zip(lists, kinds, strict=True)]


@settings(max_examples=300, deadline=None)
@given(key_columns(), st.integers(0, 12), st.integers(0, 12))
def test_hashes_do_not_depend_on_where_rows_lie(columns, start, length):
    whole = hashes_of(columns)
    parts = [column.slice(start, length) for column in columns]
    assert hashes_of(parts).equals(whole.slice(start, length))
    apart = [pa.array(part.to_pylist(), part.type) for part in parts]
    assert hashes_of(apart).equals(whole.slice(start, length))


@settings(max_examples=300, deadline=None)
@given(key_columns())
def test_hashes_are_equal_where_keys_are(columns):
    def value(one):
        return "nan" if isinstance(one, float) and one != one else one

    keys = list(zip(*(map(value, column.to_pylist()) for column in columns), strict=True))
    found = hashes_of(columns).to_pylist()
    for one, key in zip(found, keys, strict=True):
        assert (one is None) == all(part is None for part in key)
        for other, second in zip(found, keys, strict=True):
            assert (one == other) == (key == second)


CONDITIONS = ["v > -2", "v < 3", "k != 'x'", "v % 2 = 0", "k is not null"]


def odd(rows):
    return pa.array([value is not None and value % 3 != 0 for value in rows.column("v").to_pylist()])


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.lists(st.sampled_from([*CONDITIONS, odd]), min_size=2, max_size=4), st.integers(1, 4))
def test_filters_that_commute_are_plain_filters(pairs, conditions, size):
    rows = pa.RecordBatch.from_pylist([{"k": k, "v": v} for k, v in pairs], schema=TICKS)
    parts = [("ticks", rows.slice(start, size)) for start in range(0, len(pairs), size)]
    tables = []
    for commutative in (False, True):
        g = ef.Graph()
        stream = g.source("ticks")
        for condition in conditions:
            stream = stream.filter(condition, commutative=commutative)
        g.endpoint("out", stream)
        plan = bind(g, {"ticks": TICKS})
        assert len(plan.nodes) == (1 if commutative else len(conditions))
        tables.append(evaluate(plan, parts)["out"].to_pylist())
    assert tables[0] == tables[1]
