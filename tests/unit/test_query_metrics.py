"""Figures of micro-batches: what is counted of a query that starts again, and of regions that were dropped."""

from types import SimpleNamespace

import pytest

from evenflow.errors import InvalidArgument
from evenflow.model import Snapshot
from evenflow.model.entries import FeederJoinedEntry
from evenflow.model.latency import Latencies
from evenflow.model.statistics import Performance
from evenflow.runtime.cluster.spark import query_metrics
from evenflow.runtime.cluster.spark.query_metrics import QueryMetrics


class Told:
    """A cluster's driver and regions: entries, and rows that came to each region so far."""

    def __init__(self):
        self.entries, self.rows, self.results = [], {}, Latencies()
        self._driver = self._regions = self
        self._spark = None

    def feed(self, query, region, rows, time=0.0):
        self.entries.append(FeederJoinedEntry(time=time, query=query, region=region))
        self.rows[region] = self.rows.get(region, 0) + rows

    def events_since(self, number):
        return self.entries[number:], len(self.entries)

    def find(self, region):
        if region not in self.rows:
            raise InvalidArgument(f"this cluster has no region {region!r}")
        told = Performance(rows_in=self.rows[region], latencies=self.results)
        return SimpleNamespace(snapshot=lambda now: Snapshot(now, region, 1, 1.0, (), performance=told))

    def ask(self, question):
        return question(None)

    def now(self):
        return 1.0


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(query_metrics, "log_progress", lambda spark, line: None)
    return Told()


def batch(listener, query="q", number=0):
    """Spark tells of a batch; its figures, None if there are none."""
    before = len(listener.batches)
    fields = {"id": query, "name": query, "batchId": number, "timestamp": "2026-01-01T00:00:00Z", "durationMs": {}}
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(**fields)))
    return listener.batches[-1] if len(listener.batches) > before else None


def test_a_query_that_starts_again_is_not_counted_again(told):
    listener, event = QueryMetrics(told), SimpleNamespace(id="q")
    listener.onQueryStarted(event)
    told.feed("q", "r", 10)
    assert batch(listener).rows == 10
    listener.onQueryTerminated(event)
    listener.onQueryStarted(event)
    told.feed("q", "r", 5)
    assert batch(listener).rows == 5


def test_a_region_that_is_gone_does_not_silence_its_query(told):
    listener = QueryMetrics(told)
    told.feed("q", "a", 10)
    told.feed("q", "b", 1)
    assert batch(listener).regions == ("a", "b")
    del told.rows["a"]
    told.rows["b"] += 3
    found = batch(listener)
    assert (found.rows, found.regions) == (3, ("b",))
    told.feed("q", "a", 4)  # another one of that name
    assert batch(listener).rows == 4


def test_results_that_are_told_of_before_their_rows_are_no_rows(told):
    """Feeders of a graph tell of both, in messages of their own."""
    listener = QueryMetrics(told)
    told.feed("q", "graph", 0)
    told.results = Latencies({80: 70}, 0.1)
    assert batch(listener).rows == 0
    told.feed("q", "graph", 100)
    assert batch(listener).rows == 100


def test_entries_with_an_older_time_count(told):
    listener = QueryMetrics(told)
    told.feed("q", "a", 1, time=5.0)
    batch(listener)
    told.feed("q", "b", 2, time=4.0)
    assert batch(listener).regions == ("a", "b")


def test_what_is_known_of_queries_is_bounded_and_those_in_use_stay(told, monkeypatch):
    monkeypatch.setattr(query_metrics, "KEPT_QUERIES", 3)
    listener = QueryMetrics(told)
    told.feed("q", "r", 10)
    batch(listener)
    for number in range(9):
        listener.onQueryStarted(SimpleNamespace(id=f"other-{number}"))
        told.rows["r"] += 1
        assert batch(listener).rows == 1
    assert len(listener._known) == 3
