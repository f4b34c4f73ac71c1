"""The view of the live page: what it shows follows from the entries of the log, and from nothing else."""

import base64
import json

import msgspec
import numpy as np
import pytest

from evenflow.dashboard import actions, history
from evenflow.dashboard.history import MOST_STEPS, Chronicle
from evenflow.dashboard.regions import KEPT_REGIONS
from evenflow.dashboard.view import MOST_REGIONS, PageView
from evenflow.model.entries import entry_of
from tests.support import event_logs as logs


def seen(entries, now=None):
    view = PageView()
    for entry in entries:
        view.apply(entry_of(entry))
    assert not view.unread
    frame = view.frame(now)
    return view, json.loads(msgspec.json.encode(frame))  # as the page gets it


def owners(region):
    return np.frombuffer(base64.b64decode(region["owners"]), "<u2").tolist()


def test_before_any_entry_nothing_is_known():
    view, frame = seen([])
    assert frame["state"] == "empty"
    assert frame["workers"] == frame["regions"] == frame["actions"] == []
    assert [said["title"] for said in frame["headline"]] == ["Nothing to do", "No move so far"]
    assert view.history.times == []


def test_the_numbers_are_those_of_the_log():
    _, frame = seen(logs.keyed_run(seconds=4, until_move=9))
    workers = {worker["id"]: worker for worker in frame["workers"]}
    assert [workers[0]["utilisation"], workers[1]["utilisation"]] == [0.95, 0.4]
    assert workers[0]["rows_s"] == 9500
    assert workers[2]["host"] == "host-2"
    assert workers[0]["queue"] == 10.0  # 9,500 rows a second, each under way for a millisecond
    assert frame["figures"]["rows_s"] == 9500 + 2 * 4000
    assert frame["figures"]["imbalance"] == pytest.approx(0.95 / (1.75 / 3), abs=1e-3)
    assert frame["figures"]["p50"] == pytest.approx(1.0, rel=0.1)
    assert frame["regions"][0]["rows"] == 4 * (9500 + 2 * 4000)


def test_the_headline_names_the_busy_worker_and_then_what_moving_brought():
    _, before = seen(logs.keyed_run(seconds=4, until_move=9))
    said = "busy 95 %, the others 40 %; orders has only begun: Evenflow measures first"
    assert before["headline"][0] == {"tone": "bad", "title": "Uneven: worker 0 is the bottleneck", "text": said}
    _, after = seen(logs.keyed_run(seconds=14, until_move=5))
    assert after["headline"][0]["title"] == "The input is the bottleneck"
    assert after["headline"][1]["title"] == "2 units moved 9 s ago"
    assert after["headline"][1]["text"].startswith("so far +3 % rows/s, imbalance 1.63 → 1.00")
    assert after["actions"][0]["routes"] == [[0, 1, 2]]


def test_a_slow_worker_is_told_from_a_hot_unit():
    start = [*[logs.joined(w) for w in range(4)], logs.opened(units=8)]
    slow = [logs.consumer(0, 2.0, 0.99, row_us=400.0)] + [logs.consumer(w, 2.0, 0.3) for w in (1, 2, 3)]
    _, frame = seen([*start, logs.keyed_sample(2.0, slow)])
    said = "busy 99 %, the others 30 %; a row takes 4.0 times as long there; "
    assert frame["headline"][0]["text"].startswith(said)
    assert [round(worker["speed"], 2) for worker in frame["workers"]] == [0.25, 1, 1, 1]
    hot = [
        logs.keyed_sample(s, [logs.consumer(w, s, 0.9 if w == 0 else 0.3) for w in range(4)], hottest=[(4, 8100 * s)])
        for s in (1.0, 2.0)
    ]
    _, frame = seen([*start, *hot])
    assert frame["headline"][0]["title"] == "Unit 4 of orders is the bottleneck"
    assert frame["headline"][0]["text"].startswith("worker 0 is busy 90 %, the others 30 %; 90 % of its rows are of")
    assert frame["regions"][0]["hottest"] == [{"unit": 4, "rows_s": 8100.0, "worker": 0}]


def test_units_are_where_the_log_says_while_they_move_and_after():
    log = [*[logs.joined(w) for w in range(3)], logs.opened(units=6)]
    log.append(logs.entry(0.2, "unit-owners", region="orders", version=1, even=[0, 1, 2]))
    assert owners(seen(log)[1]["regions"][0]) == [0, 1, 2, 0, 1, 2]
    log.append(logs.move(1.0, 1, [0, 3], 0, 2))
    region = seen(log)[1]["regions"][0]
    assert (owners(region), region["moving"]) == ([0, 1, 2, 0, 1, 2], [[0, 2], [3, 2]])
    region = seen([*log, logs.moved(1.5, 1, [0, 3], 0, 2)])[1]["regions"][0]
    assert (owners(region), region["moving"]) == ([2, 1, 2, 2, 1, 2], [])
    undone = logs.entry(1.5, "move-undone", region="orders", move=1, units=[0, 3], source=0, target=2, why="late")
    _, frame = seen([*log, undone])
    assert (owners(frame["regions"][0]), frame["regions"][0]["moving"]) == ([0, 1, 2, 0, 1, 2], [])
    assert frame["figures"]["undone"] == 2
    dealt = logs.entry(2.0, "unit-owners", region="orders", version=4, units=[1, 4], owners=[0, 2])
    assert owners(seen([*log, dealt])[1]["regions"][0]) == [0, 0, 2, 0, 2, 2]


def test_a_log_without_owners_has_them_in_turn():
    log = [logs.joined(0), logs.joined(4), logs.opened(units=4), logs.keyed_sample(1.0, [logs.consumer(0, 1.0, 0.5)])]
    assert owners(seen(log)[1]["regions"][0]) == [0, 4, 0, 4]


def test_weights_and_blocking_of_connections():
    log = [logs.joined(0), logs.joined(1)]
    log.append(logs.entry(0.0, "region-opened", region="score", balance="blocking-rate", splitting="block"))
    for second in (1.0, 2.0):
        told = [logs.connection(0, 400, second, 1.0, blocked=0.25), logs.connection(1, 600, second, 0.5)]
        log.append(logs.sample(second, told))
    log.append(logs.entry(2.5, "weights", region="score", weights={"0": 400, "1": 600}, reason="", balance="b"))
    log.append(logs.entry(3.0, "weights", region="score", weights={"0": 250, "1": 750}, reason="blocked", balance="b"))
    view, frame = seen([*log, logs.entry(4.5, "memory-asked", worker=0, memory=1)])
    region = frame["regions"][0]
    assert [each["blocked"] for each in region["connections"]] == [0.25, 0.0]
    assert [each["weight"] for each in region["connections"]] == [250, 750]
    assert view.history.columns["blocked:0:score"][-2:] == [0.25, 0.25]
    assert frame["actions"][0]["changes"] == [[0, 400, 250], [1, 600, 750]]
    assert [worker["queue"] for worker in frame["workers"]] == [10, 10]


def test_entries_that_were_left_out_are_told_by_kind():
    left = {"stranger-refused": 40, "feeder-failed": 2}
    _, frame = seen([logs.entry(60.0, "entries-left-out", kind=kind, count=count) for kind, count in left.items()])
    assert [(trouble["what"], trouble["count"]) for trouble in frame["troubles"]] == [
        ("feeder-failed entries left out", 2),
        ("stranger-refused entries left out", 40),
    ]


def test_strangers_do_not_push_failures_off_the_page():
    log = [logs.entry(1.0, "feeder-failed", region="orders", partition=0, attempt=0, error="ValueError: boom")]
    for minute in range(3):
        log += [logs.entry(60.0 * minute + 2, "stranger-refused", reason=f"in minute {minute}")] * 100
        log.append(logs.entry(60.0 * minute + 59, "entries-left-out", kind="stranger-refused", count=7))
    _, frame = seen(log)
    assert [(told["what"], told.get("count"), told["why"]) for told in frame["troubles"]] == [
        ("stranger-refused entries left out", 21, ""),
        ("refused", 300, "in minute 2"),
        ("task failed", None, "ValueError: boom"),
    ]


def test_refusals_and_failures_come_with_their_reasons():
    log = [*[logs.joined(w) for w in range(2)], logs.opened()]
    fields = {"region": "orders", "units": [1], "source": 0, "target": 1}
    log.append(logs.entry(1.0, "move-refused", **fields, why="worker 0 does not own unit 1"))
    log.append(logs.entry(2.0, "worker-lost", worker=1, incarnation=1, pid=101, reason="it is gone"))
    _, frame = seen(log)
    assert frame["actions"][0] | fields | {"why": "worker 0 does not own unit 1", "kind": "refused"} == (
        frame["actions"][0] | fields
    )
    assert [frame["workers"][1]["state"], frame["workers"][1]["why"]] == ["lost", "it is gone"]
    assert frame["headline"][0]["title"] == "Worker 1 is lost"
    failed = {"region": "orders", "partition": 0, "attempt": 0, "worker": 0, "error": "ValueError: boom"}
    log.append(logs.entry(3.0, "feeder-failed", **failed))
    _, frame = seen([*log, logs.joined(1, 5.0, incarnation=2)])
    assert [trouble["what"] for trouble in frame["troubles"]] == ["restarted", "task failed", "lost"]
    assert frame["troubles"][1]["why"] == "ValueError: boom"
    assert frame["workers"][1]["restarts"] == 1
    assert frame["figures"] | {"lost": 1, "restarts": 1, "refused": 1, "live": 2} == frame["figures"]


def test_of_what_fails_while_the_cluster_stops_errors_of_functions_are_told():
    task = {"region": "orders", "partition": 0, "attempt": 0}
    log = [logs.joined(0), logs.opened(), logs.entry(5.0, "cluster-stopping")]
    log.append(logs.entry(5.1, "feeder-failed", **task, error="the cluster is stopping"))
    log.append(logs.entry(5.2, "feeder-failed", **task, worker=0, error="ValueError: boom"))
    log.append(logs.entry(5.3, "worker-lost", worker=0, incarnation=1, pid=1, reason="it is gone"))
    _, frame = seen(log)
    assert [(trouble["what"], trouble["why"]) for trouble in frame["troubles"]] == [("task failed", "ValueError: boom")]
    assert (frame["state"], frame["figures"]["lost"]) == ("stopped", 0)


@pytest.mark.parametrize(("executor", "known"), [("driver", "driver"), ("3", "")])
def test_a_worker_that_starts_again_is_on_the_driver_or_on_another_executor(executor, known):
    log = [logs.joined(0), logs.entry(0.1, "executors", workers={"0": executor}), logs.joined(0, 5.0, incarnation=2)]
    assert seen(log)[1]["workers"][0]["executor"] == known
    log.append(logs.entry(6.0, "executors", workers={"0": "4"}))
    assert seen(log)[1]["workers"][0]["executor"] == "4"


def test_batches_have_their_duration_and_durability():
    feeder = {"region": "orders", "attempt": 0, "query": "q-1"}
    log = [logs.opened()]
    log += [logs.entry(1.0 + p / 10, "feeder-joined", **feeder, partition=p, epoch=7) for p in (0, 1)]
    log += [logs.entry(2.0, "task-durable", region="orders", query="q-1", log_s=0.2, note_s=0.0)]
    _, frame = seen(log, now=logs.START + 2.5)
    assert frame["epochs"][0]["running"]
    assert frame["epochs"][0]["seconds"] == 1.5
    log += [logs.entry(3.0, "task-durable", region="orders", query="q-1", log_s=0.1, note_s=0.05)]
    log += [logs.entry(3.5, "feeder-left", region="orders", partition=p, attempt=0) for p in (1, 0)]
    _, frame = seen(log)
    batch = {"epoch": 7, "tasks": 2, "durable": 2, "durable_s": 0.25, "seconds": 2.5, "running": False, "attempts": 1}
    assert frame["epochs"][0] | batch == frame["epochs"][0]


def test_operators_of_a_graph_are_on_their_workers():
    operators = [
        {"name": "clean", "kind": "filter", "units": 1, "endpoint": False},
        {"name": "mean", "kind": "keyed", "units": 2, "endpoint": True},
    ]
    shape = {"units": 4, "sources": ["ticks"], "operators": operators, "edges": [[-1, 0], [0, 1]]}
    log = [*[logs.joined(w) for w in range(2)], logs.entry(0.0, "region-opened", region="g", placement="dp", **shape)]
    log.append(logs.entry(0.5, "unit-owners", region="g", version=1, owners=[1, 0, 1, 0]))
    told = {
        "operators": [{"name": "clean", "worker": 1, "load": 0.2, "pe": 7.5}],
        "links": [],
        "moves": [],
        "units": [],
    }
    hosts = [{"worker": 0, "coefficient": 1.0, "load": 0.3, "rows_s": 700.0, "queue": 40}]
    hosts.append({"worker": 1, "coefficient": 2.0, "load": 0.9})  # as in older logs
    about = {"placement": "dp", "total_pe": 12.5, "load_std": 0.3, "level": "", "why": "costs less there"}
    log.append(logs.entry(1.0, "graph-sample", region="g", **told, hosts=hosts, **about))
    log.append(logs.entry(1.2, "graph-results", region="g", arrived=900, results=30, total_s=0.03, buckets={"80": 30}))
    _, frame = seen(log)
    region = frame["regions"][0]
    assert [(each["name"], each["workers"], each["load"]) for each in region["operators"]] == [
        ("clean", [1], 0.2),
        ("mean", [0, 1], None),
    ]
    assert [each["energy"] for each in region["operators"]] == [7.5, None]
    assert [region["energy"], region["results"], region["rows"]] == [12.5, 30, 900]
    assert [worker["utilisation"] for worker in frame["workers"]] == [0.3, 0.9]
    assert [worker["rows_s"] for worker in frame["workers"]] == [700, None]
    assert [worker["queue"] for worker in frame["workers"]] == [40, None]


def test_a_sample_of_a_graph_may_be_about_several_short_batches():
    operators = [{"name": "clean", "kind": "filter", "units": 1, "endpoint": True}]
    shape = {"units": 2, "sources": ["ticks"], "operators": operators, "edges": [[-1, 0]]}
    log = [logs.joined(0), logs.entry(0.0, "region-opened", region="g", placement="dp", **shape)]
    log.append(logs.entry(4.9, "feeder-joined", region="g", partition=0, attempt=0, query="q", epoch=7))
    told = {"operators": [{"name": "clean", "worker": 0, "load": 0.2}], "links": [], "moves": [], "units": []}
    told |= {"hosts": [{"worker": 0, "coefficient": 1.0, "load": 0.3, "rows_s": 700.0}], "seconds": 2.0}
    told |= {"placement": "dp", "total_pe": 12.5, "load_std": 0.3, "level": None, "why": ""}
    log.append(logs.entry(5.0, "graph-sample", region="g", **told))
    _, frame = seen(log)
    assert [(worker["rows_s"], worker["utilisation"]) for worker in frame["workers"]] == [(700, 0.3)]


def test_figures_that_nobody_has_told_for_long_are_not_those_of_now():
    _, frame = seen(logs.keyed_run(seconds=4, until_move=9), now=logs.START + 30)
    assert frame["state"] == "quiet"
    assert frame["figures"]["rows_s"] == 0
    assert frame["workers"][0]["utilisation"] is None


def test_an_entry_of_another_version_is_counted_and_passed_over():
    view = PageView()
    for entry in [*logs.keyed_run(seconds=3), logs.entry(4.0, "moved", region="orders", units="x")]:
        view.apply(entry_of(entry))
    view.apply(entry_of(logs.entry(4.1, "keyed-sample", region="orders")))
    view.apply(entry_of(logs.entry(4.2, "something-new", region="nowhere", anything=[1])))
    assert view.unread == 2
    assert view.frame()["entries"] == view.entries


def test_memory_is_bounded_however_long_the_log():
    view = PageView()
    for number in range(KEPT_REGIONS + 50):
        view.apply(entry_of(logs.opened(f"r{number}", time=float(number))))
    for second in range(1, 2 * MOST_STEPS):
        view.apply(entry_of(logs.keyed_sample(1000.0 + second, [logs.consumer(0, float(second), 0.5)], region="r249")))
    assert len(view.regions) == KEPT_REGIONS
    assert len(view.frame()["regions"]) == MOST_REGIONS
    assert view.frame()["more_regions"] == KEPT_REGIONS - MOST_REGIONS
    assert len(view.history.times) <= MOST_STEPS
    assert all(len(column) == len(view.history.times) for column in view.history.columns.values())


def feeder(time, event, region="score", partition=0):
    return logs.entry(time, event, region=region, partition=partition, attempt=0, query="", epoch=0)


def test_feeders_and_weights_of_regions_long_unheard_of_are_forgotten():
    view, weights = PageView(), {"0": 500, "1": 500}
    for number in range(KEPT_REGIONS + 50):
        view.apply(entry_of(feeder(float(number), "feeder-joined", f"r{number}")))
        view.apply(entry_of(logs.entry(float(number), "weights", region=f"r{number}", weights=weights, reason="")))
        view.apply(entry_of(feeder(float(number), "feeder-joined", "r0", partition=number + 1)))
    assert len(view.actions._known) == KEPT_REGIONS
    assert list(view.actions._known)[:2] == ["r51", "r52"]
    assert "r0" in view.actions._known


def test_a_region_whose_feeders_the_log_never_told_of_is_not_taken_for_one_without():
    """As in a log whose beginning is gone: one feeder leaves, others may be there."""
    log = weighed(1000, 1200, seconds_after=14)
    log = sorted([*log, feeder(5.0, "feeder-left")], key=lambda each: each["time"])
    assert seen(log)[1]["actions"][0]["gain"] == pytest.approx(0.2)


@pytest.mark.parametrize(("left", "known"), [(0, True), (5, False)])
def test_only_feeders_that_were_seen_to_come_count_when_they_leave(left, known):
    """As in a log whose beginning is gone: partition 0 fed before it, 5 comes."""
    log = [*weighed(1000, 1200, seconds_after=14), feeder(3.0, "feeder-joined", partition=5)]
    log = sorted([*log, feeder(9.0, "feeder-left", partition=left)], key=lambda each: each["time"])
    assert seen(log)[1]["actions"][0]["gain"] == (pytest.approx(0.2) if known else None)


def test_two_jobs_may_have_tasks_of_the_same_number():
    log = [*weighed(1000, 1200, seconds_after=14), feeder(0.2, "feeder-joined"), feeder(0.3, "feeder-joined")]
    log = sorted([*log, feeder(9.0, "feeder-left")], key=lambda each: each["time"])
    assert seen(log)[1]["actions"][0]["gain"] == pytest.approx(0.2)
    log = sorted([*log, feeder(9.1, "feeder-left")], key=lambda each: each["time"])
    assert seen(log)[1]["actions"][0]["gain"] is None


def test_feeders_whose_leaving_is_not_told_cost_no_room(monkeypatch):
    monkeypatch.setattr(actions, "MOST_FEEDERS", 8)
    view, _ = seen([feeder(float(number), "feeder-joined", partition=number) for number in range(20)])
    assert list(view.actions._known["score"].feeders) == [(number, 0) for number in range(12, 20)]


def test_a_history_gets_coarser_and_keeps_its_ends():
    history, time = Chronicle(most=8), 0.0
    for number in range(14):
        time += history.step_s
        history.add(time, {"rows": float(number), "p99": float(number % 2)})
    assert (history.generation, history.step_s) == (2, 4.0)
    assert history.times == sorted(history.times)
    assert (history.times[0], history.times[-1]) == (4.0, time)
    assert history.columns["rows"][0] == 1.5  # the mean of the first four
    assert history.columns["p99"][:2] == [1.0, 1.0]  # the worst of them
    assert history.since(len(history.times) - 1)["times"] == [time]


def test_the_same_entries_give_the_same_frame():
    log = logs.keyed_run(seconds=12)
    assert seen(log)[1] == seen(log)[1]


@pytest.mark.parametrize("at", [None, "5", [], float("nan"), 1e18, 10**400])
def test_an_entry_without_a_time_is_left_out(at):
    view = PageView()
    for entry in [logs.joined(0), logs.joined(1) | {"at": at}, logs.joined(2, 1.0)]:
        view.apply(entry_of(entry))
    view.apply(entry_of({"time": 1.0, "event": "worker-joined"}))
    frame = view.frame()
    assert (frame["unread"], [worker["id"] for worker in frame["workers"]]) == (2, [0, 2])
    assert frame["time"] == logs.START + 1.0


def test_another_cluster_in_the_log_begins_anew():
    """Also when the first one lasted for less than a second."""
    started = logs.entry(0.0, "cluster-started", cluster="b", workers=1)
    first = [*[logs.joined(worker, 0.5) for worker in range(3)], logs.entry(0.6, "worker-lost", worker=2, reason="x")]
    later = [dict(each, at=each["at"] + 3) for each in [started, logs.joined(0, 0.5), logs.opened("other", time=0.6)]]
    view, frame = seen([*first, *later])
    assert [worker["id"] for worker in frame["workers"]] == [0]
    assert [region["name"] for region in frame["regions"]] == ["other"]
    assert view.history.times == sorted(view.history.times)
    assert (frame["figures"]["lost"], frame["troubles"]) == (0, [])


def test_a_simulated_log_that_is_written_anew_is_shown_from_its_beginning():
    run = [dict(each, at=each["time"]) for each in logs.keyed_run(seconds=4, until_move=9)]
    once, frame = seen(run)
    again, shown = seen([*run, *run])
    assert shown["workers"] == frame["workers"]
    assert shown["time"] == frame["time"]
    assert (again.history.times, again.history.generation) == (once.history.times, 1)


def test_new_columns_take_the_place_of_those_long_unused(monkeypatch):
    monkeypatch.setattr(history, "MOST_COLUMNS", 16)
    past = Chronicle()
    for step in range(40):
        past.add(float(step), {"rows": 1.0, "load:0": 0.5, "rows:kept": 2.0, f"rows:{step}": 3.0})
    assert len(past.columns) <= 16
    assert {"rows", "load:0", "rows:kept", "rows:39", "rows:38", "rows:30"} <= past.columns.keys()
    assert "rows:0" not in past.columns
    assert {len(column) for column in past.columns.values()} == {40}
    assert 0 < past.generation < 20


def test_columns_in_use_are_not_given_up(monkeypatch):
    monkeypatch.setattr(history, "MOST_COLUMNS", 4)
    past = Chronicle()
    for step in range(3):
        past.add(float(step), {f"rows:{number}": 1.0 for number in range(6)})
    assert (len(past.columns), past.generation) == (4, 0)


def weighed(before, after, seconds_after, busy=((0.9, 0.3), (0.6, 0.6))):
    """An ordered region with so many rows a second before new weights, and after them; its workers' loads likewise."""
    log = [logs.joined(0), logs.joined(1)]
    log.append(logs.entry(0.0, "region-opened", region="score", balance="b", splitting="block"))
    log.append(logs.entry(0.1, "weights", region="score", weights={"0": 500, "1": 500}, reason=""))
    total = [0.0, 0.0]
    for second in range(1, 9 + seconds_after):
        late = second > 8
        total = [sum(each) for each in zip(total, busy[late], strict=True)]
        told = [logs.connection(w, 500, 1.0, total[w]) for w in (0, 1)]
        log.append(logs.sample(float(second), told))
        log.append(logs.performance(second + 0.1, 0, "score", workers=[(0, after if late else before)]))
        if second == 8:
            log.append(logs.entry(8.2, "weights", region="score", weights={"0": 300, "1": 700}, reason="slow"))
    return log


@pytest.mark.parametrize(
    ("rows", "tone", "text"),
    [
        (1200, "good", "+20 % rows/s, imbalance 1.50 → 1.00"),
        (1005, "good", "as many rows/s as before, imbalance 1.50 → 1.00"),
        (600, "quiet", "600 rows/s, 1,000 before; imbalance 1.50 → 1.00"),
    ],
)
def test_what_an_action_brought_is_good_only_if_no_rows_were_lost_by_it(rows, tone, text):
    _, frame = seen(weighed(1000, rows, seconds_after=14))
    assert (frame["headline"][1]["tone"], frame["headline"][1]["text"]) == (tone, text)


def test_what_an_action_brought_is_said_after_four_seconds_and_refined():
    said = [seen(weighed(1000, 1200, seconds_after=s), logs.START + 8.2 + s)[1]["headline"][1]["text"] for s in (3, 5)]
    assert said == ["what it brings is being measured", "so far +20 % rows/s, imbalance 1.50 → 1.00"]


def test_while_moves_go_on_it_is_said_what_the_first_of_them_brought():
    log = [logs.joined(0), logs.joined(1), logs.opened()]
    for second in range(1, 20):
        log.append(logs.performance(float(second), 0, workers=[(0, 2000 if second > 8 else 1000)]))
        if second >= 8 and second % 2 == 0:
            log += [logs.move(second + 0.1, second, [second % 12], 0, 1), logs.moved(second + 0.2, second, [0], 0, 1)]
    _, frame = seen(log)
    assert frame["headline"][1]["text"] == "so far +100 % rows/s"


def test_an_action_at_the_end_of_a_run_is_not_being_measured():
    log = [*weighed(1000, 1200, seconds_after=2), logs.entry(10.4, "cluster-stopping")]
    assert seen(log)[1]["headline"][1]["text"] == "fed too briefly since to compare"


def test_an_action_after_the_last_rows_of_its_region_brought_nothing_that_can_be_told():
    """The weights are set as the job ends: rows that are told of afterwards came before them."""
    feeder = {"region": "score", "partition": 0, "attempt": 0, "query": "", "epoch": 0}
    log = [*weighed(1000, 250, seconds_after=3), logs.entry(0.2, "feeder-joined", **feeder)]
    log = sorted([*log, logs.entry(8.15, "feeder-left", **feeder)], key=lambda each: each["time"])
    _, frame = seen(log, logs.START + 25)
    assert frame["headline"][1]["text"] == "fed too briefly since to compare"
    assert frame["actions"][0]["gain"] is None
    for joined, known in ((12.0, True), (30.0, False)):
        view, _ = seen([*log, logs.entry(joined, "feeder-joined", **feeder)])
        assert view.actions.latest().fed is known


@pytest.mark.parametrize(("left", "known"), [(9.0, False), (12.1, False), (13.1, True)])
def test_the_last_rows_of_a_region_are_not_taken_for_what_an_action_brought(left, known):
    """Its feeders leave soon after the new weights of 8.2, and what is told of the last second are few rows."""
    log = weighed(1000, 1200, seconds_after=6)
    log += [logs.performance(second + 0.1, 0, "score", workers=[(0, 30)]) for second in (15.0, 16.0)]
    log += [feeder(0.2, "feeder-joined"), feeder(left, "feeder-left")]
    _, frame = seen(sorted(log, key=lambda each: each["time"]), logs.START + 25)
    text = "+20 % rows/s, imbalance 1.50 → 1.00" if known else "fed too briefly since to compare"
    assert frame["headline"][1]["text"] == text
    assert (frame["actions"][0]["gain"] is not None) == known


def test_an_action_just_before_the_cluster_stops_brought_nothing_that_can_be_told():
    log = [*weighed(1000, 30, seconds_after=2), logs.entry(10.4, "cluster-stopping")]
    _, frame = seen(log, logs.START + 25)
    assert frame["actions"][0]["gain"] is None


@pytest.mark.parametrize(("joined", "known"), [(0.2, True), (4.0, True), (5.9, False), (8.0, False)])
def test_the_first_rows_of_a_region_are_no_measure_for_an_action(joined, known):
    """They become more by themselves while workers start: of that nothing was brought by the weights of 8.2."""
    log = [each for each in weighed(1000, 1200, seconds_after=14) if each["time"] < 1 or each["time"] > joined]
    slow = [dict(each["workers"][0], rows=10) for each in log if each["event"] == "performance"][:1]
    first = next(each for each in log if each["event"] == "performance")
    log[log.index(first)] = first | {"workers": slow}
    _, frame = seen(sorted([*log, feeder(joined, "feeder-joined")], key=lambda each: each["time"]))
    good, quiet = "+20 % rows/s, imbalance 1.50 → 1.00", "too few rows before it to compare with"
    said = frame["headline"][1]
    assert (said["tone"], said["text"]) == (("good", good) if known else ("quiet", quiet))
    assert frame["actions"][0]["gain"] == (pytest.approx(0.2) if known else None)


@pytest.mark.parametrize("watched", [False, True])
def test_what_an_action_brought_stays_known_while_steps_get_longer(watched):
    log = sorted([*weighed(1000, 1200, seconds_after=14), feeder(4.0, "feeder-joined")], key=lambda each: each["time"])
    view, frame = seen(log)
    assert frame["actions"][0]["gain"] == pytest.approx(0.2)
    for second in range(24, 6 * MOST_STEPS):
        view.tick(logs.START + second)
        later = view.frame() if watched and second % 100 == 0 else frame
        assert later["actions"] == frame["actions"]
    assert view.history.step_s >= 4
    later = view.frame()
    assert later["actions"] == frame["actions"]
    assert later["headline"][1]["text"] == frame["headline"][1]["text"]


def test_an_action_that_goes_on_is_measured_anew():
    """Also if the clock has gone back meanwhile."""
    view, _ = seen(weighed(1000, 1200, seconds_after=14))
    assert view.actions.latest().brought is not None
    again = logs.entry(12.0, "weights", region="score", weights={"0": 200, "1": 800}, reason="slow")
    view.actions.apply(entry_of(again))
    assert view.actions.latest().brought is None


@pytest.mark.parametrize(("rest", "known"), [(2.0, True), (7.5, False)])
def test_between_batches_a_region_is_still_fed_and_after_a_rest_it_begins_anew(rest, known):
    log = [*weighed(1000, 1200, seconds_after=14), feeder(-3.0, "feeder-joined"), feeder(7.5 - rest, "feeder-left")]
    _, frame = seen(sorted([*log, feeder(7.5, "feeder-joined")], key=lambda each: each["time"]))
    assert (frame["actions"][0]["gain"] is not None) == known


def given_weights(time, reason, *weights):
    given = {str(worker): weight for worker, weight in enumerate(weights)}
    return logs.entry(time, "weights", region="score", weights=given, reason=reason)


def test_the_first_change_of_weights_is_told_and_all_of_its_weights_are_of_one_time():
    log = [logs.joined(0), logs.joined(1), logs.entry(0.0, "region-opened", region="score", balance="blocking-rate")]
    log.append(logs.sample(1.0, [logs.connection(0, 500, 1.0, 0.9), logs.connection(1, 500, 1.0, 0.3)]))
    _, frame = seen([*log, given_weights(2.0, "blocked 0.9 of the time", 400, 600)])
    assert [action["changes"] for action in frame["actions"]] == [[[0, 500, 400], [1, 500, 600]]]
    log += [given_weights(2.0 + number, "blocked", 400 - 10 * number, 600 + 10 * number) for number in range(5)]
    _, frame = seen(log)  # each of the later ones is too little for an action, two of them together are not
    assert [action["changes"] for action in frame["actions"]] == [[[0, 500, 370], [1, 500, 630]]]


def test_shares_that_nobody_decided_are_no_action():
    log = [logs.joined(0), logs.joined(1), logs.entry(0.0, "region-opened", region="score", balance="credits")]
    for second, share in enumerate((500, 300, 650), 1):
        told = [logs.connection(0, share, second, 0.9), logs.connection(1, 1000 - share, second, 0.3)]
        log += [logs.sample(second, told), given_weights(second, "shares of the rows done", share, 1000 - share)]
    log.append(logs.performance(3.5, 100, region="score"))
    _, frame = seen(log)
    assert frame["actions"] == []
    assert frame["headline"][1] | {"title": "Shared row by row", "tone": "quiet"} == frame["headline"][1]


@pytest.mark.parametrize(("seconds", "title"), [(5, "Starting"), (9, "The input is the bottleneck")])
def test_the_input_is_not_blamed_before_loads_are_those_of_now(seconds, title):
    log = [logs.joined(0), logs.opened()]
    log.append(logs.entry(1.0, "feeder-joined", region="orders", partition=0, attempt=0, query="q", epoch=0))
    log += [logs.keyed_sample(1.0 + second, [logs.consumer(0, second, 0.4)]) for second in range(1, seconds)]
    _, frame = seen(log)
    assert frame["headline"][0]["title"] == title
