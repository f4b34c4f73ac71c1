"""The order in which a worker serves the frames of graphs, and what leaves with units that move."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.graph.build.binding import bind
from evenflow.graph.hosted import HostedGraph
from evenflow.graph.routing import Ways
from evenflow.runtime.wire.flows import flow_frame, flow_head
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.leaving_rows import divided
from evenflow.runtime.worker.graphs.queue import Gate, RowQueue
from evenflow.runtime.worker.rows.codec import read_rows


def frame(number, size=1):
    return Frame(Kind.FLOW, bytes(size), number)


def some(feeder, rows):
    return flow_frame(1, 9, 0, feeder, [0], memoryview(b"rows"), rows)


def served(queue):
    found = []
    while isinstance(queue.first, Frame):
        found.append(queue.take().sequence)
    return found


def pass_by(queue, gate, stays):
    """Open the gate that is reached, now that it is decided whether its units stay."""
    assert queue.first is gate
    gate.stays = stays
    queue.open(gate)


def test_first_come_first_served():
    queue = RowQueue()
    for number in (1, 2, 3):
        queue.append(frame(number, 10))
    assert (len(queue), queue.bytes) == (3, 30)
    assert served(queue) == [1, 2, 3]
    assert queue.bytes == 0


def test_rows_that_wait_are_counted_by_feeder():
    """At gates, too; what is taken in parts, and what nobody wants any more, waits no longer."""
    queue, gate = RowQueue(), Gate("r", 4, [0], [some(7, 3), some(8, 4)])
    queue.append(some(7, 10))
    queue.append(gate)
    queue.wait_at(gate, [some(7, 1)])
    assert queue.rows == {7: 14, 8: 4}
    queue.put_first([queue.take(), some(9, 5)])
    assert queue.rows == {7: 14, 8: 4, 9: 5}
    queue.take_parts(lambda each: ([], each) if flow_head(each).feeder == 7 else ([each], None))
    assert queue.rows == {7: 14, 8: 4}, "those at gates that may not stay are left"
    queue.take()
    pass_by(queue, gate, stays=False)
    assert queue.first is None
    assert queue.rows == {}


def test_what_is_left_of_a_frame_comes_first():
    queue = RowQueue()
    for number in (1, 4):
        queue.append(frame(number, 10))
    assert queue.take().sequence == 1
    queue.put_first([frame(2, 5), frame(3, 5)])
    assert queue.bytes == 20
    assert served(queue) == [2, 3, 4]


def test_rows_at_a_gate_are_served_when_it_is_reached():
    """Behind all that came before it, before all that came after it; what comes behind it waits until it is decided."""
    queue, gate = RowQueue(), Gate("r", 4, [0], [frame(2), frame(3)])
    queue.append(frame(1))
    queue.append(gate)
    queue.append(frame(5))
    assert queue.bytes == 4
    assert served(queue) == [1]
    queue.wait_at(gate, [frame(4)])
    pass_by(queue, gate, stays=True)
    assert queue.bytes == 4
    assert served(queue) == [2, 3, 4, 5]
    assert queue.bytes == 0


def test_rows_at_the_gate_of_units_that_do_not_stay_are_dropped():
    """Their source has them, too."""
    queue, gate = RowQueue(), Gate("r", 4, [0], [frame(1)])
    queue.append(gate)
    queue.append(frame(2))
    pass_by(queue, gate, stays=False)
    assert served(queue) == [2]
    assert queue.bytes == 0


def test_parts_are_taken_in_their_order_and_the_rest_keeps_its_place():
    """Also at gates of units that stay; those of other movements are left alone."""
    queue = RowQueue()
    stays = Gate("r", 4, [0], [frame(1, 10), frame(2, 10), frame(3, 10)])
    other = Gate("r", 5, [1], [frame(9, 10)])
    for each in (frame(0, 10), stays, frame(4, 10), other, frame(5, 10), frame(6, 10)):
        queue.append(each)
    stays.stays = True

    def divide(each):
        match each.sequence % 3:
            case 0:
                return [each], None
            case 1:
                return [], each
        return [frame(20 + each.sequence, 3)], frame(each.sequence, 7)

    assert [each.sequence for each in queue.take_parts(divide)] == [0, 22, 3, 25, 6]
    assert queue.bytes == 10 + 7 + 10 + 10 + 7
    pass_by(queue, stays, stays=True)
    assert served(queue) == [1, 2, 4]
    pass_by(queue, other, stays=True)
    assert served(queue) == [9, 5]


ROWS = pa.schema([("k", pa.int64()), ("v", pa.float64())])


def same(batch):
    return batch


@pytest.fixture(scope="module")
def graph():
    """One source with two whole readers, a third that is spread, and lanes."""
    made = ef.Graph()
    rows = made.source("rows")
    made.endpoint("a", rows.map(same, ROWS, name="a"))
    made.endpoint("b", rows.map(same, ROWS, name="b"))
    made.endpoint("c", rows.keyed("k", ef.RollingMean("v", rows=2), units=8, name="c"))
    made.endpoint("d", rows.map(same, ROWS, ordered=True, name="d"))
    return HostedGraph(bind(made, {"rows": ROWS}, schema_of=lambda schema: schema))


def sent(graph, turn=3):
    """The frames of some rows of the source, all for worker 0: those for whole readers together, those by key apart."""
    batch = pa.record_batch([np.arange(40), np.arange(40.0)], schema=ROWS)
    ways = Ways(graph.plan, np.zeros(graph.units, np.int32))
    return [
        flow_frame(number, 9, turn, 5, bundle.ports, memoryview(bundle.rows.serialize()), bundle.rows.num_rows)
        for number, bundle in enumerate(ways.split(0, batch, turn), 1)
    ]


def units_of(graph, *names):
    found = np.zeros(graph.units, np.bool_)
    for node in graph.plan.nodes:
        if node.name in names:
            found[node.first : node.first + node.units] = True
    return found


def keys_of(graph, frame):
    head = flow_head(frame)
    return [graph.plan.nodes[graph.plan.ports[port].node].name for port in head.ports], sorted(
        read_rows(head.rows, graph.schemas[head.ports[0]]).column("k").to_pylist()
    )


@pytest.mark.parametrize(
    ("moving", "leaving", "staying"),
    [
        ((), [], ["a", "b", "d"]),
        (("a",), ["a"], ["b", "d"]),
        (("b", "d"), ["b", "d"], ["a"]),
        (("a", "b", "d"), ["a", "b", "d"], []),
    ],
    ids=["none", "one", "two", "all"],
)
def test_a_frame_for_several_readers(graph, moving, leaving, staying):
    whole = next(each for each in sent(graph) if len(flow_head(each).ports) > 1)
    found = divided(whole, flow_head(whole), graph, units_of(graph, *moving), lambda: 77)
    every = list(range(40))
    assert [keys_of(graph, each) for each in found.leaving] == ([(leaving, every)] if leaving else [])
    assert (None if found.staying is None else keys_of(graph, found.staying)) == ((staying, every) if staying else None)
    both = bool(leaving and staying)
    assert found.new == (77 if both else 0)
    assert {each.sequence for each in found.leaving} == ({77 if both else whole.sequence} if leaving else set())
    assert found.staying is None or found.staying.sequence == whole.sequence
    for each in (*found.leaving, *([found.staying] if found.staying else [])):
        assert (each.part, flow_head(each).turn, flow_head(each).feeder) == (9, 3, 5)
        assert flow_head(each).row_count == len(keys_of(graph, each)[1])


def test_only_the_lane_of_the_turn_counts(graph):
    whole = next(each for each in sent(graph) if len(flow_head(each).ports) > 1)
    lanes = next(node for node in graph.plan.nodes if node.name == "d")
    units = units_of(graph, "d")
    units[lanes.first + 3 % lanes.units] = False
    assert divided(whole, flow_head(whole), graph, units, lambda: 77).leaving == []


def test_rows_by_key(graph):
    spread = next(each for each in sent(graph) if keys_of(graph, each)[0] == ["c"])
    node = next(node for node in graph.plan.nodes if node.name == "c")
    batch = read_rows(flow_head(spread).rows, graph.schemas[flow_head(spread).ports[0]])
    _, local, _ = graph.rows_of(flow_head(spread).ports[0], batch)
    units = np.zeros(graph.units, np.bool_)
    units[node.first + local[0]] = True
    found = divided(spread, flow_head(spread), graph, units, lambda: 77)
    mine = sorted(np.flatnonzero(local == local[0]).tolist())
    assert [keys_of(graph, each)[1] for each in found.leaving] == [mine]
    assert keys_of(graph, found.staying)[1] == sorted(set(range(40)) - set(mine))
    assert (found.new, found.staying.sequence) == (77, spread.sequence)
