"""The state of a graph within a memory budget."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import MemoryBudget
from evenflow.graph.build.binding import bind
from evenflow.graph.hosted import HostedGraph
from evenflow.graph.nodes.ordering import HeldTurn
from evenflow.runtime.worker.rows.instances import apply, graph_of
from evenflow.state.paging.paged import Paged
from evenflow.state.paging.pool import Pool

ROWS = pa.schema([("k", pa.int64()), ("v", pa.float64())])


def same(batch):
    return batch


def hosted(units):
    """Means by key, behind an ordered map: its lanes, its order, then the units of the means."""
    graph = ef.Graph()
    rows = graph.source("rows").map(same, ROWS, ordered=True, name="same")
    graph.endpoint("means", rows.keyed("k", ef.RollingMean("v", rows=20), units=units, name="means"))
    return HostedGraph(bind(graph, {"rows": ROWS}, schema_of=lambda schema: schema))


def kept(made, budget, tmp_path):
    return Paged(made, Pool(budget), tmp_path, lambda: 0.0)


def frames(count, rows, keys, seed=0):
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield pa.record_batch([random.integers(0, keys, rows), random.normal(size=rows)], schema=ROWS)


@pytest.mark.parametrize(("count", "rows"), [(400, 50), (20, 2000)], ids=["small frames", "large frames"])
def test_what_is_in_memory_stays_within_the_budget(tmp_path, count, rows):
    """Also with frames that are small: each is weighed, although none of them has to be cut."""
    made, budget = hosted(63), 100_000
    state, alone = kept(made, budget, tmp_path), made.fresh()
    port, node = len(made.plan.ports) - 1, made.plan.nodes[-1]
    every = np.arange(made.units, dtype=np.int32)
    for batch in frames(count, rows, 5000):
        local, keys = node.operator.routed(0, batch)
        found = apply(state, port, batch, local + np.int32(node.first), local, keys)
        wanted = alone.apply(port, batch, local, keys)
        assert found.num_rows == wanted.num_rows
        places = ["k", "v", "v_mean"]
        assert (
            pa.table(found)
            .sort_by([(name, "ascending") for name in places])
            .equals(pa.table(wanted).sort_by([(name, "ascending") for name in places]))
        )
        graph = graph_of(state)
        assert graph.sizes(every).sum() < 1.5 * budget
    assert alone.sizes(every).sum() > 2 * budget
    assert state.spilled_bytes > budget
    state.close()


def test_a_unit_that_is_too_large_is_named(tmp_path):
    made = hosted(1)
    state, port, node = kept(made, 20_000, tmp_path), len(made.plan.ports) - 1, made.plan.nodes[-1]

    def feed():
        for batch in frames(40, 100, 5000):
            local, keys = node.operator.routed(0, batch)
            apply(state, port, batch, np.array([node.first], np.int32), local, keys)

    with pytest.raises(MemoryBudget, match=r"operator 'means' has \d+ bytes of state, more than the memory budget"):
        feed()
    state.close()


def test_an_order_stays_in_memory_however_much_it_holds(tmp_path):
    """It cannot be cut into units, and what it holds is bounded by what feeders have under way."""
    made = hosted(63)
    source, target = (kept(made, 20_000, tmp_path) for _ in range(2))
    order = next(number for number, node in enumerate(made.plan.nodes) if node.operator.ordering)
    unit = made.plan.nodes[order].first
    rows = next(frames(1, 5000, 10))
    graph_of(source).operator(order).hold(7, HeldTurn(1, 2, 3, rows))
    state = source.extract(unit)
    target.install(unit, state)
    assert target.resident[unit]
    assert target.resident_bytes == 0
    assert graph_of(target).operator(order).sizes(np.zeros(1, np.int32)).tolist() == [rows.nbytes]
    for each in (source, target):
        each.close()
