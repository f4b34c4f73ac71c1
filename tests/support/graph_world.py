"""The simulated cluster of `keyed_world` with graphs: real controller, workers and feeders, small random graphs.

Units of all nodes move all the time. A stub stands in for the placement: it wants random moves.
"""

import pickle
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import numpy as np

from evenflow.control.events import GraphPlacing, RegionOpenedEvent
from evenflow.control.graphs import region as graph_region
from evenflow.control.graphs.balancing import GraphBalancing
from evenflow.graph.hosted import HostedGraph
from evenflow.graph.reference import evaluate
from evenflow.policy import Hash
from evenflow.runtime.cluster.plans.graph_plan import shape_of
from evenflow.runtime.feeder.graph.feed import GraphFeed
from evenflow.runtime.feeder.graph.feeder import GraphFeeder
from tests.support.graph_nodes import SEEN, Stateful
from tests.support.graph_plans import Sketch
from tests.support.keyed_world import World


class StubPlacement(GraphBalancing):
    """Measures as it should, and wants random moves, some of them impossible."""

    world = None
    """The world that is open: there is one at a time."""

    def first_owners(self, live):
        return np.array([live[number * 5 % 7 % len(live)] for number in range(self.shape.units)], np.int32)

    def rebalance(self, time, _feeders, _draining, senders):
        world, movements = self.world, self._movements
        if world.faulty and world.rng.random() <= world.plan.moving:
            for _ in range(world.rng.randint(1, 3)):
                yield from movements.ask(time, world.some_move(movements.region, movements.table), {}, senders)


class Graphs:
    """What a world of graphs has that others have not; comes before the world in the list of bases."""

    patience = 60_000
    windows = ((1, 1000), (10, 10_000), (1000, 300), (1000, 100_000))
    """Rows and bytes that may be under way."""

    def __init__(self, seed, plan=None, sketch=None, memory=None):
        super().__init__(seed, plan)
        self.memory = memory
        self.turn_s, self._late_s = (1e-8 if seed % 2 else 1.0), 0.0
        """In every other history, time passes now and then while a worker serves a frame, so that it is put off."""
        self.given = sketch
        """The graph of all regions, if it is not drawn."""

    def __enter__(self):
        self.sketches = {}
        """By region."""
        StubPlacement.world = self
        self._stub = mock.patch.object(graph_region, "GraphBalancing", StubPlacement)
        self._stub.start()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._stub.stop()
        for place in [place for place in SEEN if place[0] == self.seed]:
            del SEEN[place]

    def _worker_now(self):
        self._late_s += self.keys.choice((0.0, 1e-8))
        return self.now + self._late_s

    # -- regions

    def _open_region(self, name):
        hosted = self.hosted_graph(name)
        placing = GraphPlacing(shape_of(hosted.plan), SimpleNamespace(name="stub"))
        self.driver.lend(f"op-{name}", pickle.dumps(hosted))
        self._keep(name, hosted)
        about = (f"op-{name}", Hash(), hosted.units, *self._durable())
        self.driver.handle(RegionOpenedEvent(self.now, name, *about, graph=placing))

    def hosted_graph(self, name):
        """The graph of a region, drawn when it is asked for first."""
        if name not in self.sketches:
            fails = self.fails if self.plan.fails is not None else lambda _units: None
            self.sketches[name] = self.given or Sketch.drawn(self.rng, fails)
        return HostedGraph(self.sketches[name].plan((self.seed, name)))

    def _durable(self):
        return ()

    def _keep(self, name, hosted):
        pass

    # -- tasks

    def _feed(self, job, mark):
        rows, size = self.rng.choice(self.windows)
        plan = self.sketches[job.region].plan()
        of = (self.settings, job.region, f"op-{job.region}", plan, job.streaming, mark, True, rows, size)
        return GraphFeed(*of)

    def _frame_size(self, *args):
        size = super()._frame_size(*args)
        size.settled = lambda *_: True  # so that many frames of a feeder are under way
        return size

    def _feeder(self, feed):
        return GraphFeeder(feed, self.environment)

    def _given(self, task):
        sketch = self.sketches[task.job.region]
        for batch in task.batches:
            yield sketch.spark_rows(batch, self.tasks.index(task), task.partition)

    def results(self, task):
        """By endpoint, the rows that a task gave, without the task they are of."""
        found = {number: [] for number in range(len(self.sketches[task.job.region].endpoints))}
        for batch in task.results:
            for endpoint, *rows in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found[endpoint].append(tuple(rows[endpoint].values())[1:])
        return found

    def expected(self, region, batches):
        """What the plain evaluation of some batches gives at each endpoint, and the state of each node after it."""
        sketch = self.sketches[region]
        plan = sketch.plan()
        inputs = [(plan.sources[source], rows) for batch in batches for source, rows in sketch.source_rows(batch)]
        given = evaluate(plan, inputs)
        ends = [Counter(tuple(row.values())[1:] for row in given[end.name].to_pylist()) for end in plan.endpoints]
        kept = {node.name: node.operator.latest.state for node in plan.nodes if isinstance(node.operator, Stateful)}
        return ends, {name: merged(state.values()) for name, state in kept.items()}


def merged(units):
    """By key, the rows that some units keep, in no order."""
    found = {}
    for unit in units:
        for key, rows in unit.items():
            found.setdefault(key, Counter()).update(rows)
    return found


class GraphWorld(Graphs, World):
    """One history without a store."""
