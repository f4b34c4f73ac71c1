"""The verdict of the live page: one sentence in each situation, and what stands of failures."""

from dataclasses import replace

import pytest

from evenflow.dashboard.failures import CANCELLED_S, LAPSE_S, WELL_S, JobFailure, JobFailures
from evenflow.dashboard.verdict import HotUnit, RegionSeen, Situation, tones, verdict
from evenflow.dashboard.view import PageView
from evenflow.model.entries import entry_of
from tests.support import event_logs as logs

ONE = {0: 0.95, 1: 0.4, 2: 0.4}
"""Loads of workers, of which one has no room."""
ROOM = {0: 0.66, 1: 0.2, 2: 0.2}
"""As uneven, but all have room."""
HOT = HotUnit(4, 0.95)
NOT_FOUND = "no move of orders has been found that brings more than it costs"


def orders(**fields):
    return RegionSeen("orders", **{"balance": "auto", "feeders": 1, "load": 0.9} | fields)


def on(loads, *regions, row_s=None, **fields):
    return Situation(dict(loads), row_s or {}, regions=regions or (orders(),), feeding=True, now=100.0, **fields)


def even(load):
    return dict.fromkeys(range(3), load)


NOBODY = Situation({}, {})
BOOM = JobFailure("orders", 88.0, "ValueError: boom\nTraceback")

SITUATIONS = {
    "no entries": (NOBODY, "quiet", "Nothing to do", "no rows are being fed"),
    "rows come, next to no work": (on(even(0.01)), "quiet", "Next to nothing to do", "workers are busy…"),
    "rows begin to come": (on(even(0.3), begins=True), "quiet", "Starting", "rows have only begun to come"),
    "begun, no loads yet": (on({}, begins=True), "quiet", "Starting", "rows have only begun to come"),
    "stopped": (Situation({}, {}, state="stopped"), "quiet", "Stopped", "the cluster has stopped"),
    # the input
    "the input, evenly": (
        on(even(0.4)),
        "good",
        "The input is the bottleneck",
        "workers are busy 40 % of the time, evenly",
    ),
    "the input, unevenly": (
        on(ROOM),
        "good",
        "The input is the bottleneck",
        "workers are busy 35 % of the time; worker 0 does 1.87 of the mean, but has room: moving work would bring "
        "nothing",
    ),
    "the input, a little uneven": (
        on({0: 0.6, 1: 0.5, 2: 0.4}),
        "good",
        "The input is the bottleneck",
        "workers are busy 50 % of the time",
    ),
    "batches that wait for their trigger": (
        on({0: 0.1, 1: 0.02, 2: 0.02}, fed=0.1),
        "good",
        "The input is the bottleneck",
        "workers are busy 5 % of the time; worker 0 does 2.14 of the mean, but has room: moving work would bring "
        "nothing",
    ),
    "batches that take their time": (
        on(even(0.3), fed=0.6),
        "good",
        "The input is the bottleneck",
        "workers are busy 50 % of the time that batches run, evenly",
    ),
    # workers
    "one worker": (
        on(ONE),
        "bad",
        "Uneven: worker 0 is the bottleneck",
        f"busy 95 %, the others 40 %; {NOT_FOUND}",
    ),
    "one worker, while batches run": (
        on(ROOM, fed=0.7),
        "bad",
        "Uneven: worker 0 is the bottleneck",
        f"busy 94 %, the others 29 %; {NOT_FOUND}",
    ),
    "one worker, a little": (
        on({0: 0.9, 1: 0.7, 2: 0.7}),
        "fair",
        "Uneven: worker 0 is the bottleneck",
        f"busy 90 %, the others 70 %; {NOT_FOUND}",
    ),
    "one slow worker": (
        on(ONE, row_s={0: 4.0}),
        "bad",
        "Uneven: worker 0 is the bottleneck",
        f"busy 95 %, the others 40 %; a row takes 4.0 times as long there; {NOT_FOUND}",
    ),
    "one worker with a warm unit": (
        on(ONE, orders(hot=HotUnit(4, 0.5))),
        "bad",
        "Uneven: worker 0 is the bottleneck",
        f"busy 95 %, the others 40 %; unit 4 has 50 % of its rows; {NOT_FOUND}",
    ),
    "one unit is the floor": (
        on(ONE, orders(hot=HOT)),
        "fair",
        "Unit 4 of orders is the bottleneck",
        "worker 0 is busy 95 %, the others 40 %; 95 % of its rows are of this unit, which cannot be divided",
    ),
    "one key is the floor": (
        on(ONE, orders(hot=HotUnit(4, 0.95, "Alice"))),
        "fair",
        "Unit 4 (key Alice) of orders is the bottleneck",
        "worker 0 is busy 95 %, the others 40 %; 95 % of its rows are of this unit, which cannot be divided",
    ),
    "a hot unit on a slow worker can go elsewhere": (
        on(ONE, orders(hot=HOT), row_s={0: 2.0}),
        "bad",
        "Uneven: worker 0 is the bottleneck",
        f"busy 95 %, the others 40 %; a row takes 2.0 times as long there; {NOT_FOUND}",
    ),
    "the heaviest of several regions is named": (
        on(ONE, orders(load=0.2), RegionSeen("clicks", "auto", 1, load=0.7, hot=HotUnit(7, 0.5))),
        "bad",
        "Uneven: worker 0 is the bottleneck",
        "busy 95 %, the others 40 %; unit 7 of clicks has 50 % of its rows; "
        "no move of clicks has been found that brings more than it costs",
    ),
    "all workers": (
        on(even(0.93)),
        "fair",
        "All workers are busy",
        "evenly busy 93 % of the time: more workers would help",
    ),
    "all workers, in batches": (
        on(even(0.6), fed=0.65),
        "fair",
        "All workers are busy",
        "evenly busy 92 % of the time that batches run: more workers would help",
    ),
    "the disk": (
        on(even(0.4), pending=5_000_000),
        "fair",
        "The disk is the bottleneck",
        "5 MB of rows wait…",
    ),
    # why nothing is moved
    **{
        f"unmoved: {said}": (
            on(ONE, orders(**fields), begins=begins),
            "bad",
            "Uneven: worker 0 is the bottleneck",
            f"busy 95 %, the others 40 %; {said}",
        )
        for said, fields, begins in [
            ("3 units of orders on the way", {"moving": 3, "acted_s": 1.0, "balance": "kg"}, True),
            ("1 unit of orders on the way", {"moving": 1}, False),
            ("what the last action for orders brings is being measured", {"acted_s": 3.0}, True),
            ("orders has only begun: Evenflow measures first", {}, True),
            ("the balance of orders, kg, moves nothing", {"balance": "kg", "acted_s": 500.0}, False),
            (
                "the balance of orders, credits, gives each row to a worker and moves nothing",
                {"balance": "credits"},
                False,
            ),
            ("a move of orders was refused: worker 1 is lost", {"refused": "worker 1 is lost"}, False),
            ("orders: costs less there", {"decided": "costs less there"}, False),
        ]
    },
    # it does not go on
    "a worker is lost": (on(ONE, lost=[1]), "bad", "Worker 1 is lost", "the others do its work until a new one…"),
    "workers are lost": (on(ONE, lost=range(9)), "bad", "Workers 0, 1, 2, 3 and more are lost", "the others do their…"),
    "rows do not come back": (
        on(even(0.0), orders(still_s=20.0, waiting=2000)),
        "bad",
        "orders stands still for 20 s",
        "2,000 rows have come, and workers have given none back…",
    ),
    "the source gives none": (
        on(even(0.0), orders(still_s=20.0)),
        "quiet",
        "The input gives no rows",
        "a task of orders waits for rows of the source",
    ),
    "a long call, and others work": (
        on(even(0.4), orders(still_s=20.0, waiting=2000)),
        "good",
        "The input is the bottleneck",
        "workers are busy 40 % of the time, evenly",
    ),
    "the driver is gone": (
        on(ONE, silent_s=200.0),
        "bad",
        "No word from the driver for 3 min",
        "the log has no…",
    ),
    # failures
    "a job failed": (
        Situation({}, {}, failures=[BOOM], now=100.0),
        "bad",
        "orders failed 12 s ago",
        "ValueError: boom",
    ),
    "a job failed, another goes on": (
        on(even(0.4), RegionSeen("clicks", feeders=1), failures=[BOOM]),
        "bad",
        "orders failed 12 s ago",
        "ValueError: boom · the rest: The input is the bottleneck",
    ),
    "a job failed, and the cluster was stopped": (
        Situation({}, {}, failures=[BOOM], state="stopped", now=100.0),
        "bad",
        "orders failed 12 s ago",
        "ValueError: boom · the cluster has stopped since",
    ),
    "a job failed, and begins again": (
        on(even(0.4), failures=[JobFailure("orders", 88.0, "boom", again=95.0)]),
        "bad",
        "orders failed 12 s ago",
        "boom · it has been started again",
    ),
    "two jobs failed": (
        Situation({}, {}, failures=[BOOM, JobFailure("clicks", 50.0, "x")], now=100.0),
        "bad",
        "orders failed 12 s ago, 1 more job before it",
        "ValueError: boom",
    ),
    "a failure counts for more than a lost worker": (
        on(ONE, lost=[1], failures=[BOOM]),
        "bad",
        "orders failed 12 s ago",
        "ValueError: boom",
    ),
    "the controller failed": (
        Situation({}, {}, failures=[JobFailure("", 99.0, "")], now=100.0),
        "bad",
        "The cluster failed just now",
        "no reason was told",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_one_verdict_with_its_reason(name):
    seen, tone, title, text = SITUATIONS[name]
    said = verdict(seen)
    assert (said["tone"], said["title"]) == (tone, title)
    assert said["text"] == text or (text.endswith("…") and said["text"].startswith(text[:-1]))


@pytest.mark.parametrize("name", SITUATIONS)
def test_workers_stand_out_where_they_are_the_verdict_and_in_its_tone(name):
    seen = replace(SITUATIONS[name][0], failures=(), lost=(), silent_s=0.0, state="live")
    said = verdict(seen)
    limit = said["title"].startswith(("Uneven", "Unit"))
    assert tones(seen) == ({0: said["tone"]} if limit else {})


def test_two_workers_that_hold_up_the_others_both_stand_out():
    assert tones(on({0: 0.95, 1: 0.3, 2: 0.9, 3: 0.3})) == {0: "bad", 2: "bad"}


@pytest.mark.parametrize("fed", [1.0, 0.6])
@pytest.mark.parametrize("most", [0.05, 0.3, 0.5, 0.79])
def test_it_is_not_red_as_long_as_workers_have_room(most, fed):
    loads = {0: most * fed, 1: 0.01, 2: 0.01}
    assert verdict(on(loads, fed=fed))["tone"] in ("good", "quiet")


def failed(time, region="orders", event="feeder-failed", **fields):
    task = {"partition": 0, "attempt": 0, "error": "ValueError: boom"}
    return logs.entry(time, event, region=region, **task | fields)


def joined(time, region="orders", partition=0, attempt=0, query="q"):
    task = {"partition": partition, "attempt": attempt}
    return logs.entry(time, "feeder-joined", region=region, **task, query=query, epoch=1)


def again(time, region, given):
    """The name is not free, so the region has a number."""
    return logs.opened(region, time=time) | {"given": given}


def others(seconds, region="clicks", start=1):
    return [logs.performance(float(second), 100, region) for second in range(start, start + seconds)]


BATCH = [joined(0.5, query="")]


def stopped(time, event):
    return logs.entry(time, event, region="orders", evaluation="query q", why="the query was stopped in the middle")


def standing(entries, now):
    known = JobFailures()
    for entry in entries:
        known.apply(entry_of(entry))
    return [(each.region, each.why) for each in known.standing(logs.START + now)]


FAILED = [("orders", "ValueError: boom")]
CLICKS = ("clicks", "ValueError: boom")
LATER = 10 + WELL_S


@pytest.mark.parametrize(
    ("entries", "now", "found"),
    [
        ([failed(1.0, worker=1)], 9000.0, FAILED),
        ([failed(1.0, event="region-failed")], 9000.0, FAILED),
        ([failed(1.0, worker=1), logs.entry(2.0, "feeder-left", region="orders", partition=0, attempt=0)], 9.0, FAILED),
        ([failed(1.0), joined(1.0 + CANCELLED_S / 2)], 9000.0, FAILED),  # of the same job, about to be cancelled
        ([failed(1.0), joined(10.0)], LATER - 0.1, FAILED),
        ([failed(1.0), joined(10.0)], LATER, []),
        ([failed(1.0), joined(10.0), failed(12.0)], 9000.0, FAILED),
        ([failed(1.0), joined(10.0, "clicks")], 9000.0, FAILED),
        ([failed(1.0), again(5.0, "orders-2", "orders"), joined(10.0, "orders-2")], LATER, []),  # made again
        (
            [again(0.5, "orders-2", "orders"), failed(1.0, "orders-2"), again(5.0, "orders-3", "orders"),
             joined(10.0, "orders-3")], LATER, [],
        ),
        # names that users gave
        ([failed(1.0, "orders-1"), joined(10.0, "orders-2")], 9000.0, [("orders-1", "ValueError: boom")]),
        (
            [*[logs.opened(name) for name in ("orders-1", "orders-2")], failed(1.0, "orders-1"),
             failed(2.0, "orders-2"), joined(10.0, "orders-2")], LATER, [("orders-1", "ValueError: boom")],
        ),
        # tasks that Spark tries again
        ([failed(1.0), joined(1.2, attempt=1)], 1.2 + WELL_S, []),
        ([failed(1.0), joined(1.2, attempt=1), failed(1.3, attempt=1)], 9000.0, FAILED),
        ([failed(1.0), joined(1.2, attempt=1), failed(1.3, attempt=1), joined(1.4, attempt=2)], 1.4 + WELL_S, []),
        ([failed(1.0), failed(1.0, partition=1), joined(1.2, attempt=1)], 9000.0, FAILED),
        (
            [failed(1.0), failed(1.0, partition=1), joined(1.2, attempt=1), joined(1.2, partition=1, attempt=1)],
            1.2 + WELL_S, [],
        ),
        ([failed(1.0, attempt=3), joined(1.1, partition=1, attempt=2)], 9000.0, FAILED),  # about to be cancelled, too
        ([failed(1.0, attempt=3), joined(10.0)], LATER, []),
        # jobs that are over
        ([*BATCH, failed(1.0), *others(int(LAPSE_S) - 1)], 9000.0, FAILED),
        ([*BATCH, failed(1.0), *others(int(LAPSE_S))], 9000.0, []),
        ([*BATCH, failed(1.0), *others(int(LAPSE_S), "orders")], 9000.0, FAILED),
        ([*BATCH, failed(1.0), *others(150), failed(151.0), *others(150, start=152)], 9000.0, FAILED),
        ([failed(0.5, "clicks"), *BATCH, failed(1.0), *others(int(LAPSE_S))], 9000.0, [*FAILED, CLICKS]),
        ([joined(0.5), failed(1.0), *others(3 * int(LAPSE_S))], 9000.0, FAILED),  # it should run
        ([logs.entry(1.0, "controller-failed", error="out"), *others(3 * int(LAPSE_S))], 9000.0, [("", "out")]),
        ([failed(1.0, error="lost", region="orders"), failed(2.0, worker=1)], 9.0, FAILED),
        ([failed(1.0, worker=1), failed(2.0, error="another task failed")], 9.0, FAILED),
        ([failed(1.0, worker=1, error="old"), failed(20.0, worker=1)], 29.0, FAILED),
        ([failed(1.0, event="attempt-poisoned", error="", why="gone")], 9.0, [("orders", "gone")]),
        ([failed(1.0), failed(9.0, "clicks", error="x")], 10.0, [("clicks", "x"), *FAILED]),
        ([failed(1.0), logs.entry(0.5, "controller-failed", error="out")], 10.0, [("", "out"), *FAILED]),
        ([stopped(1.0, "attempt-stopped")], 9.0, []),
        ([stopped(1.0, "evaluation-stopped")], 9.0, []),
        ([stopped(1.0, "evaluation-ended")], 9.0, [("orders", "the query was stopped in the middle")]),
        ([logs.entry(1.0, "worker-trouble", worker=1, what="x", reason="late", ends=False)], 9.0, []),
        ([logs.entry(1.0, "stranger-refused", reason="who?")], 9.0, []),
    ],
)  # fmt: skip
def test_a_failure_stands_until_the_job_runs_again(entries, now, found):
    assert standing(entries, now) == found


def test_failures_cost_no_room(monkeypatch):
    monkeypatch.setattr("evenflow.dashboard.failures.MOST_FAILURES", 3)
    listed = standing([failed(float(number), f"r{number}x") for number in range(9)], 20.0)
    assert [region for region, _ in listed] == ["r8x", "r7x", "r6x"]


def test_regions_cost_no_room_either(monkeypatch):
    monkeypatch.setattr("evenflow.dashboard.failures.MOST_REGIONS", 3)
    known = JobFailures()
    for number in range(9):
        known.apply(entry_of(again(float(number), f"orders-{number}", "orders")))
    assert len(known._known) == 3


def headline(entries, now):
    view = PageView()
    for entry in entries:
        view.apply(entry_of(entry))
    assert not view.unread
    return view.frame(logs.START + now)["headline"]


def test_a_job_that_failed_is_the_headline_also_after_its_rows_are_gone_and_the_cluster_has_stopped():
    log = [*logs.keyed_run(seconds=6, until_move=9), failed(6.5, worker=1)]
    log.append(logs.entry(6.6, "feeder-left", region="orders", partition=0, attempt=0))
    for now in (7.0, 60.0):
        assert headline(log, now)[0] | {"tone": "bad", "text": "ValueError: boom"} == headline(log, now)[0]
        assert headline(log, now)[0]["title"].startswith("orders failed")
    log.append(logs.entry(70.0, "cluster-stopping"))
    assert headline(log, 71.0)[0]["text"] == "ValueError: boom · the cluster has stopped since"


@pytest.mark.parametrize("event", ["attempt-stopped", "evaluation-stopped"])
def test_a_query_that_was_stopped_on_purpose_has_not_failed(event):
    log = [*logs.keyed_run(seconds=6, until_move=9), stopped(6.5, event)]
    log.append(logs.entry(6.6, "feeder-left", region="orders", partition=0, attempt=0))
    assert headline(log, 30.0)[0]["title"] == "Nothing to do"
    log.append(logs.entry(40.0, "cluster-stopping"))
    assert headline(log, 41.0)[0] == {"tone": "quiet", "title": "Stopped", "text": "the cluster has stopped"}


def uneven(seconds, loads=(0.5, 0.1, 0.1)):
    """Rows that come more slowly than workers could do them, and most of them to one worker."""
    log = [*[logs.joined(worker) for worker in range(3)], logs.opened(), joined(0.5)]
    for second in range(1, seconds + 1):
        log.append(logs.keyed_sample(float(second), [logs.consumer(w, second, each) for w, each in enumerate(loads)]))
        log.append(
            logs.performance(second + 0.1, 7000, workers=[(w, round(1e4 * each)) for w, each in enumerate(loads)])
        )
    return log  # fmt: skip


def test_an_uneven_query_that_waits_for_its_input_is_not_red_and_says_why_nothing_is_moved():
    first, second = headline(uneven(60), 60.5)
    assert (first["tone"], first["title"]) == ("good", "The input is the bottleneck")
    assert "worker 0 does 2.14 of the mean, but has room: moving work would bring nothing" in first["text"]
    assert second == {
        "tone": "quiet",
        "title": "No move so far",
        "text": "work is moved when that brings more than it costs",
    }


def test_the_page_is_told_which_worker_stands_out():
    """By itself it took a load of the last 5 s for that of the last 10, and other bounds."""
    view = PageView()
    for entry in logs.keyed_run(seconds=20, until_move=25):
        view.apply(entry_of(entry))
    frame = view.frame(logs.START + 20.5)
    assert frame["headline"][0]["title"] == "Uneven: worker 0 is the bottleneck"
    assert [worker["tone"] for worker in frame["workers"]] == [frame["headline"][0]["tone"], "", ""]


def test_the_verdict_does_not_change_with_each_micro_batch():
    """Batches of 2 s in which worker 0 is busy throughout, and a rest of half a second after each."""
    log, titles = [*[logs.joined(worker) for worker in range(3)], logs.opened()], set()
    for batch in range(24):
        begun = 2.5 * batch
        for second in (1, 2):
            at, done = begun + second, 2 * batch + second
            told = [logs.consumer(w, done, share) for w, share in enumerate((0.97, 0.1, 0.1))]
            log.append(logs.keyed_sample(at, told, hottest=[(3, 9500 * done)]))
            log.append(logs.performance(at, 11700, workers=[(0, 9700), (1, 1000), (2, 1000)]))
        log += [joined(begun), logs.entry(begun + 2, "feeder-left", region="orders", partition=0, attempt=0)]
    view = PageView()
    for entry in sorted(log, key=lambda each: each["time"]):
        view.apply(entry_of(entry))
        if entry["time"] > 15:
            titles.add(view.frame()["headline"][0]["title"])
    assert titles == {"Unit 3 of orders is the bottleneck"}


def test_a_region_that_is_fed_and_of_which_no_row_comes_back_stands_still():
    log = [logs.joined(0), logs.opened(), joined(1.0), logs.performance(2.0, 500)]
    assert headline(log, 10.0)[0]["title"] == "Next to nothing to do"
    log.append(logs.keyed_sample(20.0, [logs.consumer(0, 19.0, 0.0)]))
    assert headline(log, 20.0)[0]["title"] == "orders stands still for 19 s"
    assert headline(log, 50.0)[0]["title"] == "No word from the driver for 30 s"
    back = [*log, logs.performance(21.0, 0, workers=[(0, 500)])]
    assert "stands still" not in headline(back, 22.0)[0]["title"]
