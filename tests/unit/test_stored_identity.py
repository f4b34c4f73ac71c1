"""Stored state is that of one operator: what changes its meaning is refused, or what comes out is right."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow import functions as F
from evenflow.errors import InvalidArgument
from evenflow.graph.build.binding import bind
from evenflow.graph.build.builder import Graph
from evenflow.operators.joins.sided_join import SIDE, SidedJoin
from evenflow.operators.keyed import identity
from evenflow.operators.windows.row_store import RowStore
from evenflow.rules.operator import RuleOperator

ROWS = pa.schema({"k": pa.int64(), "v": pa.int64(), "w": pa.float64(), "at": pa.timestamp("us", "UTC")})
SIDES = pa.schema({SIDE: pa.int32(), "k": pa.int64(), "left.a": pa.int64(), "right.b": pa.int64()})
UNITS, KEYS = np.zeros(2, np.int32), np.zeros(2, np.int64)
NEAR = {"seconds": 9, "time": "at"}
RULE = "select k, max(v) as top from T.win:length({}) group by {}"


def rule(text, rows=ROWS, **more):
    operator = RuleOperator(text, **more)
    operator.reads(rows)
    return operator


def pairs(last=0, span=0, rows=SIDES):
    return SidedJoin(rows, {"k": "k", "left.a": "a"}, {"right.b": "b"}, last=last, span=span)


CHANGES = {
    "aggregates": [
        ef.Aggregates(n=F.count()),
        ef.Aggregates(m=F.count()),
        ef.Aggregates(n=F.count("v")),
        ef.Aggregates(n=F.sum("v")),
        ef.Aggregates(n=F.count(), m=F.sum("v")),
        ef.Aggregates(m=F.sum("v"), n=F.count()),
        ef.Aggregates(n=F.count(), rows=3),
        ef.Aggregates(n=F.count(), rows=4),
        ef.Aggregates(n=F.count(), **NEAR),
        ef.Aggregates(n=F.last("v")),
        ef.Aggregates(n=F.last("v", ignorenulls=True)),
    ],
    "rolling": [
        ef.RollingMean("v", rows=3),
        ef.RollingMean("v", rows=4),
        ef.RollingMean("w", rows=3, into="v_mean"),
        ef.RollingSum("v", rows=3, into="v_mean"),
        ef.RollingMean("v", **NEAR),
        ef.RollingMean("v", seconds=10, time="at"),
        ef.RollingMean("v", seconds=9, time="w"),
    ],
    "rules": [
        rule(RULE.format(3, "k")),
        rule(RULE.format(4, "k")),
        rule(RULE.format(3, "v")),
        rule(RULE.format("n", "k"), variables={"n": 3}),
        rule(RULE.format("n", "k"), variables={"n": 4}),
        rule({"a": RULE.format(3, "k")}),
        rule(RULE.format(3, "k"), ROWS.set(1, pa.field("v", pa.int32()))),
        rule(RULE.format(3, "k"), ROWS.set(0, pa.field("k", pa.float64()))),
    ],
    "joins": [
        pairs(last=3),
        pairs(last=4),
        pairs(span=3),
        pairs(last=3, rows=SIDES.set(3, pa.field("right.b", pa.float64()))),
        pairs(last=3, rows=SIDES.set(1, pa.field("k", pa.int32()))),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_makes_another_operator(kind):
    told = [identity(operator) for operator in CHANGES[kind]]
    assert len(set(told)) == len(told)


def test_the_zone_of_times_is_no_change():
    here = ROWS.set(3, pa.field("at", pa.timestamp("us", "Europe/Berlin")))
    text = "select max(at) as it from T"
    assert identity(rule(text)) == identity(rule(text, here))
    assert identity(rule(text)) != identity(rule(text, ROWS.set(3, pa.field("at", pa.timestamp("us")))))


@pytest.mark.parametrize("changed", [pa.int32(), pa.string()])
@pytest.mark.parametrize("made", ["keyed", "detect", "join"])
def test_nodes_of_graphs_go_by_the_types_of_keys(made, changed):
    def told(kind):
        graph = Graph()
        one, other = graph.source("one"), graph.source("other")
        verbs = {
            "keyed": lambda: one.keyed("k", ef.RunningCount("v")),
            "detect": lambda: one.detect("select count(*) as n from T", key="k"),
            "join": lambda: one.join(other, on="k", rows=3),
        }
        graph.endpoint("out", verbs[made]())
        inputs = {name: pa.schema({"k": kind, value: pa.int64()}) for name, value in (("one", "v"), ("other", "w"))}
        read = {name: inputs[name] for name in (("one", "other") if made == "join" else ("one",))}
        plan = bind(graph, read)
        return plan.nodes[0].operator.stored_as()

    assert told(pa.int64()) != told(changed)


def moved(first, second, operator):
    """What an operator gives for `second` if its state is that of `first`."""
    before, after = operator(), operator()
    for each, column in ((before, first), (after, second)):
        each.schema(pa.schema({"v": column.type}))
    before.process(pa.record_batch({"v": first}), UNITS, KEYS)
    after.install(0, before.extract(0))
    return after.process(pa.record_batch({"v": second}), UNITS, KEYS).column("v_max").to_pylist()


def test_a_column_of_more_digits_goes_on_and_one_of_less_where_it_can():
    def top():
        return ef.RunningMax("v")

    long, short = pa.array([5, 300]), pa.array([6, 7], pa.int8())
    assert moved(short, long, top) == [7, 300]
    assert moved(pa.array([5, 9]), short, top) == [9, 9]
    with pytest.raises(InvalidArgument, match=r"the state of RunningMax\('v'\) has a value .* int8 now"):
        moved(long, short, top)
    wide = pa.array([Decimal("123456.5"), None], pa.decimal128(9, 2))
    narrow = pa.array([Decimal("1.5"), None], pa.decimal128(4, 2))
    with pytest.raises(InvalidArgument, match=r"does not fit .* decimal128\(4, 2\) now"):
        moved(wide, narrow, top)


def test_rows_with_other_columns_do_not_meet():
    def sides(kind):
        return pa.record_batch({"tag": ["a", "b"], "v": pa.array([1, 2]).cast(kind)})

    before, after = (ef.WindowJoin("tag", "a", "b", rows=3) for _ in range(2))
    before.process(sides(pa.int64()), UNITS, KEYS)
    after.install(0, before.extract(0))
    with pytest.raises(InvalidArgument, match="the state has rows with columns v int64, and now they have v double"):
        after.process(sides(pa.float64()), UNITS, KEYS)


def test_rows_with_other_columns_do_not_meet_whatever_came_between():
    """State of a unit may be installed after rows have come."""
    store = RowStore()
    for count, kind in ((100, pa.int64()), (10, pa.float64()), (4, pa.int64())):
        store.append(pa.table({"v": pa.array(range(count)).cast(kind)}))
    with pytest.raises(InvalidArgument, match="the state has rows with columns v double, and now they have v int64"):
        store.take(np.array([0, 100, 110]))


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "std", "count"])
def test_state_of_one_aggregate_is_found_again_and_is_that_of_several(name):
    """Checkpoints have it by these texts and in this form, without the names by which `Aggregates` finds its own."""
    rolling, running = (getattr(ef, f"{kind}{name.title()}") for kind in ("Rolling", "Running"))
    assert identity(rolling("v", rows=3)) == f"Rolling{name.title()}(column='v', into='v_{name}', rows=3)"
    assert identity(running("v", into="x")) == f"Running{name.title()}(column='v', into='x')"
    rows = pa.record_batch({"k": [1, 2], "v": [5, 7]})
    several = {"std": "stddev"}.get(name, name)
    for one, many in (
        (rolling("v", rows=3), ef.Aggregates({f"v_{name}": getattr(F, several)("v")}, rows=3)),
        (running("v"), ef.Aggregates({f"v_{name}": getattr(F, several)("v")})),
    ):
        assert one.process(rows, UNITS, KEYS) == many.process(rows, UNITS, KEYS)
        keys, content = one.extract(0)
        same, names, found = many.extract(0)
        assert (keys.tolist(), names) == (same.tolist(), (f"v_{name}",))
        assert repr(content) == repr(found)
