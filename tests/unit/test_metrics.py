"""Metrics: what entries of an event log come to, in the form that Prometheus reads, and Grafana's dashboard of them."""

import json
import re
from importlib.resources import files

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evenflow.metrics import counts
from evenflow.metrics.exposition import CONTENT_TYPE, Metrics
from evenflow.model.entries import KINDS, entry_of
from evenflow.model.latency import Latencies, bucket_of
from tests.support.records import latency_fields

LATENCIES = Latencies({bucket_of(0.004): 90, bucket_of(2.0): 10}, 20.4)


def entry(time, event, **fields):
    return {"time": time, "at": 1_700_000_000.0 + time, "event": event, **fields}


def add(metrics, entries):
    """Count entries as they stand in a log."""
    metrics.add(map(entry_of, entries))


def connection(worker, weight, busy, rows):
    return {"worker": worker, "weight": weight, "blocked_s": 0.5, "rows_done": rows, "busy_s": busy}


def consumer(worker, busy):
    told = {"worker": worker, "units": 8, "rows": 100, "busy_s": busy}
    return told | {"resident": 1000, "spilled": 24}


def log():
    """A run with a region of each kind; worker 1 is lost and comes again."""
    yield entry(0.0, "cluster-started", cluster="abc", workers=2, version="1.2.3")
    for worker in range(2):
        yield entry(0.1, "worker-joined", worker=worker, incarnation=1, host="h", pid=1)
    yield entry(0.2, "region-opened", region="ordered", balance="credits", splitting="credits")
    yield entry(0.2, "region-opened", region="keyed", balance="flux", units=16)
    yield entry(0.2, "region-opened", region="graph", placement="potential", units=2, operators=[])
    for second, busy in ((1.0, 0.0), (2.0, 0.5)):
        told = [connection(0, 750, busy, 30), connection(1, 250, 0.0, 10)]
        yield entry(second, "sample", region="ordered", feeders=1, rows_out=40, connections=told)
        told = [consumer(0, busy / 2), consumer(1, busy)]
        yield entry(second, "keyed-sample", region="keyed", feeders=2, state_bytes=2048, consumers=told)
    yield entry(2.0, "performance", region="ordered", seconds=1.0, rows_in=100, shed=3, **latency_fields(LATENCIES))
    for late in (5, 2):
        yield entry(2.0, "rows-late", region="keyed", rows=late, total=7, inputs={"left": 7})
    yield entry(2.1, "weights", region="ordered", weights={"0": 750, "1": 250}, reason="r")
    move = {"region": "keyed", "move": 1, "units": [1, 2], "source": 0, "target": 1}
    yield entry(2.2, "move", **move, why="utilisation 0.91 and 0.12, mean 0.50")
    yield entry(2.3, "moved", **move, bytes=512, seconds=0.25, version=1)
    yield entry(2.4, "move", **move, why="asked for")
    yield entry(2.5, "move-undone", **move, why="late")
    yield entry(2.5, "move-refused", **move, why="no")
    yield entry(2.6, "task-durable", region="keyed", query="q", log_s=0.1, note_s=0.2)
    hosts = [{"worker": 0, "coefficient": 1.0, "load": 0.2}, {"worker": 1, "coefficient": 1.0, "load": 0.2}]
    yield entry(2.7, "graph-sample", region="graph", hosts=hosts, total_pe=12.5)
    yield entry(2.8, "move", **move | {"region": "graph"}, why="potential: join: level 1")
    yield entry(2.9, "graph-results", region="graph", arrived=7, results=100, **latency_fields(LATENCIES))
    yield entry(2.9, "performance", region="graph", seconds=1.0, rows_in=0, shed=0, **latency_fields(LATENCIES))
    yield entry(3.0, "worker-lost", worker=1, incarnation=1, pid=1, reason="killed")
    yield entry(3.0, "feeder-failed", region="ordered", partition=0, attempt=0, worker=0, error="ValueError: boom")
    yield entry(4.0, "worker-joined", worker=1, incarnation=2, host="h", pid=2)


@pytest.fixture
def samples():
    """By name and labels, the value of each sample of the exposition, as Prometheus reads it."""
    metrics = Metrics()
    add(metrics, log())
    return read(metrics)


def read(metrics):
    text = metrics.exposition().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[(sample.name, *sorted(sample.labels.items()))] = sample.value
    return found


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("evenflow_cluster_info", {"cluster": "abc", "version": "1.2.3"}, 1),
        ("evenflow_rows_total", {"region": "ordered"}, 100),
        ("evenflow_rows_total", {"region": "graph"}, 7),
        ("evenflow_rows_shed_total", {"region": "ordered"}, 3),
        ("evenflow_rows_late_total", {"region": "keyed"}, 7),
        ("evenflow_row_latency_seconds_bucket", {"region": "ordered", "le": "0.0025"}, 0),
        ("evenflow_row_latency_seconds_bucket", {"region": "ordered", "le": "0.005"}, 90),
        ("evenflow_row_latency_seconds_bucket", {"region": "ordered", "le": "2.5"}, 100),
        ("evenflow_row_latency_seconds_count", {"region": "ordered"}, 100),
        ("evenflow_row_latency_seconds_sum", {"region": "ordered"}, 20.4),
        ("evenflow_row_latency_seconds_count", {"region": "graph"}, 100),
        ("evenflow_worker_weight_ratio", {"region": "ordered", "worker": "0"}, 0.75),
        ("evenflow_worker_rows_total", {"region": "ordered", "worker": "0"}, 30),
        ("evenflow_worker_busy_seconds_total", {"region": "ordered", "worker": "0"}, 0.5),
        ("evenflow_worker_utilisation_ratio", {"worker": "0"}, 0.5 + 0.25 + 0.2),
        ("evenflow_imbalance_ratio", {"region": "graph"}, 1.0),
        ("evenflow_worker_up", {"worker": "1"}, 1),
        ("evenflow_worker_restarts_total", {"worker": "1"}, 1),
        ("evenflow_worker_restarts_total", {"worker": "0"}, 0),
        ("evenflow_moves_total", {"region": "keyed", "reason": "utilisation"}, 1),
        ("evenflow_moves_total", {"region": "keyed", "reason": "asked"}, 1),
        ("evenflow_moves_total", {"region": "graph", "reason": "placement"}, 1),
        ("evenflow_moves_refused_total", {"region": "keyed"}, 1),
        ("evenflow_moves_undone_total", {"region": "keyed"}, 1),
        ("evenflow_units_moved_total", {"region": "keyed"}, 2),
        ("evenflow_state_moved_bytes_total", {"region": "keyed"}, 512),
        ("evenflow_move_pause_seconds_sum", {"region": "keyed"}, 0.25),
        ("evenflow_move_pause_seconds_count", {"region": "keyed"}, 1),
        ("evenflow_weights_set_total", {"region": "ordered"}, 1),
        ("evenflow_state_bytes", {"region": "keyed"}, 2048),
        ("evenflow_worker_units", {"region": "keyed", "worker": "0"}, 8),
        ("evenflow_worker_spilled_bytes", {"region": "keyed", "worker": "0"}, 24),
        ("evenflow_task_durable_seconds_sum", {"region": "keyed"}, 0.3),
        ("evenflow_graph_energy", {"region": "graph"}, 12.5),
        ("evenflow_troubles_total", {"event": "worker-lost"}, 1),
        ("evenflow_troubles_total", {"event": "feeder-failed"}, 1),
        ("evenflow_troubles_total", {"event": "store-failed"}, 0),
        ("evenflow_last_event_timestamp_seconds", {}, 1_700_000_004.0),
    ],
)
def test_what_entries_come_to(samples, name, labels, value):
    assert samples[(name, *sorted(labels.items()))] == pytest.approx(value)


def test_entries_that_were_left_out_count_by_their_kind():
    metrics = Metrics()
    add(metrics, log())
    add(
        metrics,
        [entry(60.0, "entries-left-out", kind=kind, count=7) for kind in ("feeder-failed", "of another version")],
    )
    samples = read(metrics)
    assert samples["evenflow_troubles_total", ("event", "feeder-failed")] == 8
    assert samples["evenflow_troubles_total", ("event", "worker-lost")] == 1


def test_imbalance_is_the_busiest_over_the_mean():
    metrics = Metrics()
    add(metrics, (each for each in log() if each["time"] < 3))
    assert read(metrics)["evenflow_imbalance_ratio", ("region", "keyed")] == pytest.approx(0.5 / 0.375)


def test_rows_of_a_graph_are_counted_once():
    """Feeders tell of the same rows in both entries, and one of them can be behind; a simulation has no `rows_in`."""
    told = [entry(1.0, "region-opened", region="g", placement="dp", units=2, operators=[])]
    rows = []
    for second, came, arrived in ((1.0, 4000, 10500), (2.0, 6500, 0), (3.0, 0, 2000), (4.0, 2500, 0)):
        fields = {"region": "g", "seconds": 1.0, "shed": 0, **latency_fields(LATENCIES)}
        told.append(entry(second, "performance", **fields, rows_in=came))
        told.append(entry(second, "graph-results", **fields, arrived=arrived, results=1))
        metrics = Metrics()
        add(metrics, told)
        rows.append(read(metrics)["evenflow_rows_total", ("region", "g")])
    assert rows == [10500, 10500, 12500, 13000]


def test_names_keep_the_conventions(samples):
    """prometheus.io/docs/practices/naming: one prefix, base units, counters end in _total."""
    metrics = Metrics()
    add(metrics, log())
    for family in metrics.collect():
        assert re.fullmatch(r"evenflow_[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|kb|mb|percent|total)$", family.name)
    assert CONTENT_TYPE.startswith("text/plain")


def test_labels_are_few(samples):
    labels = {name for key in samples for name, _ in key[1:]}
    assert labels == {"region", "worker", "reason", "event", "le", "cluster", "version"}


def test_regions_are_bounded(monkeypatch):
    monkeypatch.setattr(counts, "MOST_REGIONS", 3)
    metrics = Metrics()
    add(metrics, (entry(1.0, "region-opened", region=f"r{number}", units=4) for number in range(10)))
    assert {dict(key[1:])["region"] for key in read(metrics) if key[0] == "evenflow_rows_total"} == {"r7", "r8", "r9"}


def test_hostile_names_are_escaped():
    metrics = Metrics()
    name = 'a"b\\c\nevenflow_rows_total{region="x"} 99'
    add(metrics, [entry(1.0, "region-opened", region=name, units=4)])
    assert read(metrics)["evenflow_rows_total", ("region", name)] == 0


def test_another_run_begins_anew():
    metrics = Metrics()
    add(metrics, log())
    add(metrics, [entry(0.0, "cluster-started", cluster="new", version="2")])
    assert not any(key[0] == "evenflow_rows_total" for key in read(metrics))


@pytest.mark.parametrize(
    "damaged",
    [
        {"event": "performance", "region": "ordered"},
        {"event": "performance", "region": "ordered", "rows_in": 1, "shed": 0, "total_s": 0, "buckets": {"9": "x"}},
        {"event": "move-refused"},
        {"event": "worker-joined", "worker": 0},
        {"event": "sample", "region": "ordered", "feeders": "x", "connections": []},
        {"event": "keyed-sample", "region": "keyed", "feeders": 1, "state_bytes": 10**400, "consumers": []},
        {"event": ["performance"]},
        {},
    ],
    ids=str,
)
def test_a_damaged_entry_is_counted_as_such(samples, damaged):
    metrics = Metrics()
    add(metrics, [*log(), {"time": 5.0, **damaged}])
    found = read(metrics)
    assert found["evenflow_entries_unread_total",] == 1
    assert found["evenflow_rows_total", ("region", "ordered")] == 100
    assert samples["evenflow_entries_unread_total",] == 0


def test_when_feeding_ends_nobody_is_busy():
    metrics = Metrics()
    add(metrics, (each for each in log() if each["time"] < 2.1 and each.get("region", "ordered") == "ordered"))
    assert read(metrics)["evenflow_worker_utilisation_ratio", ("worker", "0")] == 0.5
    add(metrics, [entry(3.0, "feeder-joined", region="ordered"), entry(3.0, "feeder-left", region="ordered")])
    assert read(metrics)["evenflow_feeders", ("region", "ordered")] == 1
    add(metrics, [entry(3.1, "feeder-left", region="ordered")])
    found = read(metrics)
    assert found["evenflow_feeders", ("region", "ordered")] == 0
    assert found["evenflow_worker_utilisation_ratio", ("worker", "0")] == 0
    assert ("evenflow_imbalance_ratio", ("region", "ordered")) not in found


def test_a_graph_whose_last_sample_comes_after_its_feeders_is_at_rest():
    hosts = [{"worker": 0, "coefficient": 1.0, "load": 0.4}, {"worker": 1, "coefficient": 1.0, "load": 0.2}]
    sample = {"region": "g", "hosts": hosts, "total_pe": 1.0}
    metrics, busy = Metrics(), ("evenflow_worker_utilisation_ratio", ("worker", "0"))
    joined = [entry(0.1, "worker-joined", worker=worker, incarnation=1) for worker in (0, 1)]
    add(metrics, [*joined, entry(1.0, "graph-sample", **sample)])
    assert read(metrics)[busy] == 0.4, "the log does not tell who feeds, as if its beginning were gone"
    add(metrics, [entry(1.5, "feeder-joined", region="g"), entry(2.0, "graph-sample", **sample)])
    assert read(metrics)[busy] == 0.4
    add(metrics, [entry(2.1, "feeder-left", region="g"), entry(2.2, "graph-sample", **sample)])
    found = read(metrics)
    assert found[busy] == 0
    assert ("evenflow_imbalance_ratio", ("region", "g")) not in found


def test_what_a_region_does_not_tell_of_is_left_out(samples):
    def regions(name):
        return {dict(key[1:])["region"] for key in samples if key[0] == name}

    assert regions("evenflow_worker_rows_total") == {"ordered", "keyed"}
    assert regions("evenflow_worker_blocked_seconds_total") == {"ordered"}
    assert regions("evenflow_worker_resident_bytes") == {"keyed"}


def test_nothing_told_yet():
    assert read(Metrics())


def test_entries_as_a_controller_writes_them_are_known():
    """A kind that was renamed would silently no longer be counted."""
    assert {*counts.TROUBLES, *counts.HANDLERS} <= set(KINDS)


BOARD = json.loads((files("evenflow") / "metrics" / "grafana.json").read_text())


def test_every_expression_of_the_dashboard_uses_metrics_that_there_are():
    metrics = Metrics()
    add(metrics, [*log(), entry(5.0, "memory-set", worker=0, memory=4096, resident=0, spilled=0)])
    known = {key[0] for key in read(metrics)}
    expressions = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    expressions += [each["query"] for each in BOARD["templating"]["list"] if each["type"] == "query"]
    used = {name for expression in expressions for name in re.findall(r"evenflow_\w+", expression)}
    assert all("evenflow_" in expression for expression in expressions)
    assert used - known == set()


def test_the_panels_of_the_dashboard_do_not_overlap():
    taken = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
