"""A graph whose results depend on the order of rows, with two endpoints: what sinks keep has to fit the state."""

from collections import Counter

from tests.support.durable_invariants import check_protocol, lead
from tests.support.graph_durable import DurableGraphWorld
from tests.support.graph_nodes import Number
from tests.support.graph_plans import Sketch
from tests.support.keyed_world import Broken


def numbering():
    """Rows numbered by key, one endpoint behind that, and one more behind a second numbering and a map."""
    made = Sketch(1)
    numbered = made.add("number", 0, units=5)
    again = made.add("number", made.add("mark", numbered), units=1)
    made.ended()
    made.endpoints = [numbered, again]
    return made


class BoundGraphWorld(DurableGraphWorld):
    """One history; a sink that skips what it has keeps the first whole evaluation of a batch, others take the last."""

    def mistakes(self, query, manifest):
        """Results that sinks may have kept of the first numbering, and that are not what the state has."""
        operators = self.loaded(manifest)._operators.values()
        first = next((each for each in operators if isinstance(each, Number) and each.units > 1), None)
        state = {key: rows for unit in first.state.values() for key, rows in unit.items()} if first is not None else {}
        wrong = []
        for epoch in range(manifest.epoch + 1):
            for task in query.bound(epoch):
                for number, key, nth in self.results(task)[0]:
                    if [row[1] for row in state.get(key, ())][nth - 1 : nth] != [number]:
                        wrong.append((epoch, number, key, nth))
        return wrong


def check(world):
    """Whole evaluations of a batch have the same results at all endpoints."""
    check_protocol(world)
    for query in world.jobs:
        for epoch in range(query.epochs):
            stages = [each for each in query.stages if each.epoch == epoch and each.kept is None]
            whole = [stage for stage in stages if stage.full and stage.through and epoch not in query.unbound]
            given = [_given(world, stage) for stage in whole]
            if any(each != given[0] for each in given):
                raise Broken(f"seed {world.seed}: whole evaluations of batch {epoch} of {query.name} differ: {given}")


def _given(world, stage):
    found = [Counter(), Counter()]
    for task in stage.latest:
        for endpoint, rows in world.results(task).items():
            found[endpoint].update(rows)
    return found


def history(seed, plan=None):
    """Run one history and check it; the world, for whoever wants to look."""
    with BoundGraphWorld(seed, plan, numbering()) as world:
        lead(world, check)
    return world
