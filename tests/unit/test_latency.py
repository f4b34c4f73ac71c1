"""Latencies of rows: histograms, what feeders count, and what the controller makes of it, by feeder and worker."""

import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import FeederJoinedEvent, MessageEvent, RegionOpenedEvent, StopEvent, TickEvent
from evenflow.control.regions.performance import FEEDERS, PerformanceLog
from evenflow.model.latency import Latencies, bucket_of, middle_ms
from evenflow.model.messages import ConnectionCounts, FeederReport, WorkerHello
from evenflow.policy import Hash, RoundRobin
from evenflow.runtime.feeder.latency_counter import LatencyCounter
from evenflow.runtime.feeder.ordered.merge import OrderedMerge
from evenflow.runtime.feeder.task import Exchange
from tests.support.records import fields_of, latency_fields


def took(*latencies):
    counter = LatencyCounter()
    for seconds, rows in latencies:
        counter.add(seconds, rows)
    return counter.news()


def test_a_histogram_tells_mean_and_quantiles():
    found = took((0.1, 98), (5.0, 2), (1.0, 0)).summary
    assert (found.rows, found.p50, found.p99) == (100, middle_ms(bucket_of(0.1)), middle_ms(bucket_of(5.0)))
    assert found.mean == pytest.approx(198)
    assert found.p50 == pytest.approx(100, rel=0.09)
    assert took().summary is None
    assert took().summary_ms == {}


def test_histograms_are_added_and_taken_apart():
    first, second = took((0.1, 3), (1e-9, 1)), took((0.1, 2), (1e99, 4))
    assert sum((first, second), Latencies()) == first + second
    assert ((first + second) - first).rows == second.rows
    assert not first - first
    assert Latencies.read(latency_fields(first + second)).rows == (first + second).rows


def test_a_counter_starts_anew_and_is_bounded():
    counter = LatencyCounter()
    for step in range(10_000):
        counter.add(1e-7 * 1.1**step if step < 1000 else -1.0, 1)
    news = counter.news()
    assert len(news.rows) <= 400
    assert sum(news.rows.values()) == 10_000
    assert not counter
    assert not counter.news()


def test_rows_of_an_ordered_region_wait_for_those_before_them():
    merge = OrderedMerge()
    for sequence in range(3):
        merge.expect(sequence, sequence, arrived=sequence / 10, rows=sequence + 5)
    merge.expect(9, 1, arrived=99.0, rows=1)  # a copy: its rows came when they came
    merge.add(9, 1, "late", 1, last=True)
    assert (merge.ready(), merge.ages()) == ([], [])
    merge.add(0, 0, "first", 1, last=True)
    assert merge.ready() == ["first", "late"]
    assert merge.ages() == [(0.0, 5), (0.1, 6)]
    assert merge.ages() == []


def test_rows_count_from_when_spark_gave_them_until_spark_is_given_results():
    class Connections:
        def pause(self):
            pass

        resume = pause

    now = [0.0]

    def batches():
        for _ in range(2):
            now[0] += 10.0  # Spark's own time does not count
            yield Rows()

    class Rows:
        num_rows = 7

    exchange = Exchange(Connections(), lambda: now[0])
    for _ in exchange.pulled(batches(), lambda: None):
        arrived = exchange.arrived
        now[0] += 0.5
        assert not list(exchange.handed([], [(arrived, 7)]))  # rows without results took time, too
    rows_out, rows_in, latencies = exchange.count()
    assert (rows_out, rows_in, latencies.rows) == (0, 14, {bucket_of(0.5): 14})
    assert exchange.count() == (0, 0, Latencies())


def report(rows, seconds, *, workers=(0,)):
    counts = {
        worker: ConnectionCounts(rows_done=rows, incarnation=1, latencies=took((seconds / 2, rows)))
        for worker in workers
    }
    return FeederReport(1.0, rows, counts, rows_in=rows, latencies=took((seconds, rows)))


def test_entries_have_what_is_new_by_feeder_and_by_worker():
    log = PerformanceLog("r")
    assert not list(log.note(0.0))
    log.add(0, report(100, 0.2, workers=(0, 1, 7)), {0, 1})
    log.add(3, report(50, 0.4), {0, 1})
    assert not list(log.note(0.9))
    (entry,) = log.note(2.0)
    fields = fields_of(entry)
    assert (entry.event, fields["region"], fields["seconds"], fields["rows_in"]) == ("performance", "r", 2.0, 150)
    assert fields["latency_ms"]["mean"] == pytest.approx(1e3 * (20 + 20) / 150)
    assert [(each["partition"], each["rows"], each["rows_per_s"]) for each in fields["feeders"]] == [
        (0, 100, 50.0),
        (3, 50, 25.0),
    ]
    assert [(each["worker"], each["rows"]) for each in fields["workers"]] == [(0, 150), (1, 100)]
    assert fields["workers"][1]["latency_ms"]["mean"] == pytest.approx(100)
    assert not list(log.note(9.0))  # nothing new
    log.add(0, report(10, 1.0), {0, 1})
    assert not list(log.note(9.5))
    (entry,) = log.note(9.5, final=True)
    assert sum(fields_of(entry)["buckets"].values()) == 10
    assert log.total.rows_in == 160


def test_rows_that_were_answered_are_told_if_none_came_or_left_since():
    log = PerformanceLog("r")
    assert not list(log.note(0.0))
    log.add(0, FeederReport(1.0, 0, {0: ConnectionCounts(rows_done=0)}), {0})
    assert not list(log.note(1.0))
    log.add(0, FeederReport(1.0, 0, {0: ConnectionCounts(rows_done=7)}), {0})
    (entry,) = log.note(2.0)
    assert [(each["worker"], each["rows"]) for each in fields_of(entry)["workers"]] == [(0, 7)]
    assert not list(log.note(3.0))


def test_a_worker_that_starts_again_is_counted_anew():
    log = PerformanceLog("r")
    log.add(0, report(100, 0.2), {0})
    before = log.total
    log.forget(0)
    assert before.workers[0]
    log.add(0, report(1, 0.2), {0})
    assert sum(log.total.workers[0].rows.values()) == 1
    assert log.total.rows_in == 101


def test_an_entry_names_a_bounded_number_of_feeders():
    log = PerformanceLog("r")
    list(log.note(0.0))
    for partition in range(200):
        log.add(partition, report(partition + 1, 0.1), {0})
    (entry,) = log.note(1.0)
    assert [each["partition"] for each in fields_of(entry)["feeders"]] == list(range(200 - FEEDERS, 200))
    assert fields_of(entry)["rows_in"] == 200 * 201 / 2


@pytest.mark.parametrize(("balance", "units"), [(RoundRobin(), 0), (Hash(), 4)])
def test_snapshots_and_log_of_both_kinds_of_region(balance, units):
    made = Controller(1)
    made.handle(MessageEvent(0.0, 1, WorkerHello(0, "here", 1, 1)))
    made.handle(RegionOpenedEvent(0.0, "r", "op", balance, units))
    for peer in (21, 22):
        made.handle(FeederJoinedEvent(0.0, peer, "r", partition=peer, stage="1"))
    made.handle(TickEvent(1.0))
    for peer in (21, 22):
        made.handle(MessageEvent(1.5, peer, report(10, 0.1)))
    told = [fields_of(each) for each in made.handle(TickEvent(2.0)) if getattr(each, "event", "") == "performance"]
    assert [fields["rows_in"] for fields in told] == [20]
    assert [each["partition"] for each in told[0]["feeders"]] == [21, 22]
    found = made.region("r").snapshot(2.0).performance
    assert (found.rows_in, found.latencies.summary.rows) == (20, 20)
    assert found.workers[0].summary.mean == pytest.approx(50)
    made.handle(MessageEvent(2.5, 21, report(5, 0.1)))
    assert "performance" in [getattr(each, "event", "") for each in made.handle(StopEvent(2.6))]
