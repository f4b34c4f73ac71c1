"""The order in which a worker serves the frames of graphs, and what leaves with units that move."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.graph.binding import bind
from evenflow.graph.hosted import HostedGraph
from evenflow.graph.routing import Ways
from evenflow.runtime.wire.flows import flow_frame, flow_head
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.codec import read_rows
from evenflow.runtime.worker.leaving_rows import divided
from evenflow.runtime.worker.row_queue import Gate, RowQueue


def frame(number, size=1):
    return Frame(Kind.FLOW, bytes(size), number)


def served(queue):
    found = []
    while queue.first is not None:
        found.append(queue.take().sequence)
    return found


def test_what_was_put_first_keeps_its_order():
    """Also with what was put first before: rows of one sender may be in both."""
    queue = RowQueue(lambda gate: True, None)
    queue.append(frame(5))
    queue.put_first([frame(1), frame(2), frame(3)], ("r", 4))
    assert queue.take().sequence == 1
    queue.put_first([frame(4)], ("r", 4))
    assert queue.bytes == 4
    assert served(queue) == [2, 3, 4, 5]
    queue.append(frame(6))
    queue.put_first([frame(7)], ("r", 0))
    assert served(queue) == [7, 6]
    assert queue.bytes == 0


def test_rows_for_operators_downstream_are_put_before_others():
    """What those upstream give comes to them by calls: of one graph only."""
    queue = RowQueue(lambda gate: True, None)
    queue.append(frame(9))
    queue.put_first([frame(5), frame(6)], ("r", 2))
    queue.put_first([frame(1)], ("r", 7))
    queue.put_first([frame(2), frame(3)], ("r", 5))
    queue.put_first([frame(7)], ("other", 9))
    queue.put_first([frame(8)], ("r", 1))
    queue.put_first([frame(4)], ("r", 5))
    assert served(queue) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_question_is_answered_when_all_before_it_is_served():
    answered = []
    queue = RowQueue(lambda gate: False, lambda channel, flush: answered.append((channel, flush.sequence)))
    queue.append(frame(1))
    queue.ask("peer", frame(4))
    queue.append(frame(2))
    assert queue.first.sequence == 1
    assert not answered
    queue.take()
    assert queue.first.sequence == 2
    assert answered == [("peer", 4)]
    queue.close(Gate("r", 7))
    queue.ask("peer", frame(5))
    assert [each.sequence for each in queue.take_parts(lambda each: ([each], None))] == [2]
    assert queue.first is None
    assert len(answered) == 1


def test_what_comes_behind_a_gate_waits():
    decided = set()
    queue = RowQueue(lambda gate: gate.move in decided, None)
    queue.append(frame(1))
    queue.close(Gate("r", 4))
    queue.append(frame(3))
    assert served(queue) == [1]
    queue.put_first([frame(2)], ("r", 0))
    decided.add(4)
    assert served(queue) == [2, 3]


def test_parts_are_taken_in_their_order_and_the_rest_keeps_its_place():
    queue = RowQueue(lambda gate: True, None)
    for number in (4, 5, 6):
        queue.append(frame(number, 10))
    queue.put_first([frame(1, 10), frame(2, 10), frame(3, 10)], ("r", 4))

    def divide(each):
        match each.sequence % 3:
            case 0:
                return [each], None
            case 1:
                return [], each
        return [frame(20 + each.sequence, 3)], frame(each.sequence, 7)

    assert [each.sequence for each in queue.take_parts(divide)] == [22, 3, 25, 6]
    assert queue.bytes == 10 + 7 + 10 + 7
    queue.put_first([frame(0)], ("r", 3))
    assert served(queue) == [1, 2, 0, 4, 5], "two of those that were put first are left"


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
        flow_frame(number, 9, turn, 5, bundle.ports, memoryview(bundle.rows.serialize()))
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
