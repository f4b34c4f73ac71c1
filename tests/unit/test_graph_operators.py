"""What the nodes of a graph do with rows, node by node and through the plain evaluation of a whole graph."""

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import FunctionError, InvalidArgument
from evenflow.graph.build.binding import bind
from evenflow.graph.nodes.filters import EXPLORE, Filters, Measurement
from evenflow.graph.nodes.ordering import HeldTurn, OrderNode
from evenflow.graph.reference import evaluate

TICKS = pa.schema([("symbol", pa.string()), ("price", pa.float64())])
NEWS = pa.schema([("symbol", pa.string()), ("text", pa.string())])
TIMED = pa.schema([("k", pa.int64()), ("t", pa.int64())])
OTHER = pa.schema([("k", pa.int64()), ("u", pa.int64())])


def ticks(*pairs):
    return pa.RecordBatch.from_pylist([{"symbol": s, "price": p} for s, p in pairs], schema=TICKS)


def news(*pairs):
    return pa.RecordBatch.from_pylist([{"symbol": s, "text": t} for s, t in pairs], schema=NEWS)


def node(build, **more):
    """The operator of the only node that `build` makes of the sources, and the columns that it gives."""
    g = ef.Graph()
    g.endpoint("out", build(g.source("ticks"), g.source("news")))
    plan = bind(g, {"ticks": TICKS, "news": NEWS}, **more)
    return plan.nodes[-1].operator.fresh(), plan.streams[-1].schema


def run(operator, rows, side=0):
    return operator.process(side, rows, *operator.routed(side, rows))


def moved(operator):
    """Another copy with the state of the first, as a restart makes it."""
    fresh = operator.fresh()
    fresh.extract(0)
    fresh.install(0, pickle.loads(pickle.dumps(operator.snapshot(0))))
    return fresh


def prices(batch):
    return batch.column("price").to_pylist()


class TestFilter:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ("price > 2", [3.0]),
            ("PRICE >= 1 and symbol is not null", [1.0]),
            ("not price > 2", [1.0]),
            ("ticks.price = 1", [1.0]),
            ("price is null", [None]),
            ("`price` between 1 and 2 or symbol like 'b%'", [1.0]),
            ("true", [1.0, 3.0, None]),
            ("null", []),
        ],
    )
    def test_text(self, text, kept):
        operator, schema = node(lambda t, n: t.filter(text))
        result = run(operator, ticks(("a", 1.0), (None, 3.0), ("c", None)))
        assert prices(result) == kept
        assert result.schema == schema == TICKS

    @pytest.mark.parametrize(
        "given",
        [
            pa.array([True, None, True]),
            pa.chunked_array([pa.array([True, False]), pa.array([True])]),
            np.array([True, False, True]),
            [True, False, True],
            ticks(("a", 1.0), ("c", 9.0)),
            pa.Table.from_batches([ticks(("a", 1.0)), ticks(("c", 9.0))]),
        ],
    )
    def test_functions(self, given):
        operator, _ = node(lambda t, n: t.filter(lambda batch: given))
        assert prices(run(operator, ticks(("a", 1.0), ("b", 3.0), ("c", 9.0)))) == [1.0, 9.0]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (None, "filter 'f' returned NoneType: return a boolean for each row"),
            (True, "filter 'f' returned bool: return a boolean for each row"),
            (pa.array([1, 0]), "filter 'f' returned Int64Array of int64"),
            (np.array([1, 0]), "filter 'f' returned ndarray of int64"),
            (pa.array([True]), "filter 'f' returned 1 booleans for 2 rows: return one for each row"),
            (news(("a", "b")), "filter 'f' returned rows with columns symbol string, text string, its rows have"),
            (ticks(*[("a", 1.0)] * 3), "filter 'f' returned 3 rows for 2: return some of its rows, or use map"),
        ],
    )
    def test_functions_that_return_something_else(self, given, message):
        operator, _ = node(lambda t, n: t.filter(lambda batch: given, name="f"))
        with pytest.raises(FunctionError, match=message):
            run(operator, ticks(("a", 1.0), ("b", 2.0)))

    def test_it_is_pickled_with_and_without_code(self):
        operator, _ = node(lambda t, n: t.filter("price > 2"))
        for _ in range(2):
            operator = pickle.loads(pickle.dumps(operator))
            operator.warm_up()
            assert prices(run(operator, ticks(("a", 1.0), ("b", 3.0)))) == [3.0]


class Clock:
    """A clock that a condition moves on by what it costs."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Costly:
    """A condition on a number modulo something, with a cost a row in seconds."""

    def __init__(self, name, clock, cost, modulus):
        self.name, self.clock, self.cost, self.modulus = name, clock, cost, modulus

    def kept(self, rows):
        self.clock.now += self.cost * rows.num_rows
        return rows.filter(pa.array(rows.column(0).to_numpy() % self.modulus == 0))

    def warm_up(self):
        pass


def numbers(batches, seed=0):
    random = np.random.default_rng(seed)
    return [pa.record_batch({"n": random.integers(0, 10_000, 500)}) for _ in range(batches)]


def order_of(operator):
    return [name for name, _ in operator.measured()]


class TestFilters:
    def test_the_order_is_that_of_rising_ranks(self):
        clock = Clock()
        made = [Costly("slow", clock, 1.0, 3), Costly("loose", clock, 0.1, 1), Costly("cheap", clock, 0.1, 2)]
        operator = Filters(made, clock)
        assert order_of(operator) == ["slow", "loose", "cheap"]
        for rows in numbers(40):
            result = operator.process(0, rows, None, None)
            assert result.column(0).to_pylist() == [n for n in rows.column(0).to_pylist() if n % 6 == 0]
        assert order_of(operator) == ["cheap", "slow", "loose"]
        found = dict(operator.measured())
        assert found["cheap"].cost == pytest.approx(0.1)
        assert found["cheap"].selectivity == pytest.approx(0.5, abs=0.05)
        assert found["loose"].selectivity == 1.0

    def test_a_change_of_the_rows_is_noticed(self):
        clock = Clock()
        made = [Costly("a", clock, 1.0, 2), Costly("b", clock, 1.0, 3)]
        operator = Filters(made, clock)
        for rows in numbers(3 * EXPLORE):
            operator.process(0, rows, None, None)
        assert order_of(operator) == ["b", "a"]
        made[0].modulus, made[1].modulus = 50, 1
        for rows in numbers(3 * EXPLORE):
            operator.process(0, rows, None, None)
        assert order_of(operator) == ["a", "b"]

    def test_a_filter_that_starves_is_measured_again(self):
        clock = Clock()
        made = [Costly("all", clock, 1.0, 20_000_001), Costly("other", clock, 0.001, 1)]
        operator = Filters(made, clock)
        rows = pa.record_batch({"n": np.arange(1, 500)})
        for _ in range(2 * EXPLORE + 1):
            assert operator.process(0, rows, None, None).num_rows == 0
        assert dict(operator.measured())["other"].cost > 0

    def test_cost_goes_down(self):
        clock = Clock()
        operator = Filters([Costly("slow", clock, 1.0, 1), Costly("cheap", clock, 0.01, 100)], clock)
        for rows in numbers(64):
            operator.process(0, rows, None, None)
        assert clock.now < 0.2 * 64 * 500

    def test_ranks(self):
        unknown, blocked, passing = Measurement(), Measurement(), Measurement()
        blocked.add(10, 0, 5.0)
        passing.add(10, 10, 5.0)
        assert (unknown.rank, blocked.rank, passing.rank) == (0.0, 0.5, math.inf)

    def test_as_a_node(self):
        operator, schema = node(
            lambda t, n: t.filter("price > 1", commutative=True).filter(
                lambda b: b.column("price").to_numpy() < 5, commutative=True
            )
        )
        assert isinstance(operator, Filters)
        assert schema == TICKS
        operator.warm_up()
        operator = pickle.loads(pickle.dumps(operator.__class__(operator._conditions[:1])))
        assert prices(run(operator, ticks(("a", 1.0), ("b", 3.0)))) == [3.0]


class TestMap:
    SCHEMA = pa.schema([("n", pa.int64())])

    def test_arrow(self):
        operator, _ = node(lambda t, n: t.map(lambda b: pa.record_batch({"n": [b.num_rows]}), self.SCHEMA))
        assert run(operator, ticks(("a", 1.0), ("b", 2.0))).to_pylist() == [{"n": 2}]
        assert not operator.lanes

    def test_pandas(self):
        operator, _ = node(lambda t, n: t.map(lambda frame: frame.assign(n=1)[["n"]], self.SCHEMA, "pandas"))
        operator.warm_up()
        assert run(operator, ticks(("a", 1.0), ("b", 2.0))).to_pylist() == [{"n": 1}] * 2

    def test_ordered(self):
        order, _ = node(lambda t, n: t.filter("price > 1").map(lambda b: b, TICKS, ordered=True))
        assert isinstance(order, OrderNode)

    def test_turns_go_on_in_order(self):
        order, rows = OrderNode(), [ticks((text, 1.0)) for text in "abcd"]
        assert [order.due(7, turn) for turn in (1, 0)] == [False, True]
        for turn in (3, 1, 2):
            order.hold(7, HeldTurn(turn, 100 + turn, turn, rows[turn]))
        moved = OrderNode()
        moved.install(0, order.extract(0))
        assert order.extract(0) is None
        assert [held.turn for held in moved.following(7)] == [1, 2, 3]
        assert moved.following(7) == []
        assert not moved.due(8, 1)
        moved.keep({8})
        assert moved.due(7, 0)

    def test_a_result_that_does_not_fit_names_the_node(self):
        operator, _ = node(lambda t, n: t.map(lambda b: b, self.SCHEMA, name="m"))
        with pytest.raises(FunctionError, match="map 'm': the function returned columns"):
            run(operator, ticks(("a", 1.0)))


class TestKeyed:
    def test_rows_of_one_key_meet_and_columns_are_added(self):
        operator, schema = node(lambda t, n: t.keyed("symbol", ef.RunningSum("price"), units=3))
        assert operator.units == 4
        result = run(operator, ticks(("a", 1.0), ("b", 2.0), ("a", 3.0), (None, 4.0), (None, 5.0)))
        assert result.column("price_sum").to_pylist() == [1.0, 2.0, 4.0, 4.0, 9.0]
        assert result.schema == schema

    def test_null_keys_have_the_last_unit(self):
        operator, _ = node(lambda t, n: t.keyed("symbol", ef.RunningSum("price"), units=3))
        units, keys = operator.routed(0, ticks(("a", 1.0), (None, 2.0)))
        assert (units[0] < 3, units[1], keys[1]) == (True, 3, 0)

    def test_hashes_are_given_to_operators_that_ask(self):
        operator, schema = node(lambda t, n: t.keyed("symbol", ef.DistinctCount("Price"), units=2))
        rows = ticks(("a", 1.0), ("a", 1.0), ("a", 2.0), ("a", None))
        assert run(operator, rows).column("Price_distinct").to_pylist() == [1, 1, 2, 2]
        assert schema.names == ["symbol", "price", "Price_distinct"]

    def test_units_move(self):
        one, _ = node(lambda t, n: t.keyed("symbol", ef.RunningSum("price"), units=1))
        other = one.fresh()
        run(one, ticks(("a", 1.0)))
        assert one.sizes(np.array([0], np.int32))[0] > 0
        other.install(0, pickle.loads(pickle.dumps(one.snapshot(0))))
        state = one.extract(0)
        assert one.extract(0) is None
        assert state is not None
        assert run(other, ticks(("a", 2.0))).column("price_sum").to_pylist() == [3.0]

    def test_the_users_operator_is_not_touched(self):
        mine = ef.RunningSum("price")
        operator, _ = node(lambda t, n: t.keyed("symbol", mine, units=1))
        operator.warm_up()
        run(operator, ticks(("a", 1.0)))
        assert mine.extract(0) is None

    def test_an_operator_that_waits_for_the_time_is_warned_of(self):
        class Waiting(ef.RunningSum):
            def on_time(self, now, units):
                return None

        with pytest.warns(UserWarning, match="keyed 'keyed': Waiting has on_time, which a graph never calls"):
            node(lambda t, n: t.keyed("symbol", Waiting("price")))

    def test_what_state_is_stored_as(self):
        made = [
            node(lambda t, n, rows=rows: t.keyed("symbol", ef.RollingSum("price", rows=rows))) for rows in (3, 3, 4)
        ]
        first, same, other = (operator.stored_as() for operator, _ in made)
        assert first == same != other
        assert "by ['symbol string']" in first
        joins = [node(lambda t, n, rows=rows: t.join(n, on="symbol", rows=rows))[0].stored_as() for rows in (1, 2)]
        assert joins[0] != joins[1]

    def test_rules(self):
        operator, schema = node(
            lambda t, n: t.detect({"big": "select symbol, sum(price) as s from T where price > 1"}, key="symbol")
        )
        operator.warm_up()
        result = run(operator, ticks(("a", 1.0), ("b", 2.0), ("a", 3.0), ("a", 4.0)))
        assert result.to_pylist() == [
            {"rule": "big", "symbol": "b", "s": 2.0},
            {"rule": "big", "symbol": "a", "s": 3.0},
            {"rule": "big", "symbol": "a", "s": 7.0},
        ]
        assert result.schema == schema

    def test_rules_call_functions_with_spark_types(self):
        class Udf:
            returnType = type("Long", (), {"simpleString": lambda self: "bigint"})()
            func = staticmethod(lambda series: (series * 2).astype("int64"))

            def __call__(self, *_):
                raise AssertionError

        _, schema = node(
            lambda t, n: t.detect("select twice(price) as x from T", key="symbol", functions={"twice": Udf()}),
            schema_of=lambda text: {"value bigint": pa.schema([("value", pa.int64())])}[text],
        )
        assert schema.field("x").type == pa.int64()


class TestJoin:
    def test_pairs_come_by_arriving_row_and_then_oldest_first(self):
        operator, schema = node(lambda t, n: t.join(n, on="symbol", rows=2))
        assert run(operator, ticks(("a", 1.0), ("a", 2.0), ("a", 3.0), ("b", 4.0))).num_rows == 0
        result = run(operator, news(("a", "x"), ("b", "y"), ("a", "z")), 1)
        found = [tuple(row.values()) for row in result.to_pylist()]
        assert found == [
            ("a", 2.0, "x"),
            ("a", 3.0, "x"),
            ("b", 4.0, "y"),
            ("a", 2.0, "z"),
            ("a", 3.0, "z"),
        ]
        assert result.schema == schema

    def test_nulls_never_match(self):
        operator, _ = node(lambda t, n: t.join(n, on="symbol", rows=9, units=4))
        assert operator.units == 5
        run(operator, ticks((None, 1.0), ("a", 2.0)))
        assert run(operator, news((None, "x"), ("a", "y")), 1).column("text").to_pylist() == ["y"]
        assert operator.sizes(np.array([4], np.int32)).tolist() == [0]

    def test_a_key_with_one_null_never_matches(self):
        g = ef.Graph()
        rows = pa.schema([("a", pa.int64()), ("b", pa.string())])
        g.endpoint("out", g.source("l").join(g.source("r"), on=["a", "b"], rows=9))
        plan = bind(g, {"l": rows, "r": rows})
        batch = pa.record_batch({"a": [1, None, 1], "b": ["x", "x", None]}, schema=rows)
        assert evaluate(plan, [("l", batch), ("r", batch)])["out"].to_pylist() == [{"a": 1, "b": "x"}]

    def test_by_time(self):
        g = ef.Graph()
        left = pa.schema([("k", pa.int64()), ("at", pa.int64())])
        right = pa.schema([("k", pa.int64()), ("seen", pa.timestamp("us"))])
        g.endpoint("out", g.source("l").join(g.source("r"), on="k", seconds=10, time=("at", "seen")))
        plan = bind(g, {"l": left, "r": right})

        def lefts(*times):
            return "l", pa.record_batch({"k": [1] * len(times), "at": list(times)}, schema=left)

        def rights(*times):
            seen = pa.array([time * 1_000_000 for time in times]).cast(pa.timestamp("us"))
            return "r", pa.record_batch([pa.array([1] * len(times)), seen], schema=right)

        found = evaluate(plan, [lefts(0, 5), rights(9), rights(12), lefts(2, 3)])["out"]
        seconds = found.column("seen").cast(pa.int64()).to_numpy() // 1_000_000
        assert list(zip(found.column("at").to_pylist(), seconds.tolist(), strict=True)) == [
            (0, 9),
            (5, 9),
            (5, 12),
            (2, 9),
            (3, 9),
            (3, 12),
        ]

    def test_a_side_that_lags_finds_all_its_pairs_whatever_partition_is_first(self):
        random = np.random.default_rng(3)
        operator, _ = node(
            lambda t, n: t.map(lambda b: b, TIMED).join(n.map(lambda b: b, OTHER), on="k", seconds=10, time=("t", "u"))
        )
        times = [np.sort(random.integers(0, 800, 200)), np.sort(random.integers(0, 800, 200))]
        keys = [random.integers(0, 4, 200), random.integers(0, 4, 200)]
        found, kept = [], []
        for number in range(16):
            operator = moved(operator) if number % 4 == 3 else operator
            operator.batch = number
            parts = [(0, number, number + 1)] + [(1, 4 * number + each, 4 * number + each + 1) for each in range(4)]
            random.shuffle(parts)
            for side, first, last in parts:
                places = np.arange(200)[len(times[side]) * first // 16 : len(times[side]) * last // 16]
                batch = pa.record_batch([keys[side][places], times[side][places]], schema=(TIMED, OTHER)[side])
                for row in run(operator, batch, side).to_pylist():
                    found.append((row["k"], row["t"], row["u"]))
            kept.append(int(operator._pairs.held.sum()))
        left, right = (list(zip(keys[s].tolist(), times[s].tolist(), strict=True)) for s in (0, 1))
        expected = [(k, t, u) for k, t in left for other, u in right if k == other and abs(t - u) < 10]
        assert sorted(found) == sorted(expected)
        assert len(expected) > 150
        assert operator.tallies() == {"late": 0, "late of left": 0, "late of right": 0}
        assert max(kept) > 100
        assert kept[-1] < 50
        operator.batch = 16
        run(operator, pa.record_batch([[1, 1], [900, 3]], schema=TIMED), 0)
        assert operator.tallies()["late of left"] == 1

    def test_null_times_are_refused(self):
        g = ef.Graph()
        rows = pa.schema([("k", pa.int64()), ("t", pa.int64())])
        other = g.source("r").map(lambda b: b, pa.schema([("k", pa.int64()), ("u", pa.int64())]))
        g.endpoint("out", g.source("l").join(other, on="k", seconds=1, time=("t", "u")))
        plan = bind(g, {"l": rows, "r": rows})
        with pytest.raises(FunctionError, match="column 't' is the time and is null in 1 rows"):
            evaluate(plan, [("l", pa.record_batch({"k": [1], "t": pa.array([None], pa.int64())}))])

    def test_windows_stay_bounded(self):
        operator, _ = node(lambda t, n: t.join(n, on="symbol", rows=3))
        for number in range(200):
            run(operator, ticks(*[("a", float(number))] * 100))
        assert operator._pairs.store.length < 5000
        assert operator.sizes(np.array([0], np.int32))[0] > 0
        assert run(operator, news(("a", "x")), 1).column("price").to_pylist() == [199.0] * 3

    def test_rows_are_found_after_others_were_dropped(self):
        operator, _ = node(lambda t, n: t.join(n, on="symbol", rows=3, units=2))
        random, seen, found, expected = np.random.default_rng(4), {0: {}, 1: {}}, [], []
        for step in range(120):
            side, names = step % 2, random.choice(["a", "b", "c", "d"], 60).tolist()
            rows = [(name, float(60 * step + place)) for place, name in enumerate(names)]
            batch = ticks(*rows) if side == 0 else news(*((name, str(value)) for name, value in rows))
            found += [(row["price"], float(row["text"])) for row in run(operator, batch, side).to_pylist()]
            for name, value in rows:
                others = seen[1 - side].get(name, [])[-3:]
                expected += [(other, value) if side else (value, other) for other in others]
                seen[side].setdefault(name, []).append(value)
            if step % 30 == 29:
                state = operator.extract(step % 3)
                if state is not None:
                    operator.install(step % 3, state)
        assert found == expected
        assert operator._pairs.store.length < 3000, "rows were dropped on the way"

    def test_warm_up_leaves_no_state(self):
        operator, _ = node(lambda t, n: t.join(n, on="symbol", rows=3))
        operator.warm_up()
        assert operator.extract(0) is None

    def test_units_move_with_both_sides(self):
        one, _ = node(lambda t, n: t.join(n, on="symbol", rows=3))
        other = one.fresh()
        run(one, ticks(("a", 1.0)))
        run(one, news(("b", "x")), 1)
        other.install(0, pickle.loads(pickle.dumps(one.extract(0))))
        assert run(other, news(("a", "y")), 1).to_pylist() == [{"symbol": "a", "price": 1.0, "text": "y"}]
        assert run(other, ticks(("b", 2.0))).to_pylist() == [{"symbol": "b", "price": 2.0, "text": "x"}]
        assert run(one, news(("a", "y")), 1).num_rows == 0


class TestEvaluate:
    def test_a_diamond(self):
        g = ef.Graph()
        source = g.source("ticks")
        low = source.filter("price < 5").map(
            lambda b: pa.record_batch({"key": b.column(0), "low": b.column(1)}),
            pa.schema([("key", pa.string()), ("low", pa.float64())]),
        )
        high = source.filter("price > 3")
        g.endpoint("out", high.join(low, on=[("symbol", "key")], rows=5))
        g.endpoint("high", high)
        plan = bind(g, {"ticks": TICKS})
        found = evaluate(plan, [("ticks", ticks(("a", 4.0), ("a", 9.0))), ("ticks", ticks(("a", 1.0)))])
        assert found["high"].column("price").to_pylist() == [4.0, 9.0]
        pairs = zip(found["out"].column("price").to_pylist(), found["out"].column("low").to_pylist(), strict=True)
        assert list(pairs) == [(4.0, 4.0), (9.0, 4.0), (4.0, 1.0), (9.0, 1.0)]

    def test_no_rows(self):
        g = ef.Graph()
        g.endpoint("out", g.source("ticks").filter("price > 3"))
        found = evaluate(bind(g, {"ticks": TICKS}), [("other", news(("a", "b")))])
        assert found["out"].schema == TICKS

    def test_a_plan_is_evaluated_anew_each_time(self):
        g = ef.Graph()
        g.endpoint("out", g.source("ticks").keyed("symbol", ef.RunningSum("price")))
        plan = bind(g, {"ticks": TICKS})
        for _ in range(2):
            found = evaluate(plan, [("ticks", ticks(("a", 1.0)))])
            assert found["out"].column("price_sum").to_pylist() == [1.0]


def test_state_of_another_kind_of_node_is_refused():
    operator, _ = node(lambda t, n: t.filter("price > 1"))
    assert operator.extract(0) is None
    assert operator.sizes(np.arange(3, dtype=np.int32)).tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="FilterNode has no state to install"):
        operator.install(0, {})


def test_operators_that_need_columns_say_so():
    with pytest.raises(InvalidArgument, match="adds column 'price'"):
        node(lambda t, n: t.keyed("symbol", ef.RunningSum("price", into="price")))
