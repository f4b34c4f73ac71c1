"""The simulated ordered region: no row lost or doubled, order, bounds, drafting, and cases worked out by hand."""

import json
from math import inf

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.model.messages import Weights
from evenflow.policy import balance_named
from evenflow.sim.log import SimulatedLog
from evenflow.sim.ordered.plane import OrderedPlane
from evenflow.sim.ordered.scene import OrderedScene, WorkerLoad
from evenflow.sim.simulation import Simulation

DEEP = {"window": 0, "send_buffer": 20, "receive_buffer": 20, "result_buffer": 40, "reorder_rows": 0, "frame_rows": 1}
"""Connections as in the paper: kernel buffers on both sides, and a merger that reads the connection in turn only."""
BALANCES = ("round-robin", "reroute", "credits", "lb-adaptive", "blocking-rate")


def simulated(scene, balance="round-robin", seconds=20.0, period=1.0, log=None, **options):
    plane = OrderedPlane(scene, balance_named(balance, **options))
    world = Simulation(plane, scene.workers, period_s=period, log=log)
    world.run(seconds)
    return plane, world


def check_rows(plane):
    """Rows sent are under way, in the merger or out; nothing is counted twice; order is kept by construction."""
    state = plane.state
    for feeder in range(plane.scene.feeders):
        splitter, links = state.splitters[feeder], state.links[feeder]
        assert links["rows_sent"].sum() == splitter["row"]
        assert links["rows_done"].sum() == splitter["rows_out"] + splitter["held"]
        assert (links["frames_sent"] - links["frames_done"] == links["under_way"]).all()
        places = np.arange(splitter["head"], splitter["sequence"]) % state.costs[0]["ring"]
        frames = state.frames[feeder * state.costs[0]["ring"] + places]
        ends = frames["first"] + frames["rows"]
        assert (frames["first"][1:] == ends[:-1]).all()
        assert frames["first"][0] == splitter["rows_out"] if len(frames) else splitter["rows_out"] == splitter["row"]


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize("deep", [False, True])
def test_every_row_comes_out_once(balance, deep):
    loads = (WorkerLoad(0, 10.0, end_s=3.0), WorkerLoad(1, 3.0, begin_s=1.0, end_row=4000))
    scene = OrderedScene(3, row_s=1e-3, loads=loads, feeders=2, rows=5000, delay_s=2e-4, **(DEEP if deep else {}))
    plane, world = simulated(scene, balance, seconds=1.0)
    for second in (2.0, 4.0, 8.0):
        check_rows(plane)
        world.run(second)
    world.run(200.0)
    assert plane.rows_out == 10_000
    assert plane.finished_s < 200
    assert not plane.peers
    assert plane.state.links["under_way"].sum() == plane.state.links["results"].sum() == 0
    assert plane.stuck() == ""


def test_queues_keep_their_bounds():
    scene = OrderedScene(3, row_s=1e-3, loads=(WorkerLoad(0, 50.0),), **DEEP)
    plane, world = simulated(scene, seconds=0.1)
    for second in np.arange(0.2, 5.0, 0.1).tolist():
        world.run(second)
        links = plane.state.links[0]
        assert links["queued"].max() <= 40
        assert links["results"].max() <= 40
    assert links["queued"][0] == 40  # the slow worker's buffers are full
    assert (links["results"][1:] == 40).all()  # and the results of the others wait for it


def test_a_merger_with_a_bound_stops_its_splitter():
    scene = OrderedScene(2, row_s=1e-3, loads=(WorkerLoad(0, 1e4),), frame_rows=10, reorder_rows=100, result_buffer=0)
    plane, _ = simulated(scene, "reroute", seconds=10.0)
    assert 100 <= plane.state.splitters[0]["held"] <= 110
    assert plane.state.splitters[0]["rows_out"] == 0
    check_rows(plane)


def test_one_worker_by_hand():
    """Frames of 10 rows take 10 ms on one worker; 1 ms to send the first, then the worker is never idle."""
    scene = OrderedScene(1, row_s=1e-3, frame_rows=10, jitter=0.0, send_s=1e-3, rows=100)
    plane, world = simulated(scene)
    began = 0.0005  # the controller's directory takes so long
    assert plane.finished_s == pytest.approx(began + 1e-3 + 10 * 10e-3)
    link = plane.state.links[0, 0]
    assert link["busy_s"] == pytest.approx(0.1)
    # With a window of 2, frame k is sent when frame k - 2 is answered: it waits 9 ms for each from the third on.
    assert link["blocked_s"] == pytest.approx(7 * 9e-3 + 8e-3 + 0.0, abs=2e-3)
    assert world.log.of("sample")[-1]["rows_out"] == 100


def test_the_splitter_is_the_limit():
    """Throughput is that of the slowest stage: rows cost the splitter 1 ms, the four workers together 0.25 ms."""
    plane, _ = simulated(OrderedScene(4, row_s=1e-3, frame_rows=10, send_s=0.0, send_row_s=1e-3), seconds=10.0)
    assert plane.rows_out == pytest.approx(10_000, rel=0.01)
    assert plane.state.links["blocked_s"].sum() == 0.0


@pytest.mark.parametrize("scene", [{}, DEEP])
def test_round_robin_is_gated_by_the_slowest_worker(scene):
    """§4.1: with one of three workers 10 times slower, the region does three times what that one does."""
    given = OrderedScene(3, **{"row_s": 1e-3, "loads": (WorkerLoad(0, 10.0),), **scene})
    plane, _ = simulated(given, seconds=40.0)
    assert plane.rows_out / 40 == pytest.approx(300, rel=0.05)
    blocked = plane.state.links[0]["blocked_s"]
    assert blocked[0] > 30
    assert blocked[1:].max() < 5


@pytest.mark.parametrize(("balance", "least"), [("credits", 0.97), ("blocking-rate", 0.9), ("oracle", 0.95)])
def test_what_balances_reach(balance, least):
    """The sum of what the workers can do, 2100 rows a second, is the limit."""
    options = {"capacities": [0.1, 1, 1]} if balance == "oracle" else {}
    _, world = simulated(OrderedScene(3, row_s=1e-3, loads=(WorkerLoad(0, 10.0),)), balance, 60.0, **options)
    rows = [entry["rows_out"] for entry in world.log.of("sample")]
    assert least < (rows[-1] - rows[-21]) / 20 / 2100 <= 1.01


def test_equal_workers_draft():
    """§4.2: of equal workers, one bears nearly all of the blocking of a sample."""
    _, world = simulated(OrderedScene(3, row_s=1e-3, **DEEP), seconds=30.0)
    blocked = np.array([[c["blocked_s"] for c in entry["connections"]] for entry in world.log.of("sample")])
    rates = np.diff(blocked, axis=0)[3:]
    assert (rates.max(axis=1) > 0.6 * rates.sum(axis=1)).mean() > 0.8
    assert rates.sum(axis=1) == pytest.approx(0.85, abs=0.02)  # sending takes 50 us for each of 3000 rows a second


def test_workers_beyond_the_threads_of_a_host_share_them():
    """Three busy workers on a host with two threads get two thirds each; the fourth has a host of its own."""
    scene = OrderedScene(4, row_s=1e-3, frame_rows=10, jitter=0.0, hosts=(0, 0, 0, 1), threads=(2, 1))
    plane, _ = simulated(scene, "reroute", seconds=30.0)
    done = plane.state.links[0]["rows_done"] / 30
    assert done[:3] == pytest.approx([666, 666, 666], rel=0.02)
    assert done[3] == pytest.approx(1000, rel=0.02)


def test_rows_that_come_slowly_block_nobody():
    plane, _ = simulated(OrderedScene(2, row_s=1e-3, frame_rows=5, rate=100.0), seconds=10.0)
    assert plane.rows_out == pytest.approx(1000, abs=10)
    assert plane.state.links["blocked_s"].sum() == 0.0


def test_frames_grow_to_their_size_as_live():
    """Blocking: 5 ms of the fastest worker's rows for all; credits: 10 ms of each worker's own."""
    loads = (WorkerLoad(0, 10.0),)
    for balance, sizes in (("round-robin", [50, 50]), ("credits", [10, 100])):
        plane, _ = simulated(OrderedScene(2, row_s=1e-4, loads=loads, jitter=0.0), balance, seconds=10.0)
        assert plane.state.links[0]["last_rows"].tolist() == pytest.approx(sizes, abs=1)


def test_the_feeder_obeys_the_controller():
    plane, world = simulated(OrderedScene(2, row_s=1e-3), "static", seconds=20.0, weights=[0.8, 0.2])
    sent = plane.state.links[0]["rows_sent"]
    assert sent[0] / sent.sum() == pytest.approx(0.8, abs=0.01)
    plane.told(world.time, next(iter(plane.peers)), Weights({0: 0, 1: 1000}))
    world.run(30.0)
    assert plane.state.links[0]["rows_sent"][0] - sent[0] < 30


@pytest.mark.parametrize("balance", BALANCES)
def test_the_same_seed_gives_the_same_bytes(balance, tmp_path):
    scene = OrderedScene(3, row_s=1e-3, feeders=2, loads=(WorkerLoad(0, 5.0, end_s=4.0),), seed=7)
    for name in ("one", "other"):
        log = SimulatedLog(tmp_path / name)
        simulated(scene, balance, seconds=8.0, log=log)
        log.close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    other = SimulatedLog()
    simulated(OrderedScene(3, row_s=1e-3, feeders=2, loads=scene.loads, seed=8), balance, seconds=8.0, log=other)
    assert [json.dumps(entry) for entry in other.entries] != (tmp_path / "one").read_text().splitlines()


def test_what_cannot_go_on_says_who_waits_for_whom():
    plane = OrderedPlane(OrderedScene(2, feeders=2), balance_named("round-robin"))
    Simulation(plane, 2, delay_s=10.0).run(1.0)
    assert plane.stuck() == "; ".join(f"feeder {f} waits for the controller to tell it the workers" for f in (0, 1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workers": 0}, "workers is 0: give at least 1"),
        ({"row_s": 0.0}, "row_s is 0.0: give the seconds a row takes"),
        ({"row_s": inf}, "row_s is inf"),
        ({"jitter": 1.0}, "jitter is 1.0"),
        ({"speeds": (1.0,)}, "one for each of the 2 workers"),
        ({"speeds": (1.0, -1.0)}, "the speed of worker 1 is -1.0"),
        ({"hosts": (0, 2), "threads": (1, 1)}, "there is no host 2"),
        ({"threads": (1, 1)}, "give hosts, too"),
        ({"hosts": (0, 0), "threads": (0,)}, "threads of host 0 is 0"),
        ({"loads": (WorkerLoad(2, 3.0),)}, "the worker of a load is 2: give one from 0 to 1"),
        ({"loads": (WorkerLoad(0, 0.0),)}, "the load of worker 0 is 0.0"),
        ({"loads": (WorkerLoad(0, 2.0, 5.0, 4.0),)}, "from 5.0 to 4.0 s"),
        ({"window": 0}, "give send_buffer or receive_buffer"),
        ({"window": 0, "send_buffer": 5}, "frame_rows is 0"),
        ({"frame_rows": 20_000}, "give at most most_rows, 10000"),
        ({"send_buffer": -1}, "send_buffer is -1"),
        ({"window": 0, "frame_rows": 1, "send_buffer": 10_000_000}, "make them smaller, or frames larger"),
    ],
    ids=str,
)
def test_impossible_scenes_are_refused(fields, message):
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(")):
        OrderedScene(**{"workers": 2, **fields})


def test_many_feeders_of_small_frames_fit_unless_a_larger_merger_is_asked_for():
    assert OrderedScene(10, frame_rows=1, feeders=100).frames_at_once < 1 << 17
    assert OrderedScene(10, frame_rows=1, reorder_rows=32_000_000).frames_at_once > 1 << 19
