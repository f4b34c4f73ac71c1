"""State as it is stored names no module of Evenflow: it is read again wherever they have moved to."""

import importlib
import inspect
import pkgutil

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow import functions as F
from evenflow.graph.build.binding import bind
from evenflow.graph.hosted import GraphState
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.graph.nodes.ordering import OrderNode
from evenflow.operators.aggregates.distinct import DistinctCount
from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.aggregates.rolling import RollingMean, RollingStd, RunningMax, RunningSum
from evenflow.operators.aggregates.several import Aggregates
from evenflow.operators.joins.join import WindowJoin
from evenflow.operators.joins.sided_join import SidedJoin
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.time.inputs import Inputs
from evenflow.operators.time.timed import Timed
from evenflow.rules.operator import RuleOperator
from evenflow.state.checkpoint.unit_snapshots import pack_units
from evenflow.stories.operator import FirstStory
from evenflow.stories.vectors import Vectors
from tests.support.stored_names import own_names

COUNT = 60
UNITS, KEYS = np.zeros(COUNT, np.int32), np.arange(COUNT, dtype=np.int64) % 3
ROWS = pa.record_batch(
    {
        "k": KEYS,
        "tag": ["left", "right"] * (COUNT // 2),
        "x": pa.array(np.arange(COUNT) % 7 * 0.5),
        "s": [None if place % 5 == 0 else f"text {place % 4}" for place in range(COUNT)],
        "t": pa.array(np.arange(COUNT)),
        "xxhash64(s)": np.arange(COUNT) % 5,
        "__evenflow_side": pa.array(np.arange(COUNT) % 2, pa.int32()),
        "vector": Vectors().of([f"some text of {place % 9}" for place in range(COUNT)]).to_arrow(),
    }
)
INPUTS = Inputs("tag", ("left", "right"))
RULES = [
    "select k, avg(x), max(s), count(distinct s), prev(x) from T.win:length(5) where x > 1",
    "select k, s, sum(x) from T.win:time(9 sec) group by s",
    "select k, stddev(x) from T.std:groupwin(s).win:length(3)",
    "select s, sum(x) from T group by s",
    "select A.t, B.s from T.std:lastevent() A, T.win:time(6 sec) B where A.x > B.x",
    "select s, count(*), avg(x) from T.win:time_batch(7 sec) group by s",
    "select t, avg(x) from T.std:groupwin(s).win:length_batch(3)",
    "select k, x from T output last every 5 events",
    "every a=T(x > 2) -> b=T(x < a.x and s = a.s) where timer:within(10 sec)",
    "every a=T(x > 2) -> (b=T(x < 0) or (timer:interval(50 sec) and not c=T(x = 9)))",
    "[3] a=T(x > 2) until b=T(s = 'none')",
]
OPERATORS = [
    Aggregates(n=F.count(), top=F.max("s"), mean=F.mean("x")),
    Aggregates(low=F.min("x"), seconds=5.0, time="t"),
    RollingMean("x", rows=5),
    RollingStd("x", seconds=3.0, time="t"),
    RunningSum("x"),
    RunningMax("s"),
    LastValue("s"),
    DistinctCount("s"),
    WindowJoin("tag", "left", "right", rows=3),
    WindowJoin("tag", "left", "right", seconds=20.0, time="t"),
    SidedJoin(ROWS.schema, {"x": "x"}, {"s": "s"}, last=4),
    SidedJoin(ROWS.schema, {"x": "x"}, {"s": "s"}, span=20_000_000, time="t"),
    FirstStory(history=5),
    *(RuleOperator(rule, key=["k"], time="t") for rule in RULES),
    RuleOperator(RULES, key=["k"], time="t", lateness_s=2),
]
NODES = {
    "keyed": lambda one, other: one.keyed("k", RollingMean("x", rows=5), units=4),
    "detect": lambda one, other: one.detect(RULES[0], key="k"),
    "join": lambda one, other: one.join(other, on="k", rows=2),
    "join in seconds": lambda one, other: one.join(other, on="k", seconds=9, time=("t", "u")),
}
ELSEWHERE = {Timed, GraphState}
"""Operators that have tests of their own here, or the state of others only."""
TRANSIENT = {OrderNode}
"""Operators whose state is empty at the end of a batch, when snapshots are taken."""


def own_names_of(operator):
    """Those in a snapshot of its unit 0, which has state."""
    state = operator.snapshot(0)
    assert state is not None
    return own_names(b"".join(pack_units({0: state})))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda each: str(each)[:60])
def test_state_of_operators(operator):
    operator.process(ROWS, UNITS, KEYS)
    assert not own_names_of(operator)


@pytest.mark.parametrize("inputs", [None, INPUTS])
@pytest.mark.parametrize("told", [[30_000_000], [2**63 - 2]])
def test_rows_that_wait_for_their_time(inputs, told):
    inner = RollingMean("x", rows=5)
    places = range(ROWS.num_columns)
    timed = Timed(inner, ROWS.schema, places, [4], True, 2, inner.schema(ROWS.schema), inputs)
    timed.process(timed.whole(ROWS), UNITS, KEYS)
    assert not own_names_of(timed)
    names = ["__evenflow_now"] if inputs is None else ["__evenflow_now", *timed._told[1:]]
    told = told if inputs is None else [*told, 30_000_000, 40_000_000, 5]
    tick = pa.RecordBatch.from_arrays([pa.array([each]) for each in told], names=names)
    timed.process(timed.whole(tick), UNITS[:1], KEYS[:1])
    assert not own_names_of(timed)


@pytest.mark.parametrize("build", NODES.values(), ids=NODES)
def test_state_of_nodes(build):
    graph = ef.Graph()
    graph.endpoint("out", build(graph.source("one"), graph.source("other")))
    sides = [ROWS.select(["k", "t", "x", "s"]), ROWS.select(["k", "t", "vector"]).rename_columns(["k", "u", "v"])]
    node = bind(graph, {"one": sides[0].schema, "other": sides[1].schema}).nodes[-1].operator.fresh()
    for side in (0, 1) if node.kind == "join" else (0,):
        node.process(side, sides[side], UNITS, KEYS)
    assert not own_names_of(node)


def test_every_operator_with_state_is_here():
    for package in map(importlib.import_module, ("evenflow.operators", "evenflow.rules", "evenflow.stories")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    here = {type(operator) for operator in OPERATORS}
    modules = {kind.__module__ for kind in here}
    for kind in set(below(KeyedOperator)) - ELSEWHERE:
        if not inspect.isabstract(kind) and not any(issubclass(each, kind) for each in here):
            assert kind.__module__ in modules, f"{kind} has no test here"
    nodes = {kind.__name__ for kind in set(below(NodeOperator)) - TRANSIENT if kind.stateful}
    assert nodes == {"KeyedNode", "JoinNode"}


def below(kind):
    """Evenflow's own subclasses of a class."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("evenflow."):
            yield each
            yield from below(each)


def test_a_class_of_ours_would_show():
    states = {3: [1, {"held": INPUTS}], 4: "plain"}
    assert own_names(b"".join(pack_units(states))) == {"evenflow.operators.time.inputs"}
