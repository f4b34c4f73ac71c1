"""What goes wrong, and what the user is told. Whatever can be made whole is."""

import os
import re
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

from evenflow.errors import ClusterStopped, FunctionError, ProtocolError, RegionStalled, WorkerLost
from evenflow.model.messages import OperatorFailed
from evenflow.runtime.driver import eventlog
from evenflow.runtime.feeder.ordered.feeder import OrderedFeeder
from evenflow.runtime.feeder.ordered.splitter import FeederLimits
from evenflow.runtime.wire.channel import PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import packed
from evenflow.runtime.worker.rows import codec as bodies
from tests.support.rig import IDS, PATIENCE_S, Even, Impostor, Peer, batches, ids, until

ROWS = batches(2000, 100)


class ByCredits(Even):
    splitting = "credits"


BALANCES = [Even, ByCredits]


def identity(batch):
    return batch


def whole(table, rows=2000, ordered=True):
    got = table["id"].to_pylist()
    return (got if ordered else sorted(got)) == list(range(rows))


def rows_until(happened):
    """Rows that do not end before something has happened; then they come slowly, so that there are not too many."""
    start, deadline = 0, time.monotonic() + PATIENCE_S
    while start < 2000 or not happened():
        yield ids(start, start + 100)
        start += 100
        if start > 2000:
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.002)


def rows_in(frame):
    return pa.ipc.read_record_batch(pa.py_buffer(frame.body), IDS)["id"].to_pylist()


def serves(cluster):
    return whole(cluster.map(identity, ROWS))


# -- the user's function


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def raising(error):
    def function(batch):
        if 1234 in batch["id"].to_pylist():
            raise error
        return batch

    return function


@pytest.mark.parametrize("balance", BALANCES)
def test_function_that_raises(rig, balance):
    cluster = rig(2)
    with pytest.raises(FunctionError) as caught:
        cluster.map(raising(KeyError("price")), ROWS, balance=balance())
    message = str(caught.value)
    where = r"the function of region r1 failed on worker ([01]), on rows (\d+) to (\d+) of partition 0: "
    found = re.match(where + r"KeyError: 'price'\n", message)
    assert found, message
    assert int(found[2]) <= 1234 <= int(found[3])
    assert "Traceback (most recent call last):" in message
    assert "raise error" in message
    (told,) = until(lambda: cluster.events("feeder-failed"), "that the task has failed")
    assert told["region"] == "r1"
    assert (told["partition"], told["attempt"], told["worker"]) == (0, 0, int(found[1]))
    assert told["error"] == message
    assert serves(cluster)


def test_a_loop_of_tasks_that_fail_cannot_fill_the_log(rig):
    cluster = rig(2)
    cluster.driver._errors.quota = eventlog.Quota(most=2, per_s=1e6)
    cluster.driver._errors.quota.left_out(cluster.driver.now())
    for _ in range(5):
        with pytest.raises(FunctionError):
            cluster.map(raising(KeyError("price")), ROWS)
    until(lambda: len(cluster.events("feeder-left")) == 5, "that the tasks are over")
    cluster.close()
    assert len(cluster.events("feeder-failed")) == 2
    assert [(entry["kind"], entry["count"]) for entry in cluster.events("entries-left-out")] == [("feeder-failed", 3)]


def test_strangers_do_not_keep_failures_out_of_the_log(rig):
    cluster = rig(2)
    cluster.driver._errors.quota = eventlog.Quota(most=2, per_s=1e6)
    cluster.driver._errors.quota.left_out(cluster.driver.now())
    for _ in range(5):
        with Peer(cluster.settings.port) as peer:
            peer.sock.sendall(b"GET / HTTP/1.1\r\n" * 4)
            assert peer.is_dropped()
    with pytest.raises(FunctionError):
        cluster.map(raising(KeyError("price")), ROWS)
    until(lambda: cluster.events("feeder-failed"), "that the task has failed")
    cluster.close()
    left = [(entry["kind"], entry["count"]) for entry in cluster.events("entries-left-out")]
    assert left == [("stranger-refused", 3)]


def test_input_that_fails_is_not_told_as_a_failure_of_the_region(rig):
    cluster = rig(2)

    def rows():
        yield ROWS[0]
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        cluster.map(identity, rows())
    until(lambda: cluster.events("feeder-left"), "that the task is over")
    assert not cluster.events("feeder-failed")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raising(SystemExit(3)), "SystemExit: 3"),
        (raising(ValueError("naïve \udcff\n日本")), "ValueError: naïve"),
        (raising(Unspeakable()), "Unspeakable"),
        (lambda _batch: None, "FunctionError: the function returned NoneType, not a pyarrow.RecordBatch"),
        (lambda batch: batch.rename_columns(["ID"]), "FunctionError: the function returned columns ['ID']"),
        (lambda batch: batch.cast(pa.schema([("id", pa.string())])), "FunctionError: column 'id' is string"),
    ],
    ids=["exit", "odd text", "no text", "nothing", "columns", "types"],
)
def test_what_the_user_is_told(rig, function, message):
    cluster = rig(2)
    with pytest.raises(FunctionError, match=re.escape(message)):
        cluster.map(function, ROWS)
    assert serves(cluster)
    assert [w.restarts for w in cluster.workers()] == [0, 0]


def test_function_that_cannot_be_loaded(rig):
    cluster = rig(1)
    feed = replace(cluster.feed(identity), operator="broken")
    cluster.driver.add_code("broken", b"cno_such_module\nthing\n.")
    with pytest.raises(FunctionError, match="No module named 'no_such_module'"):
        list(feed(iter(ROWS)))
    assert serves(cluster)


def test_a_result_too_large_for_a_frame(rig, monkeypatch):
    monkeypatch.setattr(bodies, "MAX_BODY", 100_000)
    cluster = rig(1)
    schema = pa.schema([("blob", pa.binary())])
    with pytest.raises(FunctionError, match=r"\d+ rows of the result take \d+ bytes, over the 100000 bytes a frame"):
        cluster.map(lambda b: pa.RecordBatch.from_pydict({"blob": [bytes(200_000)] * len(b)}), ROWS, schema)
    assert serves(cluster)


# -- workers that are lost


@pytest.mark.parametrize("balance", BALANCES)
def test_killed_worker(rig, balance, tmp_path):
    cluster = rig(2, processes=True)
    mark = tmp_path / "started"
    victim = cluster.workers()[1].pid

    def function(batch):
        if os.getpid() == victim:
            mark.touch()
            time.sleep(600)
        time.sleep(0.001)
        return batch

    def kill():
        until(mark.exists)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    made = cluster.map(function, rows_until(mark.exists), balance=balance())
    assert whole(made, made.num_rows)
    killer.join()
    [entry] = until(lambda: cluster.events("worker-lost"))
    assert (entry["worker"], entry["pid"]) == (1, victim)
    assert [w.state for w in cluster.workers()] == ["live", "lost"]
    cluster.processes[1].wait()
    cluster.start_process(1)
    cluster.await_live(2)
    assert (cluster.workers()[1].restarts, cluster.workers()[1].incarnation) == (1, 2)
    assert serves(cluster)


@pytest.mark.parametrize("balance", BALANCES)
def test_workers_lost_together(rig, balance):
    """An executor that dies takes all of its workers with it: their frames must not be sent from one to the other."""
    cluster = rig(4, start=False)
    got = [threading.Event() for _ in range(3)]
    silent = [
        Impostor(cluster, number, lambda _channel, _frame, seen=seen: seen.set()) for number, seen in enumerate(got)
    ]
    cluster.start_thread(3)
    cluster.await_live(4)

    def lose_them():
        for seen in got:
            seen.wait(PATIENCE_S)
        for impostor in silent:
            impostor.die()
        for number in range(3):
            cluster.threads[number].join(PATIENCE_S)

    def rows():
        last = 0
        for batch in rows_until(lambda: all(seen.is_set() for seen in got)):
            yield batch
            last = batch["id"][-1].as_py() + 1
        helper.join()  # in one go for the feeder, which does not look while it waits for input
        yield ids(last, last + 1000)

    helper = threading.Thread(target=lose_them)
    helper.start()
    made = cluster.map(identity, rows(), balance=balance())
    assert whole(made, made.num_rows)
    assert made.num_rows >= 3000
    helper.join()


def test_function_that_kills_its_process(rig):
    cluster = rig(3, processes=True)

    def function(batch):
        if 1234 in batch["id"].to_pylist():
            os._exit(3)
        return batch

    with pytest.raises(WorkerLost) as caught:
        cluster.map(function, ROWS)
    found = re.match(
        r"rows (\d+) to (\d+) of partition 0 were lost with 2 workers, the last of them worker", str(caught.value)
    )
    assert found, caught.value
    assert "does the function end its process or run out of memory on these rows?" in str(caught.value)
    until(lambda: len(cluster.events("worker-lost")) == 2)
    assert serves(cluster)


@pytest.mark.parametrize("balance", BALANCES)
def test_the_last_worker_is_lost_and_replaced(rig, balance):
    cluster = rig(1, start=False)
    got = threading.Event()
    first = Impostor(cluster, 0, lambda _channel, _frame: got.set())
    cluster.await_live(1)

    def replace_it():
        got.wait(PATIENCE_S)
        first.die()
        until(lambda: cluster.events("worker-lost"))
        cluster.start_thread(0)

    helper = threading.Thread(target=replace_it)
    helper.start()
    assert whole(cluster.map(identity, ROWS, balance=balance()))
    helper.join()


@pytest.mark.parametrize("balance", BALANCES)
def test_a_newer_copy_takes_over(rig, balance):
    """Spark may run a task twice: the older copy is told to stop, and its frames go to the newer one."""
    cluster = rig(1, start=False)
    got = threading.Event()
    Impostor(cluster, 0, lambda _channel, _frame: got.set())
    older = cluster.threads.pop(0)
    cluster.await_live(1)

    def replace_it():
        got.wait(PATIENCE_S)
        cluster.start_thread(0)

    helper = threading.Thread(target=replace_it)
    helper.start()
    assert whole(cluster.map(identity, ROWS, balance=balance()))
    helper.join()
    older.join()
    assert cluster.workers()[0].incarnation == 2


@pytest.mark.parametrize("balance", BALANCES)
def test_the_head_is_lost_while_the_reorder_buffer_is_full(rig, balance, monkeypatch):
    """Nobody is read from but the owner of the head; when that is lost, everybody must be, or nobody has room."""
    monkeypatch.setattr(bodies, "RESULT_BYTES", 8)
    cluster = rig(3, start=False)
    got = threading.Event()
    silent = Impostor(cluster, 0, lambda _channel, _frame: got.set())
    cluster.await_live(1)

    def lose_it():
        got.wait(PATIENCE_S)  # it has the first frame
        cluster.start_thread(1)
        cluster.start_thread(2)
        cluster.await_live(3)
        time.sleep(0.3)  # long enough for the others' answers to pile up
        silent.die()

    helper = threading.Thread(target=lose_it)
    helper.start()
    limits = FeederLimits(reorder_bytes=100, overdue=1e9)
    assert whole(cluster.map(identity, ROWS[:5], balance=balance(), limits=limits), 500)
    helper.join()


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("balance", BALANCES)
def test_a_worker_lost_in_the_middle_of_an_answer(rig, balance, ordered):
    cluster = rig(2, start=False)
    parts = pa.RecordBatch.from_pydict({"id": [-1]}).serialize()

    def half(channel, frame):
        with suppress(PeerGone):
            channel.send(Frame(Kind.RESULT, memoryview(parts), frame.sequence, more=True))
        impostor.die()

    impostor = Impostor(cluster, 0, half)
    cluster.start_thread(1)
    cluster.await_live(2)
    assert whole(cluster.map(identity, ROWS, balance=balance(), ordered=ordered), ordered=ordered)


# -- workers that are late


def test_without_an_order_nothing_waits_for_a_worker_that_is_late(rig):
    """It has a frame, and others' results leave; with an order, all behind that frame would wait for it."""
    cluster = rig(2, start=False)
    held = []
    late = Impostor(cluster, 0, lambda *asked: held.append(asked))
    cluster.start_thread(1)
    cluster.await_live(2)
    feed = cluster.feed(identity, balance=ByCredits(), ordered=False)
    out = OrderedFeeder(feed, limits=FeederLimits(overdue=1e9)).serve(rows_until(lambda: held))
    seen = []
    while not held or len(seen) < 1000:
        seen += next(out)["id"].to_pylist()
    waiting = [row for _, frame in held for row in rows_in(frame)]
    assert not set(waiting) & set(seen)
    for channel, frame in held:
        late.post(lambda channel=channel, frame=frame: channel.send(Frame(Kind.RESULT, frame.body, frame.sequence)))
    late.answer = lambda channel, frame: channel.send(Frame(Kind.RESULT, frame.body, frame.sequence))
    seen += [row for batch in out for row in batch["id"].to_pylist()]
    assert sorted(seen) == list(range(len(seen)))
    assert set(waiting) <= set(seen)


def test_a_worker_that_never_answers_is_not_waited_for_under_credits(rig):
    cluster = rig(2, start=False)
    got = threading.Event()
    Impostor(cluster, 0, lambda _channel, _frame: got.set())
    cluster.start_thread(1)
    cluster.await_live(2)
    made = cluster.map(identity, rows_until(got.is_set), balance=ByCredits())
    assert whole(made, made.num_rows)
    until(lambda: any(sample["resent"] for sample in cluster.events("sample")), "a frame sent again")


CALLS = []
"""Batches that `noted` was called with."""


def noted(batch):
    CALLS.append(batch["id"][0].as_py())
    time.sleep(0.002)
    return batch


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("kind", [Kind.RESULT, Kind.ERROR])
def test_late_answers_are_thrown_away(rig, kind, ordered):
    """The frame was given to another worker as well, which has answered; what the first one says does not matter."""
    cluster = rig(2, start=False)
    asked, done = [], threading.Event()
    CALLS.clear()

    def answer_late(channel, frame):
        asked.append(frame.sequence)
        if len(asked) == 1:
            threading.Thread(target=answer, args=(channel, frame)).start()

    def answer(channel, frame):
        first = rows_in(frame)[0]
        until(lambda: first in CALLS[:-3])  # worker 1 got three more since: its answer to this one must have been read
        error = packed(OperatorFailed(0, "", "late", ""))
        late = Frame(kind, frame.body if kind is Kind.RESULT else error, frame.sequence)
        impostor.post(lambda: (channel.send(late), done.set()))

    impostor = Impostor(cluster, 0, answer_late)
    cluster.await_live(1)
    cluster.start_thread(1)
    cluster.await_live(2)

    made = cluster.map(noted, rows_until(done.is_set), balance=ByCredits(), ordered=ordered)
    assert done.is_set()
    assert whole(made, made.num_rows, ordered)


def test_one_worker_slow_to_send_a_large_result(rig, monkeypatch):
    """With nobody else to give the frame to, it must not be given to the same worker twice."""
    monkeypatch.setattr(bodies, "RESULT_BYTES", 8)

    def slow(batch):
        time.sleep(0.2)
        return batch

    assert whole(rig(1).map(slow, [ids(0, 16)], balance=ByCredits()), 16)


def test_stall(rig):
    cluster = rig(2, start=False, stall_timeout=2.0)
    for number in range(2):
        Impostor(cluster, number, lambda _channel, _frame: None)
    cluster.await_live(2)
    with pytest.raises(RegionStalled) as caught:
        cluster.map(identity, ROWS)
    assert re.match(
        r"region r1: nothing heard for \d+ s: worker 0 \(pid 0, worker 0 at 127.0.0.1:\d+\) has 1 frames; "
        r"worker 1 \(pid 0, .*\) has 1 frames. If the function may take this long on a frame, "
        r"give Cluster a stall_timeout above 2 s",
        str(caught.value),
    ), caught.value


def test_no_worker(rig):
    cluster = rig(2, start=False, stall_timeout=0.3)
    with pytest.raises(RegionStalled, match="no worker is live"):
        cluster.map(identity, ROWS)


# -- workers that make no sense


ANSWERS = [
    (
        lambda frame: Frame(Kind.RESULT, frame.body, frame.sequence + 1000),
        "RESULT frame for sequence 1\\d\\d\\d, unasked",
    ),
    (lambda frame: Frame(Kind.DATA, frame.body, frame.sequence), "DATA frame for sequence \\d+, unasked"),
    (lambda frame: Frame(Kind.RESULT, b"", frame.sequence), "rows that do not fit the schema"),
    (lambda frame: Frame(Kind.RESULT, b"nonsense" * 9, frame.sequence), "rows that do not fit the schema"),
    (lambda frame: Frame(Kind.RESULT, b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16), frame.sequence), "do not fit"),
]


@pytest.mark.parametrize(("answer", "message"), ANSWERS, ids=range(len(ANSWERS)))
def test_answers_that_make_no_sense(rig, answer, message):
    cluster = rig(1, start=False)
    Impostor(cluster, 0, lambda channel, frame: channel.send(answer(frame)))
    cluster.await_live(1)
    with pytest.raises(ProtocolError, match=message) as caught:
        cluster.map(identity, ROWS)
    assert "worker 0" in str(caught.value)


def test_answering_twice(rig):
    cluster = rig(1, start=False)

    def twice(channel, frame):
        for _ in range(2):
            with suppress(PeerGone):
                channel.send(Frame(Kind.RESULT, frame.body, frame.sequence))

    Impostor(cluster, 0, twice)
    cluster.await_live(1)
    with pytest.raises(ProtocolError, match=r"worker 0 .* unasked"):
        cluster.map(identity, ROWS)


# -- the controller


@pytest.mark.parametrize("balance", BALANCES)
def test_stop_during_a_run(rig, balance):
    cluster = rig(2)

    def rows():
        yield from ROWS
        cluster.driver.stop()
        until(lambda: len(cluster.ended) == 2, "the end of the workers")
        yield from ROWS

    with pytest.raises(ClusterStopped, match=r"cluster rig does not serve region r1 any more: .*running Cluster"):
        cluster.map(identity, rows(), balance=balance())


def test_the_driver_goes_away_during_a_run(rig):
    cluster = rig(2)

    def rows():
        yield ids(0, 10)
        cluster.close()
        yield from ROWS

    with pytest.raises(ClusterStopped, match="cluster rig does not serve region r1 any more"):
        cluster.map(identity, rows())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"region": "nowhere"}, "this cluster has no region nowhere"),
        ({"settings": {"port": 1}}, "the controller at 127.0.0.1:1 .*refused"),
        ({"settings": {"secret": b"wrong"}}, "the server does not hold this cluster's secret"),
    ],
    ids=str,
)
def test_the_wrong_cluster(rig, changes, reason):
    feed = rig(1).feed(identity)
    if "settings" in changes:
        changes = {"settings": replace(feed.settings, **changes["settings"])}
    with pytest.raises(ClusterStopped, match=reason):
        list(replace(feed, **changes)(iter(ROWS)))


def test_no_rows_need_no_cluster(rig):
    feed = rig(1).feed(identity)
    assert list(replace(feed, settings=replace(feed.settings, port=1))(iter([ids(0, 0)]))) == []
