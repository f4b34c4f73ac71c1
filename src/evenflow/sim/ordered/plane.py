"""A simulated ordered region: feeders and workers that speak with the controller as the live ones do.

What is not in it: workers that are lost, and the copies of overdue frames that live feeders send under credits.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from evenflow.control.events import FeederJoinedEvent, Peer, PeerLeftEvent, RegionOpenedEvent
from evenflow.model.messages import ConnectionCounts, Directory, FeederReport, ToFeeder, ToWorker, Weights
from evenflow.policy.ordered.balance import Balance
from evenflow.sim.ordered.core import advance, split_all, wait_for
from evenflow.sim.ordered.routes import earn
from evenflow.sim.ordered.scene import OrderedScene
from evenflow.sim.ordered.state import CREDITS, SPLITTINGS, ordered_state
from evenflow.sim.simulation import Simulation

REPORTED = ("blocked_s", "rows_sent", "frames_sent", "rows_done", "frames_done", "busy_s", "under_way_s")
LEAD = 4
"""Feeders report so many message delays before the controller's tick, so that it decides by what is true then."""


class OrderedPlane:
    """The data plane of one ordered region with one balance; a `DataPlane` of the simulation."""

    def __init__(self, scene: OrderedScene, balance: Balance, region: str = "region") -> None:
        self.scene, self.balance, self.region = scene, balance, region
        self.state = ordered_state(scene, SPLITTINGS[balance.splitting])
        self.peers: dict[Peer, int] = {}
        """Feeders by peer; those that have finished are gone."""
        self._reported = [np.zeros((len(REPORTED), scene.workers)) for _ in range(scene.feeders)]
        self._rows = np.zeros((scene.feeders, 3), np.int64)
        """Rows out, frames rerouted and rows in as last reported."""
        self._since = np.zeros(scene.feeders)

    @property
    def rows_out(self) -> int:
        """Rows that have left the mergers."""
        return int(self.state.splitters["rows_out"].sum())

    @property
    def served(self) -> int:
        """Rows that have left the mergers."""
        return self.rows_out

    @property
    def ended(self) -> bool:
        """Whether all feeders have finished and left."""
        return not self.peers

    @property
    def rerouted(self) -> int:
        """Frames that did not go to the worker whose turn it was."""
        return int(self.state.splitters["rerouted"].sum())

    @property
    def finished_s(self) -> float:
        """When the last row of all feeders left; infinite before."""
        return float(self.state.splitters["finished"].max())

    # -- what a simulation wants of its data plane

    def begin(self, world: Simulation) -> None:
        """Open the region, and let the feeders join and report."""
        self._world = world
        world.open(RegionOpenedEvent(0.0, self.region, "function", self.balance))
        for feeder in range(self.scene.feeders):
            peer = world.feeder()
            self.peers[peer] = feeder
            world.handle(FeederJoinedEvent(0.0, peer, self.region, partition=feeder))
        lead = min(LEAD * world.delay_s, world.period_s / 2)
        world.every(world.period_s, self._report_all, first=world.period_s - lead)

    def advance(self, until: float) -> float:
        """Let rows flow; feeders that have finished say so and leave."""
        reached = float(advance(self.state, until))
        for peer, feeder in list(self.peers.items()):
            if self.state.splitters[feeder]["finished"] <= reached:
                self._report(reached, peer, feeder)
                del self.peers[peer]
                self._world.at(reached + self._world.delay_s, partial(self._leave, peer))
        return reached

    def told(self, time: float, peer: Peer, message: ToWorker | ToFeeder) -> None:
        """Let a feeder obey its weights."""
        feeder = self.peers.get(peer)
        if feeder is None or not isinstance(message, Directory | Weights):
            return
        weights = [message.weights.get(worker, 0) for worker in range(self.scene.workers)]
        self.state.links[feeder]["weight"] = weights if any(weights) else 1
        splitters = self.state.splitters
        if not splitters[feeder]["joined"]:
            splitters[feeder]["joined"] = True
            if self.state.costs[0]["splitting"] == CREDITS:  # workers of unknown speed get one frame until they answer
                self.state.links[feeder]["depth"] = 1
                for worker in range(self.scene.workers):
                    earn(self.state, feeder, worker, 1)
            splitters[feeder]["woken"] = True
            split_all(self.state, time)

    def stuck(self) -> str:
        """Which splitters and workers wait for whom, if nothing can happen any more."""
        state, ring = self.state, int(self.state.costs[0]["ring"])
        if state.heap.counts[0] or np.isfinite(state.hosts["due"]).any() or not self.peers:
            return ""
        waits = []
        for feeder in self.peers.values():
            if not state.splitters[feeder]["joined"]:
                waits.append(f"feeder {feeder} waits for the controller to tell it the workers")
                continue
            head = int(state.splitters[feeder]["head"])
            owner = int(state.frames[feeder * ring + head % ring]["owner"])
            waits.append(f"the merger of feeder {feeder} waits for frame {head}, which worker {owner} has")
        for worker in np.flatnonzero(state.servers["stalled"] >= 0).tolist():
            feeder = int(state.servers[worker]["stalled"]) // ring
            waits.append(f"worker {worker} waits for room in the merger of feeder {feeder}")
        return "; ".join(waits)

    # -- reports

    def _report_all(self, time: float) -> None:
        for peer, feeder in self.peers.items():
            if self.state.splitters[feeder]["joined"]:
                self._report(time, peer, feeder)

    def _report(self, time: float, peer: Peer, feeder: int) -> None:
        """Say what a feeder has done since its last report."""
        state, links, splitters = self.state, self.state.links, self.state.splitters
        wait_for(state, feeder, int(splitters[feeder]["waits"]), time)
        links[feeder]["under_way_s"] += links[feeder]["under_way"] * (time - links[feeder]["counted"])
        links[feeder]["counted"] = time
        counts = np.array([links[name][feeder] for name in REPORTED], np.float64)
        rows = np.array([splitters[feeder]["rows_out"], splitters[feeder]["rerouted"], splitters[feeder]["row"]])
        news, (rows_out, rerouted, rows_in) = counts - self._reported[feeder], rows - self._rows[feeder]
        connections = {worker: _counts(news[:, worker].tolist()) for worker in range(self.scene.workers)}
        overhead = float(splitters[feeder]["overhead"])
        report = FeederReport(
            time - float(self._since[feeder]),
            int(rows_out),
            connections,
            rerouted=int(rerouted),
            overhead=None if overhead < 0.0 else overhead,
            rows_in=int(rows_in),
        )
        self._reported[feeder], self._rows[feeder], self._since[feeder] = counts, rows, time
        self._world.say(time, peer, report)

    def _leave(self, peer: Peer, time: float) -> None:
        self._world.handle(PeerLeftEvent(time, peer, "all rows are through"))


def _counts(news: list[float]) -> ConnectionCounts:
    blocked_s, rows_sent, frames_sent, rows_done, frames_done, busy_s, under_way_s = news
    return ConnectionCounts(
        blocked_s=blocked_s,
        rows_sent=int(rows_sent),
        frames_sent=int(frames_sent),
        rows_done=int(rows_done),
        frames_done=int(frames_done),
        busy_s=busy_s,
        incarnation=1,
        under_way_s=under_way_s,
    )
