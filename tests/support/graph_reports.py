"""What workers and feeders of a graph report, for tests of the statistics and of the placement."""

import numpy as np

from evenflow.control.events import GraphPlacing
from evenflow.control.graphs.balancing import GraphBalancing
from evenflow.control.moves.move_queue import UnitNodes
from evenflow.control.moves.movements import Movements
from evenflow.control.regions.statistics import Statistics
from evenflow.control.workers import WorkerLife
from evenflow.model import RoutingTable
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.model.latency import Latencies
from evenflow.model.messages import FlowProgress, FlowReport

FEEDERS = {21}


def shape(*nodes, sources=("a",)):
    """A graph of nodes (inputs, units), each with the rest of a NodeShape as options behind it."""
    first, made = 0, []
    for number, (inputs, units, *options) in enumerate(nodes):
        readers = tuple(reader for reader, (reads, *_) in enumerate(nodes) if number in reads)
        made.append(NodeShape(f"n{number}", "map", first, units, readers, tuple(inputs), **dict(*options)))
        first += units
    return GraphShape(tuple(sources), tuple(made))


def report(rows, seconds=1.0, **options):
    """Of one worker: by unit, rows that came, rows that went and microseconds of all of them."""
    told = np.array(list(rows.values()), np.int64).reshape(-1, 3)
    units, calls = np.array(list(rows), np.int32), np.full(len(rows), 10)
    return FlowReport("r", seconds, units, told[:, 0], told[:, 1], told[:, 2], calls, 8 * told[:, 1], **options)


def progress(arrived, latencies=(), waiting=None):
    """Of a feeder: rows by source, (bucket, rows) of results, and rows by source that wait."""
    rows = dict(latencies)
    return FlowProgress(arrived, Latencies(rows, 0.001 * sum(rows.values())), waiting or {})


class GraphRig:
    """One graph on some workers: worker w is peer 10 + w. Moves are carried out at once if `settle` is called."""

    def __init__(self, graph, placement, owners, workers=2, **options):
        self.lives = {worker: WorkerLife(10 + worker, f"h{worker}", 900 + worker) for worker in range(workers)}
        self.movements = Movements("r", RoutingTable(0, np.array([*owners, 0], np.int32)), workers=self.lives)
        self.movements.queue.nodes = UnitNodes.of(graph)
        self.statistics = Statistics(graph.units)
        self.balancing = GraphBalancing(GraphPlacing(graph, placement, **options), self.statistics, self.movements)
        self.balancing.set_workers(self.lives)
        self.time = 0.0
        self.ask()  # the first period begins

    def ask(self, feeders=FEEDERS, draining=frozenset()):
        senders = {*FEEDERS, *(life.peer for life in self.lives.values())}
        return list(self.balancing.rebalance(self.time, feeders, draining, senders))

    def period(self, reports, arrived, waiting=None, **options):
        """A second passes in which workers and feeders tell something; what the controller says then."""
        self.time += 1.0
        for worker, told in reports.items():
            self.balancing.report(worker, told)
        self.balancing.progress(self.time, 21, progress(arrived, waiting=waiting))
        return self.ask(**options)

    def settle(self):
        """Carry out all movements; gives (units, source, target) of each."""
        done = []
        while self.movements.under_way:
            number, movement = next(iter(self.movements.under_way.items()))
            done.append((movement.units, movement.source, movement.target))
            list(self.movements.installed(self.time, number, movement.target, 0, [*FEEDERS]))
        return done
