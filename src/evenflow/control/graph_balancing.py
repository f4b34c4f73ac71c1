"""Measures a graph and places its operators: statistics to a problem, the placement's answer to moves of units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from evenflow.control.events import GraphPlacing, Instruction, Peer
from evenflow.control.movement import Movements
from evenflow.control.statistics import Statistics
from evenflow.control.workers import Site
from evenflow.model.messages import FlowReport


class GraphBalancing:
    """The placement of one graph."""

    def __init__(self, placing: GraphPlacing, statistics: Statistics, movements: Movements) -> None:
        self.shape, self.placement = placing.shape, placing.placement
        self._placing = placing
        self._statistics, self._movements = statistics, movements

    def set_workers(self, sites: Mapping[int, Site]) -> None:
        """Set the live workers."""

    def report(self, worker: int, message: FlowReport) -> None:
        """Take in what a worker's units did."""

    def first_owners(self, live: Sequence[int]) -> npt.NDArray[np.int32]:
        """Where units are before anything is known: whole operators in turn, units of spread ones in turn."""
        owners = np.zeros(self.shape.units, np.int32)
        turn = 0
        for node in self.shape.nodes:
            places = np.arange(node.units) + (turn if node.whole else 0)
            owners[node.first : node.first + node.units] = np.asarray(live, np.int32)[places % len(live)]
            turn += node.whole
        owners[-1] = live[0]
        return owners

    def rebalance(
        self, time: float, feeders: Set[Peer], draining: Set[Peer], senders: Set[Peer]
    ) -> Iterator[Instruction]:
        """Ask the placement, and begin the moves that it wants."""
        yield from ()
