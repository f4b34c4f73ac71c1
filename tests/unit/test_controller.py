"""The controller as tables: events in, instructions out."""

from dataclasses import replace

import numpy as np
import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    FeederJoinedEvent,
    MemoryAskedEvent,
    MessageEvent,
    PeerLeftEvent,
    RegionOpenedEvent,
    ReportsAskedEvent,
    SendInstruction,
    StopEvent,
    TaskEndedEvent,
    TickEvent,
)
from evenflow.model import SetWeights
from evenflow.model.messages import (
    MOST_ERROR,
    ConnectionCounts,
    Directory,
    FeederFailed,
    FeederRefused,
    FeederReport,
    MemorySet,
    Prepare,
    SendReport,
    SetClock,
    SetMemory,
    Shutdown,
    Weights,
    WorkerAddress,
    WorkerHello,
    WorkerReport,
)
from evenflow.policy import Balance, RoundRobin
from tests.support.records import fields_of, record

EMPTY = {"blocked_s": 0.0, "rows_sent": 0, "frames_sent": 0, "rows_done": 0, "frames_done": 0, "busy_s": 0.0}


class Scripted(Balance):
    """A balance that says what it is told to, one answer a call, and notes what it saw."""

    name = "scripted"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.seen = []

    def decide(self, snapshot):
        self.seen.append(snapshot)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


def weigh(**weights):
    return [SetWeights("r", {int(name[1:]): weight for name, weight in weights.items()}, reason="told to")]


def opened(time, region, balance=None):
    return RegionOpenedEvent(time, region, f"op-{region}", balance or RoundRobin())


def worker(time, peer, number):
    return MessageEvent(time, peer, WorkerHello(number, host="h", port=7000 + peer, pid=100 + peer))


def feeder(time, peer, region="r"):
    return FeederJoinedEvent(time, peer, region, partition=3, attempt=1, query="q", epoch=9)


def fed(time, peer, feeding_s=1.0, rows_out=0, resent=0, rerouted=0, **connections):
    counts = {int(name[1:]): ConnectionCounts(**counts) for name, counts in connections.items()}
    return MessageEvent(time, peer, FeederReport(feeding_s, rows_out, counts, resent, rerouted))


def controller(*events, workers=2, balance=None):
    """A controller with the region r that has seen `events`."""
    made = Controller(workers)
    for event in (opened(0.0, "r", balance), *events):
        made.handle(event)
    return made


def entry(number, peer, incarnation=1):
    return WorkerAddress(number, incarnation, "h", 100 + peer, 7000 + peer)


def directory(*workers, costs=None, **weights):
    return Directory(workers, {int(name[1:]): weight for name, weight in weights.items()}, costs or {})


PREPARE = Prepare(("op-r",))


def stop(reason):
    return Shutdown(reason)


def brief(instructions):
    """Instructions by their names: whom something is told, what is recorded."""
    return [(i.peer, type(i.message).__name__) if isinstance(i, SendInstruction) else i.event for i in instructions]


def states(made):
    return [w.state for w in made.workers(now=0.0)]


# -- workers come and go


def test_first_worker_gets_all():
    made = controller()
    assert made.handle(worker(5.0, 11, 0)) == [
        record(5.0, "worker-joined", {"worker": 0, "incarnation": 1, "host": "h", "pid": 111}),
        SendInstruction(11, PREPARE),
    ]
    assert states(made) == ["live", "starting"]
    assert made.live() == 1
    assert made.region("r").weights == {0: 1000}


def test_second_worker_shares_and_feeders_hear_of_it():
    made = controller(worker(0.0, 11, 0), feeder(1.0, 21))
    assert made.handle(worker(5.0, 12, 1)) == [
        record(5.0, "worker-joined", {"worker": 1, "incarnation": 1, "host": "h", "pid": 112}),
        SendInstruction(12, SetClock(4.0)),
        SendInstruction(12, PREPARE),
        SendInstruction(21, directory(entry(0, 11), entry(1, 12), w0=500, w1=500)),
    ]


def test_memory_is_told_to_those_that_are_there_and_to_those_that_come():
    made = controller(worker(0.0, 11, 0))
    assert made.handle(MemoryAskedEvent(1.0, {0: 100, 1: 200})) == [
        record(1.0, "memory-asked", {"worker": 0, "memory": 100}),
        SendInstruction(11, SetMemory(100)),
        record(1.0, "memory-asked", {"worker": 1, "memory": 200}),
    ]
    assert SendInstruction(12, SetMemory(200)) in made.handle(worker(2.0, 12, 1))
    assert made.handle(MessageEvent(3.0, 11, MemorySet(100, 100, 90, 10, 0.25))) == [
        record(3.0, "memory-set", {"worker": 0, "memory": 100, "resident": 90, "spilled": 10, "seconds": 0.25})
    ]
    assert SendInstruction(13, SetMemory(100)) in made.handle(worker(4.0, 13, 0))


def test_a_question_is_answered_when_all_live_workers_have_reported():
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1))
    assert made.handle(ReportsAskedEvent(1.0, 1)) == [
        SendInstruction(11, SendReport(1)),
        SendInstruction(12, SendReport(1)),
    ]
    made.handle(MessageEvent(1.1, 11, WorkerReport(rows=9, frames=3, busy_s=0.5, answers=1)))
    made.handle(MessageEvent(1.1, 12, WorkerReport(rows=4, frames=1, busy_s=0.5)))  # on its way when it was asked
    assert not made.reported(1)
    made.handle(MessageEvent(1.2, 12, WorkerReport(rows=5, frames=2, busy_s=0.5, answers=1)))
    assert made.reported(1)
    assert [each.rows for each in made.workers(1.2)] == [9, 5]
    made.handle(ReportsAskedEvent(2.0, 2))
    made.handle(PeerLeftEvent(2.1, 12, "killed"))  # it answers nothing any more
    made.handle(MessageEvent(2.2, 11, WorkerReport(rows=9, frames=3, busy_s=0.5, answers=2)))
    assert made.reported(2)


def test_memory_that_a_worker_refuses_is_not_told_to_the_next():
    made = controller(worker(0.0, 11, 0))
    made.handle(MemoryAskedEvent(1.0, {0: 100}))
    record, warning = made.handle(MessageEvent(2.0, 11, MemorySet(100, 500, 400, 0, 0.0, "unit 3 is larger")))
    assert (record.event, fields_of(record)["asked"], fields_of(record)["memory"]) == ("memory-refused", 100, 500)
    assert "worker 0 keeps 500 bytes" in warning.text
    assert "unit 3 is larger" in warning.text
    assert SendInstruction(12, SetMemory(500)) in made.handle(worker(3.0, 12, 0))


def test_worker_that_leaves_is_lost_and_the_rest_takes_over():
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(1.0, 21))
    assert made.handle(PeerLeftEvent(7.0, 12, "closed")) == [
        record(7.0, "worker-lost", {"worker": 1, "incarnation": 1, "pid": 112, "reason": "closed"}),
        record(
            7.0,
            "weights",
            {"region": "r", "weights": {"0": 1000}, "reason": "even split", "balance": "round-robin", "detail": {}},
        ),
        SendInstruction(21, directory(entry(0, 11), w0=1000)),
    ]
    assert states(made) == ["live", "lost"]


def test_last_worker_leaves():
    made = controller(worker(0.0, 11, 0), feeder(1.0, 21), workers=1)
    assert made.handle(PeerLeftEvent(7.0, 11, "closed"))[-1] == SendInstruction(21, directory())
    assert made.live() == 0


def test_restart_is_a_new_incarnation():
    made = controller(
        worker(0.0, 11, 0),
        MessageEvent(1.0, 11, WorkerReport(rows=9, frames=3, busy_s=0.5)),
        PeerLeftEvent(2.0, 11, "x"),
    )
    assert made.handle(TaskEndedEvent(3.0, 0, "exit 9")) == [
        record(3.0, "task-ended", {"worker": 0, "reason": "exit 9"})
    ]
    assert states(made) == ["starting", "starting"]
    made.handle(worker(4.0, 12, 0))
    status = made.workers(now=10.0)[0]
    assert (status.state, status.incarnation, status.restarts, status.pid) == ("live", 2, 1, 112)
    assert (status.rows, status.frames, status.busy_s, status.heard_s) == (0, 0, 0.0, 6.0)


def test_task_ended_does_not_hide_a_replacement_that_is_live():
    made = controller(
        worker(0.0, 11, 0), PeerLeftEvent(1.0, 11, "x"), worker(2.0, 12, 0), TaskEndedEvent(3.0, 0, "late news")
    )
    assert states(made)[0] == "live"


def test_newer_copy_replaces_the_older_one():
    made = controller(worker(0.0, 11, 0), feeder(1.0, 21))
    assert made.handle(worker(5.0, 12, 0)) == [
        SendInstruction(11, stop("replaced by a newer attempt")),
        record(5.0, "worker-joined", {"worker": 0, "incarnation": 2, "host": "h", "pid": 112}),
        SendInstruction(12, SetClock(4.0)),
        SendInstruction(12, PREPARE),
        SendInstruction(21, directory(entry(0, 12, incarnation=2), w0=1000)),
    ]
    # What the older one still says or does is nobody's business.
    assert made.handle(MessageEvent(6.0, 11, WorkerReport(rows=9, frames=1, busy_s=1.0))) == []
    assert made.handle(PeerLeftEvent(6.0, 11, "closed")) == []
    assert made.workers(6.0)[0].rows == 0
    assert states(made)[0] == "live"


@pytest.mark.parametrize(
    ("before", "event", "reason"),
    [
        ([], worker(1.0, 11, 2), "there is no worker 2"),
        ([], worker(1.0, 11, -1), "there is no worker -1"),
        ([StopEvent(0.0)], worker(1.0, 11, 0), "the cluster is stopping"),
    ],
)
def test_worker_refused(before, event, reason):
    assert controller(*before).handle(event) == [
        record(1.0, "worker-refused", {"worker": event.message.worker, "reason": reason}),
        SendInstruction(11, stop(reason)),
    ]


def test_heartbeat():
    made = controller(worker(0.0, 11, 0))
    assert made.handle(MessageEvent(4.0, 11, WorkerReport(rows=10, frames=2, busy_s=0.5))) == []
    status = made.workers(now=7.0)[0]
    assert (status.rows, status.frames, status.busy_s, status.heard_s) == (10, 2, 0.5, 3.0)
    assert made.workers(now=7.0)[1].heard_s == 0.0


def test_strangers_leave_no_trace():
    made = controller(worker(0.0, 11, 0))
    events = [
        MessageEvent(1.0, 99, WorkerReport(1, 1, 1.0)),
        fed(1.0, 99, w0={"rows_sent": 5}),
        PeerLeftEvent(1.0, 99, "x"),
        TickEvent(2.0),
    ]
    assert [made.handle(event) for event in events] == [[], [], [], []]


# -- feeders


def test_feeder_joins():
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1))
    joined = {"region": "r", "partition": 3, "attempt": 1, "query": "q", "epoch": 9}
    told = directory(entry(0, 11), entry(1, 12), w0=500, w1=500)
    assert made.handle(feeder(5.0, 21)) == [
        SendInstruction(11, SetClock(0.0)),
        SendInstruction(12, SetClock(0.0)),
        record(5.0, "feeder-joined", joined),
        SendInstruction(21, told),
    ]
    assert made.handle(feeder(6.0, 22)) == [
        record(6.0, "feeder-joined", joined),
        SendInstruction(22, told),
    ]  # one clock for all
    assert made.handle(PeerLeftEvent(8.0, 21, "done")) == [
        record(8.0, "feeder-left", {"region": "r", "partition": 3, "attempt": 1}),
    ]
    assert made.region("r").snapshot(9.0).feeders == 1


@pytest.mark.parametrize(("worker_id", "where"), [(1, {"worker": 1}), (None, {})])
def test_a_task_that_fails_is_written_down_with_its_error(worker_id, where):
    made = controller(worker(0.0, 11, 0), feeder(5.0, 21))
    task = {"region": "r", "partition": 3, "attempt": 1}
    said = MessageEvent(6.0, 21, FeederFailed("ValueError: boom", worker_id))
    assert made.handle(said) == [record(6.0, "feeder-failed", task | where | {"error": "ValueError: boom"})]
    (long,) = made.handle(MessageEvent(6.0, 21, FeederFailed("x" * 100_000)))
    assert len(fields_of(long)["error"]) == MOST_ERROR


def test_while_stopping_only_errors_of_the_function_are_written_down():
    made = controller(worker(0.0, 11, 0), feeder(5.0, 21), feeder(5.0, 22), StopEvent(6.0))
    assert not made.handle(MessageEvent(6.1, 21, FeederFailed("the cluster is stopping")))
    (told,) = made.handle(MessageEvent(6.1, 22, FeederFailed("ValueError: boom", 0)))
    assert (told.event, fields_of(told)["worker"], fields_of(told)["error"]) == ("feeder-failed", 0, "ValueError: boom")


@pytest.mark.parametrize(
    ("before", "region", "reason"),
    [([], "s", "this cluster has no region s (any more)"), ([StopEvent(0.0)], "r", "the cluster is stopping")],
)
def test_feeder_refused(before, region, reason):
    assert controller(*before).handle(feeder(1.0, 21, region)) == [
        record(1.0, "feeder-refused", {"region": region, "reason": reason}),
        SendInstruction(21, FeederRefused(reason)),
    ]


def test_later_feeders_start_from_what_a_row_cost_last():
    made = controller(
        worker(0.0, 11, 0),
        worker(0.0, 12, 1),
        feeder(0.0, 21),
        fed(1.0, 21, w0={"rows_done": 10, "busy_s": 9.0}, w1={"rows_done": 10, "busy_s": 5.0}),
        fed(2.0, 21, w0={"rows_done": 40, "busy_s": 0.2}, w1={"rows_done": 0, "busy_s": 0.0}),
        PeerLeftEvent(3.0, 21, "done"),
    )
    assert made.handle(feeder(4.0, 22))[-1].message.costs == {0: 0.005, 1: 0.5}
    made.handle(worker(5.0, 13, 0))  # another process: who knows how fast
    assert made.handle(feeder(6.0, 23))[-1].message.costs == {1: 0.5}


def test_what_a_call_costs_beside_its_rows():
    made = controller(worker(0.0, 11, 0), feeder(0.0, 21), workers=1)
    counts = {0: ConnectionCounts(rows_done=10, frames_done=2, busy_s=3.0)}
    made.handle(MessageEvent(1.0, 21, FeederReport(1.0, 0, counts, overhead=5.0)))
    made.handle(MessageEvent(2.0, 21, FeederReport(1.0, 0, counts, overhead=None)))
    told = made.handle(feeder(3.0, 22))[-1].message
    assert (told.overhead, told.costs) == (5.0, {0: 3.0 / (10 + 2 * 5.0)})


def test_two_regions_never_share_a_name():
    made = controller(opened(0.0, "s"), opened(0.0, "s-2"))
    assert [made.free_name(name) for name in ("r", "s", "t")] == ["r-2", "s-3", "t"]


def test_a_region_whose_name_was_not_free_tells_which_it_was():
    made = controller(opened(0.0, "s"))
    told = made.handle(replace(opened(1.0, "s-2"), given="s"))[0]
    assert (told.event, fields_of(told)["region"], fields_of(told)["given"]) == ("region-opened", "s-2", "s")


def test_region_opened_later_knows_the_workers():
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1))
    assert made.handle(opened(3.0, "late")) == [
        record(3.0, "region-opened", {"region": "late", "balance": "round-robin", "splitting": "block"}),
        SendInstruction(11, Prepare(("op-late",))),
        SendInstruction(12, Prepare(("op-late",))),
    ]
    assert made.region("late").weights == {0: 500, 1: 500}
    assert made.handle(worker(4.0, 13, 1))[2] == SendInstruction(13, Prepare(("op-r", "op-late")))


# -- reports, samples, decisions


def test_reports_are_pooled_over_feeders():
    made = controller(
        worker(0.0, 11, 0),
        worker(0.0, 12, 1),
        feeder(0.0, 21),
        feeder(0.0, 22),
        fed(1.0, 21, 1.0, 5, w0={"blocked_s": 0.5, "rows_sent": 10, "frames_sent": 2}, w1={"rows_sent": 1}),
        fed(1.0, 22, 0.5, 3, w0={"blocked_s": 0.25, "rows_sent": 4, "frames_sent": 1, "rows_done": 4, "busy_s": 0.5}),
        fed(2.0, 21, 1.0, 2, w1={"frames_done": 1, "rows_done": 1}),
    )
    snapshot = made.region("r").snapshot(3.0)
    assert (snapshot.time, snapshot.region, snapshot.feeders) == (3.0, "r", 2)
    assert (snapshot.feeding_s, snapshot.rows_out) == (2.5, 10)
    assert [(c.worker, c.blocked_s, c.rows_sent, c.frames_sent, c.rows_done, c.frames_done, c.busy_s) for c in
            snapshot.connections] == [(0, 0.75, 14, 3, 4, 0, 0.5), (1, 0.0, 1, 0, 1, 1, 0.0)]  # fmt: skip


def test_reports_about_dead_workers_are_dropped():
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21), PeerLeftEvent(1.0, 12, "x"))
    made.handle(fed(2.0, 21, 1.0, 0, w0={"rows_sent": 4}, w1={"rows_sent": 5}, w7={"rows_sent": 6}))
    assert [(c.worker, c.rows_sent) for c in made.region("r").snapshot(3.0).connections] == [(0, 4)]


def test_history_ends_with_the_incarnation():
    balance = Scripted()
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21), balance=balance)
    counts = EMPTY | {"rows_sent": 4, "blocked_s": 1.0}
    made.handle(fed(1.0, 21, w0=counts, w1=counts))
    made.handle(PeerLeftEvent(2.0, 12, "x"))
    made.handle(worker(3.0, 13, 1))
    assert [(c.worker, c.incarnation, c.rows_sent, c.blocked_s) for c in balance.seen[-1].connections] == [
        (0, 1, 4, 1.0),
        (1, 2, 0, 0.0),
    ]


def test_sample_once_a_tick_while_something_is_fed():
    made = controller(worker(0.0, 11, 0), feeder(0.0, 21), workers=1)
    table = [
        (TickEvent(1.0), []),  # a feeder is there, nothing fed yet
        (fed(1.3, 21, 0.5, 0, resent=1, rerouted=3), []),
        (fed(1.5, 21, 1.0, 7, 1, w0={"blocked_s": 0.123456789, "rows_sent": 8, "rows_done": 7, "busy_s": 0.25}), []),
        (
            TickEvent(2.0),
            [
                record(
                    2.0,
                    "sample",
                    {
                        "region": "r",
                        "feeders": 1,
                        "feeding_s": 1.5,
                        "rows_out": 7,
                        "resent": 2,
                        "rerouted": 3,
                        "connections": [
                            {
                                "worker": 0,
                                "weight": 1000,
                                "blocked_s": 0.123457,
                                "rows_sent": 8,
                                "rows_done": 7,
                                "busy_s": 0.25,
                                "under_way_s": 0.0,
                            }
                        ],
                    },
                )
            ],
        ),
        (TickEvent(3.0), []),  # nothing new
        (PeerLeftEvent(3.5, 21, "done"), [record(3.5, "feeder-left", {"region": "r", "partition": 3, "attempt": 1})]),
        (TickEvent(4.0), []),
    ]
    for event, instructions in table:
        told = [each for each in made.handle(event) if getattr(each, "event", "") != "performance"]
        assert told == instructions


def test_weights_go_down_to_every_feeder_of_the_region():
    balance = Scripted([], [], weigh(w0=900, w1=100))
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21), feeder(0.0, 22), balance=balance)
    made.handle(opened(0.0, "other"))
    made.handle(feeder(0.0, 31, "other"))
    made.handle(fed(1.0, 21))
    fields = {"region": "r", "weights": {"0": 900, "1": 100}, "reason": "told to", "balance": "scripted", "detail": {}}
    told = made.handle(TickEvent(2.0))
    assert told[1:] == [
        record(2.0, "weights", fields),
        SendInstruction(21, Weights({0: 900, 1: 100})),
        SendInstruction(22, Weights({0: 900, 1: 100})),
    ]
    assert [c.weight for c in made.region("r").snapshot(3.0).connections] == [900, 100]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (weigh(w0=1000), "workers [0] are not the live ones, [0, 1]"),
        (weigh(w0=500, w2=500), "workers [0, 2] are not the live ones, [0, 1]"),
        (weigh(w0=500, w1=499), "weights must be whole numbers of at least 0 and sum to 1000, not 500 + 499"),
        (weigh(w0=1001, w1=-1), "weights must be whole numbers of at least 0 and sum to 1000, not 1001 + -1"),
        (weigh(w0=999.5, w1=0.5), "weights must be whole numbers of at least 0 and sum to 1000, not 999.5 + 0.5"),
    ],
)
def test_weights_refused(wanted, why):
    made = controller(
        worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21), fed(1.0, 21), balance=Scripted([], [], wanted)
    )
    weights = {str(number): weight for number, weight in wanted[0].weights.items()}
    assert made.handle(TickEvent(2.0))[1:] == [
        record(2.0, "weights-refused", {"region": "r", "weights": weights, "reason": "told to", "why": why})
    ]
    assert made.region("r").weights == {0: 500, 1: 500}


def test_weights_may_be_numpys_numbers():
    balance = Scripted([], [], weigh(w0=np.int64(250), w1=np.float64(750)))
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21), fed(1.0, 21), balance=balance)
    told = made.handle(TickEvent(2.0))[-1].message.weights
    assert told == {0: 250, 1: 750}
    assert [type(weight) for weight in told.values()] == [int, int]


def test_refusing_one_move_does_not_refuse_the_next():
    moves = weigh(w0=1) + weigh(w0=400, w1=600)
    made = controller(
        worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21), fed(1.0, 21), balance=Scripted([], [], moves)
    )
    assert brief(made.handle(TickEvent(2.0))) == ["sample", "weights-refused", "weights", (21, "Weights")]


def test_balance_that_raises_costs_its_region_a_round_and_nobody_else():
    broken = Scripted([], [], ZeroDivisionError("no feeding"))
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), balance=broken)
    made.handle(opened(0.0, "sound", Scripted([], [SetWeights("sound", {0: 1, 1: 999})])))
    for peer, region in ((21, "r"), (22, "sound")):
        made.handle(feeder(0.0, peer, region))
        made.handle(fed(1.0, peer))
    told = made.handle(TickEvent(2.0))
    assert brief(told) == ["sample", "balance-failed", "sample", "weights", (22, "Weights")]
    assert fields_of(told[1]) == {"region": "r", "balance": "scripted", "error": "ZeroDivisionError: no feeding"}
    assert made.region("r").weights == {0: 500, 1: 500}


def test_balance_is_asked_when_workers_change():
    balance = Scripted([], weigh(w0=300, w1=700))
    made = controller(worker(0.0, 11, 0), feeder(0.0, 21), balance=balance)
    told = made.handle(worker(1.0, 12, 1))
    assert brief(told) == ["worker-joined", (12, "SetClock"), (12, "Prepare"), "weights", (21, "Directory")]
    assert told[-1].message.weights == {0: 300, 1: 700}
    assert [len(snapshot.connections) for snapshot in balance.seen] == [1, 2]


# -- the end


def test_stop():
    made = controller(worker(0.0, 11, 0), worker(0.0, 12, 1), feeder(0.0, 21))
    assert made.handle(StopEvent(9.0)) == [
        record(9.0, "cluster-stopping", {}),
        SendInstruction(21, FeederRefused("the cluster is stopping")),
        SendInstruction(11, stop("the cluster is stopping")),
        SendInstruction(12, stop("the cluster is stopping")),
    ]
    assert brief(made.handle(PeerLeftEvent(10.0, 11, "bye")))[0] == "worker-stopped"
    assert states(made) == ["stopped", "live"]
    assert made.handle(TaskEndedEvent(11.0, 0, "over")) == [record(11.0, "task-ended", {"worker": 0, "reason": "over"})]
    assert states(made) == ["stopped", "live"]
