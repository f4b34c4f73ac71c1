"""Graphs bound to columns: numbers, types, what is left out, and what is refused."""

import pickle

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import InvalidArgument
from evenflow.graph.build.binding import bind
from evenflow.graph.reference import evaluate
from evenflow.operators.declared import COLLATION

TICKS = pa.schema([("symbol", pa.string()), ("price", pa.float64()), ("at", pa.timestamp("us"))])
NEWS = pa.schema([("text", pa.string()), ("Symbol", pa.string()), ("seen", pa.timestamp("us"))])
INPUTS = {"ticks": TICKS, "news": NEWS}
SCORED = pa.schema([("symbol", pa.string()), ("score", pa.float64())])
MEAN = ef.RollingMean("price", rows=3)


def same(batch):
    return batch


def some():
    g = ef.Graph("some")
    ticks, news = g.source("ticks"), g.source("news")
    hot = ticks.filter("Price > 100", name="hot")
    means = hot.keyed("SYMBOL", MEAN, units=8)
    joined = means.join(news, on="symbol", rows=10, units=4)
    g.endpoint("alerts", joined.map(same, "symbol string, score double"))
    g.endpoint("audit", hot)
    g.endpoint("again", hot)
    return g


def bound(g, inputs=INPUTS, **more):
    return bind(g, inputs, schema_of=lambda text: {"symbol string, score double": SCORED}[text], **more)


def test_numbers():
    plan = bound(some())
    assert plan.sources == ("ticks", "news")
    assert [stream.name for stream in plan.streams] == ["ticks", "news", "hot", "keyed", "join", "map"]
    assert [(port.node, port.side, port.stream) for port in plan.ports] == [
        (0, 0, 0),
        (1, 0, 2),
        (2, 0, 3),
        (2, 1, 1),
        (3, 0, 4),
    ]
    assert [(node.name, node.ports, node.stream, node.first, node.units) for node in plan.nodes] == [
        ("hot", (0,), 2, 0, 1),
        ("keyed", (1,), 3, 1, 9),
        ("join", (2, 3), 4, 10, 5),
        ("map", (4,), 5, 15, 1),
    ]
    assert plan.units == 16
    assert [(end.name, end.stream) for end in plan.endpoints] == [("alerts", 5), ("audit", 2), ("again", 2)]
    assert [stream.readers for stream in plan.streams] == [(0,), (3,), (1,), (2,), (4,), ()]
    assert [stream.endpoints for stream in plan.streams] == [(), (), (1, 2), (), (), (0,)]
    assert list(plan.edges()) == [(0, 1), (1, 2), (2, 3)]


def test_columns():
    streams = {stream.name: stream.schema for stream in bound(some()).streams}
    assert streams["hot"] == TICKS
    assert streams["keyed"].names == ["symbol", "price", "at", "price_mean"]
    assert streams["join"].names == ["symbol", "price", "at", "price_mean", "text", "seen"]
    assert streams["map"] == SCORED


def test_a_plan_can_be_sent():
    plan = bound(some())
    again = pickle.loads(pickle.dumps(plan))
    assert [node.name for node in again.nodes] == [node.name for node in plan.nodes]
    assert [stream.schema for stream in again.streams] == [stream.schema for stream in plan.streams]


def test_some_endpoints_need_a_part_of_the_graph():
    plan = bound(some(), endpoints=["audit"])
    assert plan.sources == ("ticks",)
    assert [node.name for node in plan.nodes] == ["hot"]
    assert [end.name for end in plan.endpoints] == ["audit"]
    assert bound(some(), {"ticks": TICKS}, endpoints=["audit"]).sources == ("ticks",)


def test_what_nobody_reads_is_left_out():
    g = some()
    g.nodes[0].filter("price < 200", name="idle").map(same, SCORED, name="more")
    with pytest.warns(UserWarning, match="graph 'some': nothing reads 'idle', 'more', so it is left out"):
        plan = bound(g)
    assert "idle" not in {node.name for node in plan.nodes}


def test_a_source_may_be_an_endpoint():
    g = ef.Graph()
    g.endpoint("raw", g.source("ticks"))
    plan = bind(g, {"ticks": TICKS})
    assert (plan.nodes, plan.units, plan.endpoints[0].stream) == ((), 0, 0)


def commuting():
    g = ef.Graph()
    first = g.source("ticks").filter("price > 1", commutative=True, name="a")
    return g, first, first.filter("price < 9", commutative=True, name="b").filter("price != 5", commutative=True)


def test_neighbouring_filters_that_commute_are_one_node():
    g, _, last = commuting()
    g.endpoint("out", last.filter("price > 2", name="c"))
    plan = bind(g, {"ticks": TICKS})
    assert [node.name for node in plan.nodes] == ["a+b+filter", "c"]
    assert [name for name, _ in plan.nodes[0].operator.measured()] == ["a", "b", "filter"]


@pytest.mark.parametrize("how", ["endpoint", "reader"])
def test_a_filter_that_others_read_stays_a_node(how):
    g, first, last = commuting()
    g.endpoint("out", last)
    if how == "endpoint":
        g.endpoint("early", first)
    else:
        g.endpoint("early", first.map(same, TICKS))
    assert {"a", "b+filter"} <= {node.name for node in bind(g, {"ticks": TICKS}).nodes}
    assert [node.name for node in bind(g, {"ticks": TICKS}, endpoints=["out"]).nodes] == ["a+b+filter"]


def test_on_pairs_keep_both_columns():
    g = ef.Graph()
    other = g.source("news").map(same, pa.schema([("sign", pa.string()), ("text", pa.string())]))
    g.endpoint("out", g.source("ticks").join(other, on=[("symbol", "sign")], seconds=5, time=("at", "text"), name="j"))
    with pytest.raises(InvalidArgument, match=r"join 'j' needs a time, column 'text' is string: give a timestamp"):
        bind(g, INPUTS)
    g = ef.Graph()
    ticks, news = g.source("ticks"), g.source("news")
    kept = news.map(same, pa.schema([("sign", pa.string()), ("seen", pa.timestamp("us"))]))
    g.endpoint("out", ticks.join(kept, on=[("symbol", "sign")], seconds=5, time=("at", "seen")))
    assert bind(g, INPUTS).streams[-1].schema.names == ["symbol", "price", "at", "sign", "seen"]


def test_a_side_of_a_join_may_have_only_its_key():
    """Then only the number of its rows counts."""
    g = ef.Graph()
    g.endpoint("pairs", g.source("left").join(g.source("right"), on="k", rows=9))
    sides = {"left": pa.schema([("k", pa.int64()), ("v", pa.int64())]), "right": pa.schema([("k", pa.int64())])}
    plan = bound(g, sides)
    plan.nodes[0].operator.warm_up()
    left = pa.record_batch({"k": [1, 2], "v": [10, 20]}, sides["left"])
    right = pa.record_batch({"k": [1, 1, 3]}, sides["right"])
    found = evaluate(plan, [("left", left), ("right", right)])["pairs"]
    assert found.to_pylist() == [{"k": 1, "v": 10}] * 2


def test_collated_keys_are_refused():
    column = pa.field("k", pa.string(), metadata={COLLATION: "UTF8_LCASE"})
    inputs = {"s": pa.schema([column, ("v", pa.int64())])}
    for build in (
        lambda s: s.keyed("k", ef.RunningSum("v")),
        lambda s: s.join(s.map(same, pa.schema([column])), on="k", rows=3),
    ):
        g = ef.Graph()
        g.endpoint("e", build(g.source("s")))
        with pytest.raises(InvalidArgument, match=r"'k' of .* has collation UTF8_LCASE, and keys are compared byte by"):
            bound(g, inputs)


def test_joined_columns_come_in_the_order_of_on():
    left = pa.schema([("x", pa.int64()), ("k", pa.int32()), ("y", pa.string()), ("l", pa.int32())])
    right = pa.schema([("z", pa.int64()), ("l", pa.int32()), ("k", pa.int32())])
    g = ef.Graph()
    g.endpoint("out", g.source("a").join(g.source("b"), on=["l", "k"], rows=1))
    assert bind(g, {"a": left, "b": right}).streams[-1].schema.names == ["l", "k", "x", "y", "z"]


def test_detect():
    g = ef.Graph()
    rule = "select symbol, count(*) + more as n from T"
    found = g.source("ticks").detect(rule, key="Symbol", units=4, variables={"more": 2})
    g.endpoint("out", found)
    plan = bind(g, {"ticks": TICKS})
    assert plan.streams[-1].schema.names == ["symbol", "n"]
    assert plan.nodes[0].units == 5


def test_schema_of_is_asked_for_declared_columns():
    class Passing(ef.KeyedOperator):
        def process(self, rows, units, keys):
            return rows

        def extract(self, unit):
            return None

        def install(self, unit, state):
            pass

    g = ef.Graph()
    g.endpoint("out", g.source("ticks").keyed("symbol", Passing(), "symbol string, score double"))
    assert bound(g, {"ticks": TICKS}).streams[-1].schema == SCORED
    with pytest.raises(InvalidArgument, match="keyed 'keyed' declares schema 'symbol string, score double': give a py"):
        bind(g, {"ticks": TICKS})


def one(build, inputs=INPUTS, **more):
    """Bind a graph whose endpoint is what `build` makes of the two sources."""
    g = ef.Graph("some")
    g.endpoint("out", build(g.source("ticks"), g.source("news")))
    return bind(g, inputs, **more)


def renamed(news, *fields):
    return news.map(same, pa.schema(fields))


NUMBERED = ("symbol", pa.int64())
LISTED = pa.schema([("symbol", pa.list_(pa.int64())), ("price", pa.float64())])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bind("g", INPUTS), "the graph is 'g': give an evenflow.Graph"),
        (lambda: bind(ef.Graph("x"), {}), "graph 'x' has no endpoint: say what leaves it"),
        (lambda: bound(some(), None), "inputs=None: give the input of each source"),
        (lambda: bound(some(), {}), "inputs does not have 'ticks', 'news': give an input for each source"),
        (lambda: bound(some(), {"ticks": TICKS}), "inputs does not have 'news'"),
        (
            lambda: bound(some(), {**INPUTS, "tick": TICKS, "b": NEWS}),
            "inputs has 'tick', 'b', and the graph has no such source; did you mean 'ticks'",
        ),
        (lambda: bound(some(), {**INPUTS, "news": 3}), "input 'news' is 3: give its columns"),
        (lambda: bound(some(), {**INPUTS, "news": pa.schema([*NEWS, *NEWS])}), "input 'news' has two columns 'text'"),
        (lambda: bound(some(), endpoints=["alert"]), "there is no endpoint 'alert'; did you mean 'alerts'"),
        (lambda: bound(some(), endpoints=[]), "endpoints is empty"),
        (
            lambda: one(lambda t, n: t.filter("prise > 3")),
            "filter 'filter': .*unknown column 'prise'; did you mean 'pr",
        ),
        (lambda: one(lambda t, n: t.filter("price >")), "filter 'filter': .*the filter ends where an expression"),
        (lambda: one(lambda t, n: t.filter("price + 1")), "a filter needs a condition, price [+] 1 is double"),
        (lambda: one(lambda t, n: t.filter("sum(price) > 1")), "cannot stand in a filter"),
        (lambda: one(lambda t, n: t.filter("price > 'x'")), "filter 'filter'"),
        (lambda: one(lambda t, n: t.keyed("sym", MEAN)), "keyed 'keyed' needs column 'sym', which does not exist"),
        (
            lambda: one(lambda t, n: t.keyed("symbol", ef.RunningSum("pric"))),
            r"RunningSum\('pric'\) needs column 'pric'",
        ),
        (lambda: one(lambda t, n: t.keyed("symbol", ef.RunningSum("at"))), "RunningSum.* needs numbers"),
        (
            lambda: one(lambda t, n: t.keyed("symbol", MEAN), {"ticks": LISTED, "news": NEWS}),
            r"key 'symbol' of keyed 'keyed' is list<.*>, which cannot be hashed: give numbers",
        ),
        (lambda: one(lambda t, n: t.join(n, on="sy", rows=1)), "the left side of join 'join' needs column 'sy'"),
        (lambda: one(lambda t, n: t.join(n, on="price", rows=1)), "the right side of join 'join' needs column 'price'"),
        (
            lambda: one(lambda t, n: t.join(renamed(n, NUMBERED), on="symbol", rows=1)),
            "join 'join' compares column 'symbol', which is string, with 'symbol', which is int64: cast one",
        ),
        (
            lambda: one(lambda t, n: t.join(t, on="symbol", rows=1)),
            "join 'join' would have two columns 'price', one of each side: rename one of them with map",
        ),
        (
            lambda: one(lambda t, n: t.join(renamed(n, ("PRICE", pa.string())), on=[("symbol", "PRICE")], rows=1)),
            "would have two columns 'PRICE'",
        ),
        (
            lambda: one(lambda t, n: t.join(n, on="symbol", seconds=1, time="at")),
            "right side of join 'join' needs column",
        ),
        (lambda: one(lambda t, n: t.join(n, on="symbol", rows=1), case_sensitive=True), "needs column 'symbol'"),
        (lambda: one(lambda t, n: t.map(same, "x int")), "map 'map' declares schema 'x int': give a pyarrow.Schema"),
        (
            lambda: one(lambda t, n: t.map(same, pa.schema([("x", pa.int64()), ("X", pa.int64())]))),
            "map 'map' declares column 'X' twice: rename one of them",
        ),
        (lambda: one(lambda t, n: t.detect("select cost from T", key="symbol")), "unknown column 'cost'"),
        (lambda: one(lambda t, n: t.detect("select * from T", key="s")), "detect 'detect' needs column 's'"),
        (lambda: one(lambda t, n: t.detect("select * from T", key="symbol", time="t")), "needs column 't', which does"),
    ],
)
@pytest.mark.filterwarnings("ignore:graph 'some'. nothing reads")
def test_bad_input(call, message):
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        call()


def test_ambiguous_columns_are_refused():
    rows = pa.schema([("K", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
    g = ef.Graph()
    g.endpoint("out", g.source("ticks").keyed("k", ef.RunningSum("v")))
    assert bind(g, {"ticks": rows}).nodes
    g = ef.Graph()
    rows = pa.schema([("Kk", pa.int64()), ("kK", pa.int64()), ("v", pa.float64())])
    g.endpoint("out", g.source("ticks").keyed("kk", ef.RunningSum("v")))
    with pytest.raises(InvalidArgument, match="needs column 'kk', which may be 'Kk' or 'kK': write it as one of them"):
        bind(g, {"ticks": rows})
