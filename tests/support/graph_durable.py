"""Graphs in the simulated cluster with a checkpoint: batches exactly once, and state that is loaded as it was."""

from collections import Counter

from evenflow.runtime.driver.operator_names import Kept
from tests.support.durable_invariants import check_protocol, lead, whole_batch
from tests.support.durable_world import DurableWorld
from tests.support.graph_invariants import check_flows, check_order, check_turns, compare, states
from tests.support.graph_nodes import Stateful
from tests.support.graph_world import Graphs, merged
from tests.support.keyed_world import Broken


class DurableGraphWorld(Graphs, DurableWorld):
    """One history with a store, which is asked for each frame of every node with state: it takes long."""

    drain_s = 4000.0
    patience = 120_000

    def _durable(self):
        return True, self.plan.transfer

    def hosted_graph(self, name):
        hosted = super().hosted_graph(name)
        self.given = self.sketches[name]  # whatever the graph is called later
        return hosted

    def _keep(self, name, hosted):
        self.checkpoint_thread.add(name, Kept("graph", hosted.units))

    def say_what_it_was(self):
        if self.was is not None:
            self.checkpoint_thread.add(self.called, Kept("graph", self.hosted.units, was=self.was))

    def be_calm(self):
        super().be_calm()
        self.windows = self.windows[-1:]  # else each row would wait for the store, one after the other

    @property
    def hosted(self):
        return self.hosted_graph(self.called)

    def batches(self, query, epoch):
        """The rows of a query up to the end of a batch."""
        return [each for number, parts in query.data.items() if number <= epoch for part in parts for each in part]

    def mistakes(self, query, manifest):
        operators = [each for each in self.loaded(manifest)._operators.values() if isinstance(each, Stateful)]
        found = {each.name: merged(each.state.values()) for each in operators}
        return self.differences(query, found, manifest.epoch) | self._disordered(query, operators)

    def _disordered(self, query, operators):
        """Keys of nodes to which rows came in order, and which keep them in another one."""
        sketch = self.sketches[query.region]
        orderly = {name for name, _, reads in sketch.nodes if all(sketch.streams[each].orderly for each in reads)}
        origin = {
            row: (epoch, piece)
            for epoch, parts in query.data.items()
            for piece, batches in enumerate(parts)
            for batch in batches
            for row in batch.column(0).to_pylist()
        }
        wrong = {}
        for operator in operators:
            for state in operator.state.values() if operator.name in orderly else ():
                for key, rows in state.items():
                    for side in {row[0] for row in rows}:
                        if not _in_order([row[1] for row in rows if row[0] == side], origin):
                            wrong[operator.name, key] = rows
        return wrong

    def differences(self, query, found, epoch):
        """What state is not as it should be at the end of a batch."""
        _, wanted = self.expected(query.region, self.batches(query, epoch))
        return {name: (found.get(name, {}), state) for name, state in wanted.items() if found.get(name, {}) != state}


def _in_order(ids, origin):
    parts = {}
    for number in ids:
        parts.setdefault(origin[number], []).append(number)
    batches = [origin[number][0] for number in ids]
    return batches == sorted(batches) and all(part == sorted(part) for part in parts.values())


def check(world):
    """Everything that must hold when all is quiet."""
    check_protocol(world)
    for query in world.jobs:
        for stage in query.stages:
            _check_stage(world, stage)
            for task in stage.tasks if _first(stage) else ():  # one that repeats gives rows of other partitions
                check_order(world, task)
        _check_state(world, query)
    check_flows(world)
    check_turns(world)


def _first(stage):
    """Whether a stage is the first of its batch: later ones may repeat it."""
    return stage is next(each for each in stage.query.stages if each.epoch == stage.epoch)


def _check_stage(world, stage):
    """An evaluation starts from the end of the batch before: it gives what its rows give behind that, once.

    One that repeats another may give the results of rows to other tasks, and in part those of any rows.
    """
    query = stage.query
    before = world.batches(query, stage.epoch - 1)
    pieces = world.rows_of(query, stage.epoch)
    through = stage.through and stage.kept is None and (_first(stage) or stage.full)
    numbers = stage.partitions if through else range(stage.count)
    rows = [batch for number in numbers for piece in pieces[number :: stage.count] for batch in piece]
    earlier, _ = world.expected(query.region, before)
    later, _ = world.expected(query.region, before + rows)
    wanted = [more - less for more, less in zip(later, earlier, strict=True)]
    for task in stage.tasks:
        compare(world, f"{task} of {stage}", wanted, world.results(task), whole=False)
    if through:
        results = [Counter() for _ in wanted]
        for task in stage.latest:
            for endpoint, given in world.results(task).items():
                results[endpoint].update(given)
        compare(world, stage, wanted, results, whole=True)


def _check_state(world, query):
    """If workers have the state at the end of the last batch, it is that, and each unit is at one place."""
    epoch = whole_batch(world, query)
    if epoch is None:
        return
    found = {}
    for (evaluation, unit), places in states(world, query.region).items():
        if evaluation == query.evaluation:
            if len(places) > 1:
                raise Broken(f"seed {world.seed}: unit {unit} of {query.name} is at {places}")
            found.setdefault(places[0][1], []).append(places[0][2])
    wrong = world.differences(query, {name: merged(units) for name, units in found.items()}, epoch)
    if wrong:
        raise Broken(f"seed {world.seed}: workers have of {query.name}, batch {epoch}: {wrong}")


def history(seed, plan=None, sketch=None, memory=None):
    """Run one history and check it; the world, for whoever wants to look."""
    with DurableGraphWorld(seed, plan, sketch, memory) as world:
        lead(world, check)
    return world
