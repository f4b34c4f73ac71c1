"""Figures of the live page are by the second of the clock: of micro-batches, of short jobs, and after their end."""

import pytest

from evenflow.dashboard.pace import LONGEST_S, MOST, RECENT_S, Pace
from evenflow.dashboard.view import PageView
from evenflow.dashboard.workers import WorkerTable
from evenflow.model.entries import entry_of
from tests.support import event_logs as logs


def fed(time, joined=True, region="orders"):
    event = "feeder-joined" if joined else "feeder-left"
    return logs.entry(time, event, region=region, partition=0, attempt=0, query="", epoch=0)


def batches(count, every=2.0, rows=3000, busy=0.014, took=0.13):
    """Micro-batches: a feeder comes, two workers do all of its rows in `took` seconds, and it goes."""
    log = [logs.joined(0), logs.joined(1), logs.opened()]
    for number in range(1, count + 1):
        end = number * every
        log += [fed(end - took)]
        done = {"rows": rows * number // 2, "busy_s": busy * number}
        log += [logs.keyed_sample(end, [logs.consumer(w, took * number, 0.1, **done) for w in (0, 1)], feeders=0)]
        log += [fed(end, joined=False)]
        log += [logs.performance(end + 0.4, rows, workers=[(0, rows // 2), (1, rows // 2)])]
    return log


def frames(log, until=None):
    """By time, the frames at the end of each second."""
    found = {}
    view = PageView(lambda time: found.update({round(time - logs.START, 3): view.frame(time)}))
    for entry in log:
        view.apply(entry_of(entry))
    if until is not None:
        view.tick(logs.START + until)
    assert not view.unread
    return view, found


def test_micro_batches_have_their_rows_by_the_clock():
    view, found = frames(batches(20))
    late = [frame for time, frame in found.items() if time > 12]
    assert sum(frame["figures"]["rows_s"] for frame in late) / len(late) == pytest.approx(1500, rel=0.1)
    assert all(1000 < frame["figures"]["rows_s"] < 2000 for frame in late)
    assert all(frame["workers"][0]["utilisation"] == pytest.approx(0.007, rel=0.35) for frame in late)
    assert all(frame["workers"][0]["rows_s"] == pytest.approx(750, rel=0.35) for frame in late)
    assert {frame["headline"][0]["text"] for frame in late} == {"workers are busy for less than 2 % of the time"}
    assert sum(view.history.columns["rows"]) == pytest.approx(19 * 3000, rel=0.06)  # the last is still being told


def test_a_short_job_shows_no_more_rows_than_it_had_and_not_for_long():
    start = [logs.joined(0), logs.opened(), fed(30.0)]
    log = [*start, logs.keyed_sample(30.07, [logs.consumer(0, 0.07, 0.9, rows=20_000, busy_s=0.06)], feeders=0)]
    log += [fed(30.07, joined=False), logs.performance(31.0, 20_000, workers=[(0, 20_000)])]
    _, found = frames(log, until=45.0)
    shown = {time: frame["figures"]["rows_s"] for time, frame in found.items()}
    assert max(shown.values()) <= 20_000
    assert shown[37.0] == pytest.approx(20_000 / RECENT_S)
    assert not any(rows for time, rows in shown.items() if time > 38)
    assert [worker["utilisation"] for worker in found[40.0]["workers"]] == [None]
    assert found[40.0]["regions"][0]["rows_s"] == 0


def test_a_worker_that_is_always_busy_is_so_from_its_first_sample_on():
    log = [logs.joined(0), logs.opened(), fed(20.0)]
    log += [logs.keyed_sample(20.0 + s, [logs.consumer(0, float(s), 1.0)]) for s in range(1, 9)]
    _, found = frames(log)
    assert {frame["workers"][0]["utilisation"] for time, frame in found.items() if time >= 22} == {1.0}


@pytest.mark.parametrize("kind", ["keyed", "ordered", "graph"])
def test_all_kinds_of_regions_show_the_same_rows(kind):
    shapes = {"keyed": {"units": 4}, "ordered": {}, "graph": {"units": 2, "operators": [], "edges": []}}
    log = [
        logs.joined(0),
        logs.entry(0.0, "region-opened", region="r", balance="b", **shapes[kind]),
        fed(0.0, region="r"),
    ]
    for second in range(1, 9):
        log.append(logs.performance(float(second), 800, region="r", workers=[(0, 800)]))
        if kind == "graph":
            told = {"arrived": 800, "results": 5, "total_s": 0.1, "buckets": {"80": 5}}
            log.append(logs.entry(float(second), "graph-results", region="r", **told))
    view, _ = frames(log)
    frame = view.frame()
    assert [frame["figures"]["rows_s"], frame["figures"]["rows"]] == [800, 6400]


@pytest.mark.parametrize("simulated", [False, True])
def test_rows_of_a_graph_count_once_from_its_first_second_on(simulated):
    """With a short period `graph-results` come before the first `performance`; a simulation has no other."""
    log = [logs.joined(0), logs.entry(0.0, "region-opened", region="g", units=1, operators=[], edges=[])]
    log += [fed(0.0, region="g")]
    for number in range(1, 33):
        told = {"arrived": 200, "results": 5, "total_s": 0.1, "buckets": {"80": 5}}
        log.append(logs.entry(number / 4, "graph-results", region="g", **told))
        if number % 4 == 0 and not simulated:
            log.append(logs.performance(number / 4 + 0.01, 800, region="g", workers=[(0, 800)]))
    log = [dict(each, at=each["time"]) for each in log] if simulated else log
    view, _ = frames(log)
    view.tick(view.now + 5)
    steps = view.history.columns["rows"]
    assert steps[2:7] == pytest.approx([800] * 5)
    assert max(steps) <= 1000
    assert sum(steps) == pytest.approx(8 * 800, rel=0.1)


def test_rows_of_a_graph_are_shown_while_they_are_under_way():
    """All of them came at once; root frames are through one after the other."""
    log = [logs.joined(0), logs.entry(0.0, "region-opened", region="g", units=1, operators=[], edges=[])]
    log += [fed(0.0, region="g")]
    for second in range(1, 12):
        log.append(logs.performance(float(second), 5000 * (second == 1), region="g", workers=[(0, 100)]))
    view, _ = frames(log)
    assert view.frame()["figures"]["rows_s"] == 100


def test_a_log_that_has_ended_shows_no_rows_beside_words_that_say_so():
    view, _ = frames([*batches(5), logs.entry(10.5, "cluster-stopping")])
    frame = view.frame()
    assert frame["headline"][0]["text"] == "the cluster has stopped"
    assert (frame["figures"]["rows_s"], frame["regions"][0]["rows_s"]) == (0, 0)


@pytest.mark.parametrize("late", [0, 500])
def test_the_last_rows_of_a_run_are_in_the_chart_once(late):
    """The cluster stops in the second after them; some may be told of even later."""
    log = [*batches(5), logs.entry(10.5, "cluster-stopping")]
    log += [logs.performance(10.6, late, workers=[(0, late)])] if late else []
    going_on, _ = frames([each for each in log if each["event"] != "cluster-stopping"], until=30.0)
    view, found = frames([*log, logs.entry(10.7, "worker-stopped", worker=0, incarnation=1, pid=1, reason="")])
    rows = view.history.columns["rows"]
    assert sum(rows) == pytest.approx(sum(going_on.history.columns["rows"]))
    assert max(rows[10:]) > 1000
    view.tick(logs.START + 30.0)
    assert sum(view.history.columns["rows"]) == sum(rows)
    assert view.history.times == sorted(set(view.history.times))
    assert view.frame()["figures"] | {"rows": 15_000 + late, "rows_s": 0} == view.frame()["figures"]
    assert found[11.0]["state"] == "stopped"


def test_between_batches_it_is_not_said_that_no_rows_are_fed():
    view, _ = frames(batches(5))
    assert view.regions["orders"].feeders == 0
    assert view.frame()["headline"][0]["text"] == "workers are busy for less than 2 % of the time"


def test_every_amount_counts_once():
    pace, steps = Pace(), []
    for second in range(1, 41):
        if second % 3 == 0 or second < 8:
            pace.add(second - 0.2, 100.0 * second, 1.0 if second % 2 else 2.5)
        steps.append(pace.step(float(second)))
    told = sum(100.0 * second for second in range(1, 41) if second % 3 == 0 or second < 8)
    rest = [pace.step(40.0 + second) for second in range(1, 20)]
    assert sum(steps) - steps[1] + steps[1] * 0.2 + sum(rest) == pytest.approx(told)  # it began at 1.8
    assert not pace.lives(60.0)
    assert pace.recent(60.0) == 0


def test_a_figure_of_a_long_time_keeps_its_pace_and_does_not_stay_for_as_long():
    pace = Pace()
    pace.add(100.0, 300.0, 60.0)
    assert pace.recent(104.0) == pytest.approx(5.0)
    assert pace.recent(100.0 + LONGEST_S + RECENT_S) == 0


@pytest.mark.parametrize("step", [1, 2, 8, 16])
def test_batches_with_long_rests_count_once_whatever_the_steps(step):
    """A step may have a whole batch and the beginning of the next, or a batch and then a rest until it is forgotten."""
    pace, steps = Pace(0.0), []
    for second in range(1, 97):
        if second % 10 == 0:
            pace.add(second - 0.5, 3000.0, 1.0)
        if second % step == 0:
            steps.append(pace.step(float(second)))
    assert sum(steps) * step == pytest.approx(9 * 3000)


@pytest.mark.parametrize("step", [1, 8, 16])
def test_service_early_in_a_long_step_counts(step):
    worker, shares = WorkerTable().get(0), []
    worker.rested = 0.0
    for second in range(1, 97):
        if second % 10 == 1:
            worker.load("orders").busy.add(float(second), 0.5, 1.0)
        if second % step == 0:
            shares.append(worker.step(float(second)) or 0.0)
    assert sum(shares) * step == pytest.approx(0.5 * 10)


def test_a_clock_that_goes_back_costs_no_room_and_counts_nothing_twice():
    """An entry of an hour ahead, then many of the right time: none of them is over by the first one's clock."""
    pace, steps = Pace(0.0), []
    pace.add(3600.0, 100.0, 1.0)
    for second in range(1, 301):
        pace.add(float(second), 100.0, 1.0)
        steps += [pace.step(float(second)), pace.step(second - 0.5)]
        assert pace.recent(float(second)) >= 0
    assert len(pace._counting) <= MOST
    assert min(steps) >= 0
    assert sum(steps) == pytest.approx(299 * 100)  # nothing of the last two, all of the first: it was let go
    assert pace.recent(300.0) == pytest.approx(100.0)


@pytest.mark.parametrize("told", [((100.0, 10.0), (900.0, 1.0)), ((900.0, 1.0), (100.0, 10.0))])
def test_amounts_of_a_long_and_of_a_short_time_that_are_told_together_keep_their_paces(told):
    pace = Pace(0.0)
    for number, (amount, seconds) in enumerate(told):
        pace.add(10.0 + 0.05 * number, amount, seconds)
    pace.step(10.0)
    steps = [pace.step(10.0 + second) for second in range(1, 13)]
    assert steps == pytest.approx([10.0, 910.0, *[10.0] * 8, 0.0, 0.0], abs=50)
    assert sum(steps) == pytest.approx(1000)


@pytest.mark.parametrize("period", [0.001, 0.02, 0.3])
def test_short_periods_have_the_same_pace(period):
    """They are as many amounts as there is room for, and more."""
    pace, steps = Pace(0.0), []
    for number in range(1, round(12 / period) + 1):
        pace.add(number * period, 100 * period, period)
        if number * period // 1 > len(steps):
            steps.append(pace.step(number * period))
    assert len(pace._counting) <= MOST
    assert steps[3:] == pytest.approx([100.0] * len(steps[3:]), rel=0.02)
    assert pace.recent(12.0) == pytest.approx(100.0, rel=0.02)


def test_what_goes_on_evenly_is_even_whatever_the_lengths_of_entries():
    """Ticks that are late make entries of one and of two seconds."""
    pace, steps, told = Pace(), [], 0.0
    for second in range(1, 40):
        if second % 5 not in (1, 3):
            pace.add(float(second), 100.0 * (second - told), second - told)
            told = float(second)
        steps.append(pace.step(float(second)))
    assert steps[3:] == pytest.approx([100.0] * len(steps[3:]))
    assert pace.recent(39.0) == pytest.approx(100.0)
