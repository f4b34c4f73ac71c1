"""A recorded run becomes a scenario: workers, costs that change, rates, and how rows fell on units."""

import json
from math import inf

import numpy as np
import pytest

from evenflow import sim
from evenflow.errors import InvalidArgument

COSTS = {0: 1e-3, 1: 1e-3, 2: 1e-3}


def write(path, entries):
    entries = sorted(entries, key=lambda entry: entry["time"])
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def samples(kind, members, rows, seconds=31, busy=1.0, slow_from=15):
    """Worker 2 becomes four times slower at a second; all are busy for `busy` of the time."""
    done, used = np.zeros(3), np.zeros(3)
    for second in range(seconds):
        told = [{"worker": w, rows: int(done[w]), "busy_s": used[w], "bytes": 80 * int(done[w])} for w in range(3)]
        yield {"time": 5.0 + second, "event": kind, "region": "r", "feeders": 2, "state_bytes": 6400, members: told}
        cost = np.array([1e-3, 1e-3, 4e-3 if second >= slow_from else 1e-3])
        done += busy / cost
        used += busy


def ordered(**options):
    opened = {"time": 0.0, "event": "region-opened", "region": "r", "balance": "credits", "splitting": "credits"}
    return [opened, *samples("sample", "connections", "rows_done", **options)]


def keyed(**options):
    opened = {"time": 0.0, "event": "region-opened", "region": "r", "balance": "auto", "units": 64}
    fell = {"event": "unit-rows", "region": "r", "seconds": 10.0, "rows": 1000, "others": 10}
    falls = [
        fell | {"time": 15.0, "units": [7, 3], "unit_rows": [600, 300]},
        fell | {"time": 25.0, "units": [3, 7], "unit_rows": [600, 300]},
    ]
    return [opened, *samples("keyed-sample", "consumers", "rows", **options), *falls]


def test_an_ordered_region_has_its_costs_and_when_they_changed(tmp_path):
    read = sim.recorded_scenario(write(tmp_path / "log", ordered()))
    assert (read.seconds, read.balances) == (30.0, ("credits",))
    assert (read.ordered.workers, read.ordered.feeders, read.ordered.rate) == (3, 2, 0.0)
    assert read.ordered.row_s == pytest.approx(1e-3)
    (load,) = read.ordered.loads
    assert (load.worker, load.factor, load.begin_s, load.end_s) == (2, pytest.approx(4.0, rel=0.01), 15.0, inf)


def test_rows_come_at_their_rate_if_nobody_was_busy(tmp_path):
    told = [
        {"time": 5.0 + second, "event": "performance", "region": "r", "seconds": 1.0, "rows_in": 600}
        for second in range(30)
    ]
    idle = sim.recorded_scenario(write(tmp_path / "idle", [*ordered(busy=0.2), *told]))
    assert idle.ordered.rate == pytest.approx(300.0)  # of each of two feeders
    busy = sim.recorded_scenario(write(tmp_path / "busy", [*ordered(), *told]))
    assert busy.ordered.rate == 0.0


def test_rows_of_a_keyed_operator_fall_as_they_did(tmp_path):
    read = sim.recorded_scenario(write(tmp_path / "log", keyed()))
    setup = read.keyed
    assert (setup.workers, setup.units, setup.feeders, setup.row_bytes, setup.unit_bytes) == (3, 64, 2, 80, 100)
    assert setup.steps == (sim.SpeedStep(2, 15.0, pytest.approx(0.25, rel=0.01)),)
    first, second = np.array_split(np.array(setup.trace), 2)
    assert [np.mean(first == unit) for unit in (7, 3)] == pytest.approx([0.6, 0.3], abs=0.02)
    assert [np.mean(second == unit) for unit in (7, 3)] == pytest.approx([0.3, 0.6], abs=0.02)
    assert len(np.unique(first)) == 12


def test_what_was_recorded_can_be_simulated(tmp_path):
    log = write(tmp_path / "log", keyed())
    read = sim.recorded_scenario(log)
    assert sim.simulate(sim.Scenario(3.0, "hash", keyed=read.keyed)).rows > 1_000


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "has no samples"),
        ([*ordered()][:2], "one sample of the region"),
        ([entry for entry in keyed() if entry["event"] != "unit-rows"], "how rows fell on units"),
        (keyed()[1:], "how many units there are .*: its begin is lost"),
        ([entry | {"time": 1.0} for entry in ordered()], "samples of the event log do not come one after the other"),
        ([{"time": 1.0, "event": "graph-sample", "region": "g"}], r"is a graph, .* write a scenario"),
    ],
)
def test_what_a_log_lacks_is_told(tmp_path, entries, said):
    with pytest.raises(InvalidArgument, match=said):
        sim.recorded_scenario(write(tmp_path / "log", entries))


def test_a_region_that_is_not_there_is_told_with_those_that_are(tmp_path):
    with pytest.raises(InvalidArgument, match="has no region 'x'; there are: 'r'"):
        sim.recorded_scenario(write(tmp_path / "log", ordered()), "x")


def test_of_several_regions_one_is_chosen(tmp_path):
    graph = {"time": 1.0, "event": "graph-sample", "region": "g"}
    one, other = ordered(), [entry | {"region": "s"} for entry in ordered() if "region" in entry]
    read = sim.recorded_scenario(write(tmp_path / "one", one))
    assert sim.recorded_scenario(write(tmp_path / "graph", [graph, *one])) == read
    log = write(tmp_path / "both", [*one, *other])
    with pytest.raises(InvalidArgument, match=r"several regions: choose one of 'r', 's' \(--region NAME\)"):
        sim.recorded_scenario(log)
    assert sim.recorded_scenario(log, "r") == read


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"time": 0, "event": "x"}\nnonsense\n', r"line 2 of .* is no entry of an event log: Expecting"),
        (b'{"time": 0, "event": "x"}\n\n[1, 2]\n', r"line 3 of .* it has no event and time"),
        (b'{"time": 1}\n', r"line 1 of .* it has no event and time"),
        (b'{"event": "sample", "time": NaN}\n', r"line 1 of .*: NaN is no number"),
        (b"\xff\xfe\x00", "has no samples"),
        (b"\xff\xfe\x00\n", "line 1 of .* is no entry of an event log"),
        (
            b'{"time": 1, "event": "sample"}\n',
            r"version writes them \(sample: .* missing .* `region`",
        ),
        (b'{"event": "sample", "region": "r", "time": "x"}\n', r"line 1 of .* it has no event and time"),
        (
            b'{"time": 1, "event": "sample", "region": []}\n',
            r"version writes them \(sample: Expected `str`",
        ),
    ],
)
def test_a_file_that_is_no_log_is_told(tmp_path, body, said):
    (tmp_path / "log").write_bytes(body)
    with pytest.raises(InvalidArgument, match=said):
        sim.recorded_scenario(tmp_path / "log")


def test_a_log_whose_writer_was_killed_is_read_up_to_its_last_whole_line(tmp_path):
    log = write(tmp_path / "log", ordered())
    whole = sim.recorded_scenario(log)
    log.write_text(log.read_text() + '{"time": 36.0, "event": "sam')
    assert sim.recorded_scenario(log) == whole
