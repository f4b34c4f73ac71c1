"""The controller on a virtual clock: the agenda never runs ahead of the data plane, and nothing depends on chance."""

from math import inf

import pytest

from evenflow.control.events import FeederJoinedEvent, RegionOpenedEvent
from evenflow.errors import SimulationError
from evenflow.model.messages import ConnectionCounts, Directory, FeederReport, Weights
from evenflow.policy import StaticWeights
from evenflow.sim.log import SimulatedLog
from evenflow.sim.simulation import Simulation


class OneFeeder:
    """A region whose feeder has sent 10 rows a second to each worker; it says something by itself at second 1.5."""

    def __init__(self, own=(1.5,)):
        self.own, self.log = list(own), []

    def begin(self, world):
        self.world, self.peer = world, world.feeder()
        world.open(RegionOpenedEvent(0.0, "map", "score", StaticWeights([0.75, 0.25])))
        world.handle(FeederJoinedEvent(0.0, self.peer, "map"))
        world.every(1.0, self.report)

    def report(self, time):
        self.log.append(("report", time))
        counts = {worker: ConnectionCounts(rows_sent=10) for worker in range(self.world.workers)}
        self.world.say(time, self.peer, FeederReport(1.0, 20, counts))

    def advance(self, until):
        if self.own and self.own[0] <= until:
            time = self.own.pop(0)
            self.report(time)
            return time
        self.log.append(("advance", until))
        return until

    def told(self, time, peer, message):
        self.log.append((type(message), round(time, 4), peer))

    def stuck(self):
        return "row 7 waits for worker 1"


def test_the_controller_hears_and_tells_with_a_delay():
    plane, log = OneFeeder(), SimulatedLog()
    world = Simulation(plane, 2, delay_s=0.25, log=log)
    world.run(3.0)
    told = [entry for entry in plane.log if entry[0] in (Directory, Weights)]
    assert told[0] == (Directory, 0.25, plane.peer)
    assert [entry[1] for entry in plane.log if entry[0] == "report"] == [1.0, 1.5, 2.0, 3.0]
    samples = log.of("sample")
    assert [entry["time"] for entry in samples] == [2.0, 3.0]
    assert samples[0]["rows_out"] == 40  # of the reports of seconds 1 and 1.5: that of second 2 is not there yet
    assert log.of("weights")[-1]["weights"] == {"0": 750, "1": 250}


def test_the_data_plane_is_never_behind_the_agenda():
    plane = OneFeeder(own=())
    Simulation(plane, 2, delay_s=0.0).run(2.0)
    reached = -inf
    for entry in plane.log:
        if entry[0] == "advance":
            reached = max(reached, entry[1])
        else:
            assert entry[1] <= reached


def test_what_never_ends_is_told_with_what_waits(monkeypatch):
    monkeypatch.setattr("evenflow.sim.simulation.MOST_AT_ONCE", 100)
    plane = OneFeeder(own=())
    world = Simulation(plane, 2)
    world.every(0.0, lambda time: None)
    with pytest.raises(SimulationError, match=r"nothing ends at 0.0 s .*: row 7 waits for worker 1"):
        world.run(1.0)
