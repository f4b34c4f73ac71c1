"""Whatever stands in an event log, the live page shows something and goes on."""

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.dashboard.actions import FAILURES
from evenflow.dashboard.view import PageView
from tests.support import event_logs as logs

EVENTS = [
    "worker-joined", "executors", "memory-set", "region-opened", "feeder-joined", "feeder-left", "performance",
    "sample", "keyed-sample", "unit-owners", "unit-rows", "move", "moved", "move-undone", "move-refused",
    "weights", "qos",    "graph-sample", "graph-results", "task-durable", "cluster-stopping", *FAILURES,
]  # fmt: skip
FIELDS = [
    "region", "worker", "workers", "incarnation", "units", "owners", "even", "source", "target", "why", "weights",
    "operators", "edges", "sources", "hosts", "links", "consumers", "connections", "hottest", "epoch", "query",
    "partition", "bytes", "seconds", "buckets", "total_s", "rows_out", "feeding_s", "memory", "balance", "counts",
]  # fmt: skip
plain = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([2**70, 0.5, float("nan"), "", "x", "orders"])
junk = plain | st.lists(plain, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), plain, max_size=3)
strange = st.builds(
    lambda time, event, fields: logs.entry(time, event) | {"region": "orders"} | fields,
    st.sampled_from([0.0, 5.0, 13.0, 20.0]),
    st.sampled_from(EVENTS),
    st.dictionaries(st.sampled_from(FIELDS), junk, max_size=8),
)
SOUND = logs.keyed_run(seconds=7)


@settings(max_examples=150)
@given(st.lists(strange, min_size=1, max_size=6))
def test_damaged_entries_cost_themselves_and_nothing_else(damaged):
    view = PageView()
    for entry in [*SOUND, *damaged, logs.joined(1, 30.0)]:
        view.apply(entry)
    json.loads(msgspec.json.encode(view.frame()))
    json.loads(msgspec.json.encode(view.frame(logs.START + 60)))
    assert "live" in {worker["state"] for worker in view.frame()["workers"]}


@settings(max_examples=60)
@given(st.sampled_from(SOUND), st.sampled_from(SOUND))
def test_entries_with_fields_of_others_are_survived(one, other):
    view = PageView()
    mixed = one | {name: value for name, value in other.items() if name != "event"}
    for entry in [*SOUND, mixed]:
        view.apply(entry)
    msgspec.json.encode(view.frame())
