"""Whatever stands in an event log, the live page shows something and goes on."""

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.dashboard.actions import FAILURES
from evenflow.dashboard.view import PageView
from evenflow.dashboard.web.feed import Feed
from evenflow.model.entries import entry_of, name_of
from tests.support import event_logs as logs

EVENTS = [
    "worker-joined", "executors", "memory-set", "region-opened", "feeder-joined", "feeder-left", "performance",
    "sample", "keyed-sample", "unit-owners", "unit-rows", "move", "moved", "move-undone", "move-refused",
    "weights", "qos", "cluster-started", "graph-sample", "graph-results", "task-durable", "cluster-stopping",
    *map(name_of, FAILURES),
]  # fmt: skip
FIELDS = [
    "region", "worker", "workers", "incarnation", "units", "owners", "even", "source", "target", "why", "weights",
    "operators", "edges", "sources", "hosts", "links", "consumers", "connections", "hottest", "epoch", "query",
    "partition", "bytes", "seconds", "buckets", "total_s", "rows_out", "feeding_s", "memory", "balance", "counts",
    "at", "unit_rows", "name", "load", "pe", "total_pe", "load_std", "coefficient", "arrived", "results", "rows_in",
    "shed", "feeders", "resident", "spilled", "weight", "blocked_s", "busy_s", "rows_done", "rows_sent", "log_s",
    "note_s", "state_bytes", "latency_ms", "rows_per_s", "kind", "endpoint", "rows", "pending",
]  # fmt: skip
plain = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([2**70, 0.5, float("nan"), "", "x", "orders"])
shallow = plain | st.lists(plain, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), plain, max_size=3)
junk = shallow | st.lists(st.dictionaries(st.sampled_from(FIELDS), shallow, max_size=3), max_size=2)
strange = st.builds(
    lambda time, event, fields: logs.entry(time, event) | {"region": "orders"} | fields,
    st.sampled_from([0.0, 5.0, 13.0, 20.0]),
    st.sampled_from(EVENTS),
    st.dictionaries(st.sampled_from(FIELDS), junk, max_size=8),
)
SOUND = logs.keyed_run(seconds=7)
OPERATOR = {"name": "join", "load": 0.5, "pe": 2.0, "worker": 1}
HOST = {"worker": 1, "coefficient": 1.0, "load": 0.5}
HISTOGRAM = {"buckets": {"80": 9}, "total_s": 0.1}
LISTS = {"edges": [], "sources": ["a"], "units": 2}
OTHERS = [
    logs.opened("score", 0), logs.sample(1.0, [logs.connection(0, 500, 1.0, 0.5)]),
    logs.entry(1.0, "unit-rows", region="orders", seconds=1.0, units=[0, 3], unit_rows=[50, 30]),
    logs.entry(1.0, "region-opened", region="graph", operators=[{"name": "join", "units": 2}], **LISTS),
    logs.entry(2.0, "graph-sample", region="graph", total_pe=1.0, load_std=0.1, hosts=[HOST], links=[],
               operators=[OPERATOR]),
    logs.entry(3.0, "graph-results", region="graph", arrived=9, results=9, **HISTOGRAM),
    logs.entry(3.0, "feeder-joined", region="graph", partition=0, attempt=0, query="q", epoch=3),
    logs.entry(3.0, "task-durable", region="graph", query="q", log_s=0.1, note_s=0.1),
    logs.entry(3.0, "weights", region="orders", weights={"0": 600, "1": 400}, reason="r"),
    logs.entry(3.0, "memory-set", worker=1, memory=5, resident=4, spilled=3),
]  # fmt: skip
SOUND_KINDS = sorted([*SOUND, *OTHERS], key=lambda entry: entry["time"])


@st.composite
def changed(draw):
    """A sound entry with something else somewhere in it."""
    entry = json.loads(json.dumps(draw(st.sampled_from(SOUND_KINDS))))
    entry |= {"time": 8.0, "at": logs.START + 8.0}  # an earlier time would begin another run
    place = entry
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(keys))
        if not place[key] or not isinstance(place[key], dict | list) or draw(st.booleans()):
            break
        place = place[key]
    if draw(st.booleans()):
        place[key] = draw(junk | st.sampled_from([10**400, 99, -1, float("inf")]))
    else:
        del place[key]
    return entry


class Listed:
    """A source of entries that are there from the beginning."""

    title, unread, share = "listed", 0, 1.0

    def __init__(self, entries):
        self._entries = entries

    def entries(self):
        found, self._entries = self._entries, []
        return iter(found)

    def now(self, heard):
        return heard


@settings(max_examples=150)
@given(st.lists(strange, min_size=1, max_size=6))
def test_damaged_entries_cost_themselves_and_nothing_else(damaged):
    view = PageView()
    for entry in [*SOUND, *damaged, logs.joined(1, 30.0)]:
        view.apply(entry_of(entry))
    json.loads(msgspec.json.encode(view.frame()))
    json.loads(msgspec.json.encode(view.frame(logs.START + 60)))
    assert "live" in {worker["state"] for worker in view.frame()["workers"]}


@settings(max_examples=60)
@given(st.sampled_from(SOUND), st.sampled_from(SOUND))
def test_entries_with_fields_of_others_are_survived(one, other):
    view = PageView()
    mixed = one | {name: value for name, value in other.items() if name != "event"}
    for entry in [*SOUND, mixed]:
        view.apply(entry_of(entry))
    assert json.loads(msgspec.json.encode(view.frame()))["entries"] == len(SOUND) + 1


@settings(max_examples=100, deadline=None)
@given(st.lists(changed() | strange, min_size=1, max_size=4))
def test_the_page_goes_on_after_damaged_entries(damaged):
    """The frame has all entries, so none of them keeps a frame from being made."""
    log = [*SOUND_KINDS, *damaged, logs.joined(1, 10.0)]
    feed = Feed(Listed([entry_of(entry) for entry in log]))
    assert not feed.take()
    feed.publish()
    assert json.loads(feed.frame)["entries"] == len(log)
    json.loads(feed.history()[0])
    assert b"evenflow_rows_total" in feed.exposition()
    assert not feed._troubled  # nor one of those that are kept for the time slider
