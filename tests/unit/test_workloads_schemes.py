"""Seeded graphs in the style of the paper's schemes: their rates, loads and rows are what they say."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.graph.build.binding import bind
from evenflow.graph.reference import evaluate
from evenflow.workloads.arrivals import ArrivalRates
from evenflow.workloads.schemes import SCHEMES, scheme
from evenflow.workloads.sieves import NOBODY, RightSide, Sieve

COLUMNS = pa.schema([("at", pa.float64()), ("id", pa.int64()), ("k", pa.int64())])


def declared(text):
    return pa.schema([(column.split()[0], pa.int64()) for column in text.split(", ")])


def arriving(drawn):
    """Batches of one row or few, of all sources, in the order of their arrival."""
    slices = [
        (float(table["at"][start].as_py()), name, table.slice(start, 10).combine_chunks().to_batches()[0])
        for name, table in drawn.rows.items()
        for start in range(0, table.num_rows, 10)
    ]
    return [(name, rows) for _, name, rows in sorted(slices, key=lambda each: each[0])]


@pytest.mark.parametrize("number", SCHEMES)
def test_a_scheme_has_the_load_that_was_wanted(number):
    drawn = scheme(number, 6, 40, 10.0, load=0.7)
    assert np.isclose(drawn.load, 0.7)
    assert np.isclose(sum(drawn.taken.values()), 600)
    assert len(drawn.graph.nodes) == len(drawn.costs_us) == 40
    assert not drawn.graph.unread()
    assert set(drawn.rows) == {source.name for source in drawn.graph.sources}


@pytest.mark.parametrize("number", [3, 5])
def test_the_graph_gives_what_was_reckoned(number):
    drawn = scheme(number, 3, 24, 120.0, seed=4)
    for node in drawn.graph.nodes:  # what every node gives is to be seen
        if node.name not in {end.name for end in drawn.graph.endpoints.values()}:
            drawn.graph.endpoint(f"see_{node.name}", node)
    plan = bind(drawn.graph, dict.fromkeys(drawn.rows, COLUMNS), schema_of=declared)
    found = evaluate(plan, arriving(drawn))
    given = {end.removeprefix("see_").removeprefix("end_"): rows for end, rows in found.items()}
    rows = {name: table.num_rows for name, table in {**given, **drawn.rows}.items()}
    for node in drawn.graph.nodes:
        taken = sum(rows[each.name] for each in node.inputs) / 120
        assert taken == pytest.approx(drawn.taken[node.name], rel=0.25, abs=0.3), node.name


def test_a_scheme_is_a_function_of_its_seed():
    one, same, other = (scheme(5, 4, 20, 5.0, seed=seed) for seed in (1, 1, 2))
    assert repr(one.graph) == repr(same.graph) != repr(other.graph)
    assert one.costs_us == same.costs_us != other.costs_us
    assert one.link_ms == same.link_ms != other.link_ms
    assert all(one.rows[name].equals(same.rows[name]) for name in one.rows)
    assert [node.spec for node in one.graph.nodes if node.kind == "filter"] == [
        node.spec for node in same.graph.nodes if node.kind == "filter"
    ]


def test_workers_and_links_are_as_in_the_tables():
    drawn = scheme(3, 8, 30, 5.0)
    assert all(1 <= each <= 2 for each in drawn.coefficients)
    assert all(1 <= ms <= 50 and drawn.link_ms[pair[::-1]] == ms for pair, ms in drawn.link_ms.items())
    emulate = drawn.emulate(drawn.fastest, factor=5.0, since=30.0)
    usual = drawn.coefficients[drawn.fastest]
    assert usual == min(drawn.coefficients)
    assert [emulate.factor(drawn.fastest, second) / usual for second in (0, 29, 31)] == [1, 1, 5]
    name, cost = next(iter(drawn.costs_us.items()))
    assert np.isclose(emulate.row_s(drawn.fastest, 0.0, name), usual * cost * 1e-6)


def test_rates_go_up_and_down():
    rates = ArrivalRates(high=400.0, low=100.0, phase_s=2.0, deviation_s=0.0)
    times = rates.seconds(np.random.default_rng(3), 100.0)
    assert (np.diff(times) >= 0).all()
    assert 0 <= times[0] < times[-1] < 100
    assert len(times) / 100 == pytest.approx(rates.mean, rel=0.05)
    by_second = np.bincount(times.astype(int), minlength=100)
    assert (by_second > 300).sum() > 20 < (by_second < 150).sum()


def test_a_stable_rate_is_stable():
    times = ArrivalRates(high=50.0, low=50.0).seconds(np.random.default_rng(3), 10.0)
    assert len(times) == 500
    assert np.allclose(np.diff(times), 0.02)


def test_a_sieve_keeps_its_share_and_others_keep_other_rows():
    rows = pa.RecordBatch.from_pydict({"id": np.arange(20_000), "k": np.arange(20_000) % 20})
    one, other = Sieve(1, 0.5)(rows), Sieve(2, 0.5)(rows)
    assert one.mean() == pytest.approx(0.5, abs=0.02)
    assert (one & other).mean() == pytest.approx(0.25, abs=0.02)
    right = RightSide(Sieve(1, 0.5), (3, 4), "_j")(rows)
    assert right.schema.names == ["id_j", "k_j"]
    assert right.num_rows == one.sum()
    assert set(right.column("k_j").to_pylist()) == {3, 4, NOBODY}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((7, 6, 40, 10.0), "there is no scheme 7"),
        ((3, 6, 2, 10.0), "at least 3 operators"),
        ((3, 0, 40, 10.0), "0 workers"),
        ((3, 6, 40, 0.0), "for 0 s"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, said):
    with pytest.raises(InvalidArgument, match=said):
        scheme(*arguments)
