"""The region of a graph: when its workers are told who owns which unit."""

from itertools import count

import numpy as np
import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    FeederJoinedEvent,
    GraphPlacing,
    MessageEvent,
    PeerLeftEvent,
    RegionOpenedEvent,
    SendInstruction,
    StopEvent,
    TickEvent,
)
from evenflow.control.graphs.region import GraphRegion
from evenflow.control.workers import WorkerLife
from evenflow.model import MoveUnits
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.model.latency import Latencies
from evenflow.model.messages import (
    FeederBegan,
    FilterOrder,
    FlowProgress,
    FlowReport,
    GraphRouting,
    MoveReport,
    PauseUnits,
)
from evenflow.policy import Hash
from evenflow.policy.graph.round_robin import RoundRobinPlacement
from evenflow.policy.keyed.sharing import Sharing
from tests.support.graph_reports import report
from tests.support.records import fields_of

NODES = NodeShape("a", "filter", 0, 1, (1,), (-1,)), NodeShape("b", "keyed", 1, 3, (), (0,), True)
PLACING = GraphPlacing(GraphShape(("s",), NODES), RoundRobinPlacement())
WORKERS = {worker: WorkerLife(10 + worker, f"h{worker}", 900 + worker) for worker in range(3)}


def opened(operator="op", durable=False):
    return RegionOpenedEvent(0.0, "r", operator, Hash(), 5, durable, graph=PLACING)


def region(durable=False):
    made = GraphRegion(opened(durable=durable), Sharing({}), count(1), stall_timeout=60.0)
    list(made.set_workers(0.0, WORKERS))
    return made


def fed(made, peer=21, stage="1"):
    """A feeder is let in; what is told."""
    feeder = FeederJoinedEvent(1.0, peer, "r", stage=stage)
    assert not made.register(feeder)
    return [*made.join(feeder), *made.hear(1.0, feeder, FeederBegan(0))]


def routings(told):
    """By peer, the latest routing."""
    messages = [(each.peer, each.message) for each in told if isinstance(each, SendInstruction)]
    return {peer: message for peer, message in messages if isinstance(message, GraphRouting)}


def kinds(told):
    return [type(each.message).__name__ for each in told if isinstance(each, SendInstruction)]


def moving(made, unit=0):
    source = int(made.movements.table.owners[unit])
    return list(made.carry_out(1.0, [MoveUnits("r", (unit,), source, (source + 1) % 3, "a test")]))


def test_workers_are_told_when_they_come():
    made = GraphRegion(opened(), Sharing({}), count(1))
    told = routings(made.set_workers(0.0, {0: WORKERS[0]}))
    assert list(told) == [10]
    later = routings(made.set_workers(1.0, WORKERS))
    assert list(later) == [10, 11, 12]
    assert [message.you for message in later.values()] == [10, 11, 12]
    assert [address.id for address in later[10].workers] == [0, 1, 2]


def test_the_first_feeder_has_the_owners_told_again():
    """Workers may have let go of a graph that nobody fed; they are told before the feeder is."""
    made = region()
    told = kinds(fed(made))
    assert told.index("KeyedDirectory") > told.index("GraphRouting")
    assert "GraphRouting" not in kinds(fed(made, 22))


def test_workers_are_senders():
    made = region()
    fed(made)
    told = moving(made)
    paused = [each.peer for each in told if isinstance(each, SendInstruction) and isinstance(each.message, PauseUnits)]
    assert paused == [10, 11, 12, 21]


def test_who_joins_during_a_movement_is_told_of_it():
    made = region()
    fed(made)
    moving(made)
    life = WorkerLife(13, "h3", 903)
    told = routings(made.set_workers(2.0, WORKERS | {3: life}))
    assert [(paused.move, paused.units) for paused in told[13].paused] == [(1, (0,))]
    assert told[13].move == 1


@pytest.mark.parametrize("how", ["lost", "overdue"])
def test_abandoned_movements_are_no_longer_waited_for(how):
    """Rows that workers hold for them would be held for good."""
    made = region()
    fed(made)
    source = int(made.movements.table.owners[0])
    moving(made)
    version = made.movements.table.version
    if how == "lost":
        told = list(made.hear_worker(2.0, source, MoveReport("r", 1, "lost", "it cannot be put back")))
    else:
        told = [each for time in (20.0, 60.0, 100.0) for each in made.tick(time)]
    assert kinds(told).index("AbandonMoves") < kinds(told).index("GraphRouting")
    assert [(message.paused, message.version > version) for message in routings(told).values()] == [((), True)] * 3


def test_an_operator_that_has_changed_is_told():
    made = region(durable=True)
    version = made.movements.table.version
    told = routings(made.reopen(opened("another", True)))
    assert [(each.operator, each.version > version) for each in told.values()] == [("another", True)] * 3
    assert routings(made.reopen(opened("another", True))) == {}


def test_the_order_of_filters_is_written_down():
    made, none = region(), np.zeros(0, np.int64)
    order = FilterOrder("a", ("cheap", "dear"), (0.5, 9.0), (0.1, 0.2))
    told = FlowReport("r", 1.0, none.astype(np.int32), *[none] * 5, orders=(order,))
    (record,) = made.hear_worker(1.0, 0, told)
    assert record.event == "filters-ordered"
    assert fields_of(record)["filters"] == ["cheap", "dear"]
    assert fields_of(record)["worker"] == 0


def results(told):
    """By entry of what came out: rows that arrived, and results."""
    entries = (fields_of(each) for each in told if getattr(each, "event", "") == "graph-results")
    return [(fields["arrived"], fields["results"]) for fields in entries]


def test_what_came_out_last_is_written_down_when_the_cluster_stops_and_when_tasks_leave_then():
    made, progress = Controller(1), FlowProgress({0: 7}, Latencies({3: 5}, 0.5))
    for event in (
        opened(),
        FeederJoinedEvent(0.0, 21, "r", stage="1"),
        TickEvent(0.1),
        MessageEvent(0.2, 21, progress),
    ):
        assert not results(made.handle(event))
    assert results(made.handle(StopEvent(0.3))) == [(7, 5)]
    made.handle(MessageEvent(0.4, 21, progress))
    assert results(made.handle(PeerLeftEvent(0.5, 21, "the cluster is stopping"))) == [(7, 5)]


def test_what_came_out_last_is_written_down_when_the_region_ends():
    made = region()
    fed(made)
    list(made.hear(1.0, FeederJoinedEvent(1.0, 21, "r", stage="1"), FlowProgress({0: 7}, Latencies({3: 5}, 0.5))))
    assert results(made.close(1.1)) == [(7, 5)]


def test_a_rest_between_batches_is_in_no_sample_and_every_row_in_one():
    """Batches of 3.05 s every 33 s; workers tell ten times a second, and once more when the feeder is gone."""
    made, entries = region(), []

    def tell(time):
        for worker in range(3):
            unit = int(np.flatnonzero(made.movements.table.owners == worker)[0])
            entries.extend(made.hear_worker(time, worker, report({unit: (1000, 1000, 40_000)})))
        entries.extend(made.rebalance(time))

    for batch in range(4):
        start = 33.0 * batch + 1
        feeder = FeederJoinedEvent(start, 21 + batch, "r", stage=str(batch))
        assert not made.register(feeder)
        entries += [*made.join(feeder), *made.hear(start, feeder, FeederBegan(0))]
        for step in range(1, 31):
            tell(start + step / 10)
            entries += made.tick(start + step / 10)
        entries += made.leave(feeder, PeerLeftEvent(start + 3.05, feeder.peer, "done"), True)
        tell(start + 3.1)
        for step in range(32, 330):
            entries += made.tick(start + step / 10)
    samples = [each for each in entries if getattr(each, "event", "") == "graph-sample"]
    late = [fields_of(each) for each in samples if each.time > 33]
    assert max(each["seconds"] for each in late) < 1.2
    rows = [sum(host["rows_s"] for host in each["hosts"]) * each["seconds"] for each in late]
    assert sum(rows) == pytest.approx(3 * 31 * 3000)
    assert {round(each.time) % 33 for each in samples if each.time > 33} <= {2, 3, 4, 5}


def test_settled_is_a_graph_whose_tasks_have_left_and_whose_results_are_written_down():
    made = region()
    assert made.settled
    feeder = FeederJoinedEvent(1.0, 21, "r", stage="1")
    fed(made)
    list(made.tick(1.0))
    list(made.hear(1.1, feeder, FlowProgress({0: 5}, Latencies({1: 5}, 0.5), {0: 3})))
    list(made.leave(feeder, PeerLeftEvent(1.2, 21, "it has ended"), True))
    assert not made.settled  # on its way to the event log
    records = list(made.tick(5.0))
    assert "graph-results" in [getattr(each, "event", "") for each in records]
    assert made.settled
