"""`evenflow bench placement`: what is reckoned from the events of a run, and how it is shown."""

import io
import math

import pytest
from rich.console import Console
from tests.support.records import fields_of

from evenflow.cli.demo.graph_run import GraphRun
from evenflow.control.graphs.results import GraphResults
from evenflow.model.latency import bucket_of
from evenflow.model.messages import FlowProgress
from evenflow.runtime.feeder.latency_counter import LatencyCounter
from evenflow_lab.bench import views
from evenflow_lab.bench.placement import PlacementSetting, report, result

SETTING = PlacementSetting(workers=2, operators=6, scheme=3, seconds=20.0)


def results(second, latencies):
    """An entry for results that took so many seconds."""
    buckets = {}
    for each in latencies:
        buckets[str(bucket_of(each))] = buckets.get(str(bucket_of(each)), 0) + 1
    return event(second, "graph-results", buckets=buckets, total_s=sum(latencies))


def event(second, kind, region="bench", **fields):
    return {"time": 100.0 + second, "event": kind, "region": region, **fields}


def sample(second, std):
    return event(second, "graph-sample", load_std=std, total_pe=10 * std)


def moved(second, *units):
    return event(second, "moved", units=list(units))


def run(*events):
    """A run that joined a cluster on which another one was before."""
    before, joined = ({"event": "feeder-joined", "region": region} for region in ("other", "bench"))
    first = [before | {"time": 50.0, "at": 950.0}, joined | {"time": 100.0, "at": 1000.0}]
    return GraphRun([*first, *events], "bench", 1025.0)


def test_latency_is_that_of_the_results_between_two_seconds():
    seen = run(results(5, [9.0]), results(11, [0.1, 0.1, 0.1]), results(19, [0.4]), results(21, [9.0]))
    summary = seen.latency(10, 20)
    assert summary.rows == 4
    assert summary.mean == pytest.approx(175)
    assert summary.p50 == pytest.approx(100, rel=0.1)
    assert summary.p99 == pytest.approx(400, rel=0.1)
    assert math.isnan(seen.latency(30, 40).mean)
    assert seen.seconds == 25


def test_other_regions_do_not_count():
    assert run(event(1, "moved", region="other", units=[1])).moved(0, 10) == 0


def moving(second, number, source, why):
    return event(second, "move", move=number, source=source, why=f"potential: f{number}: {why}")


def done(second, number):
    return event(second, "moved", move=number, units=[number])


def test_a_graph_is_placed_again_when_a_decision_is_carried_out():
    """That of the worker in question: others come before it, and refine it later."""
    seen = run(
        *(moving(10.5, 6, 5, "saves 2 of 9"), done(10.8, 6), moving(11, 1, 0, "saves 1 of 9")),
        *(moving(12, 2, 5, "saves 8 of 9"), moving(12, 3, 0, "saves 8 of 9")),
        *(done(13, 1), done(14, 2), moving(14, 4, 5, "saves 8 of 9"), done(15, 3), done(16, 4)),
        *(moving(18, 5, 5, "saves 1 of 8"), done(19, 5)),
    )
    assert seen.moved(0, 20) == 6
    assert seen.placed_after(10.0, 5) == 6.0
    assert seen.placed_after(17.0, 5) == 2.0
    assert seen.placed_after(10.0, 3) is None


def test_the_figures_of_a_run():
    seen = run(sample(4, 9.0), results(11, [0.2]), sample(12, 0.2), sample(14, 0.4), moved(3, 0), moved(15, 1))
    found = result(SETTING, "greedy", SETTING.drawn(), seen, None)
    assert found.latency_ms["mean"] == pytest.approx(200)
    assert (found.load_std, found.total_pe) == (pytest.approx(0.3), pytest.approx(4.0))
    assert (found.moved, found.late_moved, found.results) == (2, 1, 1)
    assert found.rows_per_s == sum(rows.num_rows for rows in SETTING.drawn().rows.values()) / 25
    assert found.slow is None
    told = report(SETTING, SETTING.drawn(), [found])
    assert told["results"][0]["placement"] == "greedy"
    assert told["setting"]["scheme"] == 3


def test_without_a_sample_in_the_second_half_the_last_one_counts():
    assert run(sample(2, 0.5), sample(4, 0.7)).sampled(10, 20, "load_std") == [0.7]
    assert math.isnan(run().last(20, "load_std"))


def test_a_worker_that_turns_slow_is_compared_with_one_that_was_slow_from_the_start():
    setting = PlacementSetting(workers=2, operators=6, seconds=20.0, slow_at=10.0)
    moves = moving(12, 1, setting.drawn().fastest, "saves"), moving(12, 2, 9, "saves"), done(13, 1), done(14, 2)
    seen = run(results(8, [0.1]), results(12, [5.0]), *moves, results(18, [0.33]), sample(9, 0.1))
    best = run(results(8, [9.0]), results(18, [0.3]))
    found = result(setting, "potential", setting.drawn(), seen, best).slow
    assert found.worker == setting.drawn().fastest
    assert found.placed_again_s == 4.0
    assert (found.before_ms, found.after_ms, found.best_ms) == tuple(map(pytest.approx, (100, 330, 300)))
    assert found.of_best == pytest.approx(1.1)


def test_what_is_shown():
    setting = PlacementSetting(seconds=20.0, slow_at=10.0)
    moves = moving(12, 1, SETTING.drawn().fastest, "saves"), done(13, 1)
    seen = run(results(8, [0.1]), *moves, results(18, [0.33]), sample(9, 0.1))
    found = result(setting, "potential", SETTING.drawn(), seen, run(results(18, [0.3])))
    written = io.StringIO()
    Console(file=written, width=200).print(views.placement(setting, [found]))
    said = " ".join(written.getvalue().split())
    assert "scheme 3: 40 operators on 6 workers, load 0.6 (emulated), one worker 5x slower from second 10" in said
    assert "│ 0.100 │ 1 │ 0 │ 3.0 s │ 100 │ 330 │ 300 │ 1.10 │" in said


def test_results_are_written_down_once_a_period():
    def told(*latencies):
        counted = LatencyCounter()
        for each in latencies:
            counted.add(each, 1)
        return FlowProgress({0: 7}, counted.news())

    known = GraphResults("bench", 1.0)
    assert not list(known.note(0.0))
    known.add(told(0.1, 0.1))
    known.add(told(0.1, 0.5))
    assert not list(known.note(0.9))
    (record,) = known.note(1.0)
    assert (record.event, fields_of(record)["results"], fields_of(record)["arrived"]) == ("graph-results", 4, 14)
    assert fields_of(record)["latency_ms"]["mean"] == pytest.approx(200)
    assert sum(fields_of(record)["buckets"].values()) == 4
    assert not list(known.note(3.0))
