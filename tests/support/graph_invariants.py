"""What must hold of a simulated cluster with graphs when all is quiet."""

from collections import Counter, defaultdict

from evenflow.graph.nodes.ordering import OrderNode
from evenflow.runtime.worker.rows.instances import graph_of
from evenflow.state.paging.paged import Paged
from tests.support.graph_nodes import SEEN
from tests.support.graph_world import GraphWorld, merged
from tests.support.keyed_actors import Brittle
from tests.support.keyed_invariants import _check_leaks, _check_log, _check_peeks, _check_tasks, live_again, servers
from tests.support.keyed_world import Broken


def check(world):
    """Everything that must hold when all is quiet."""
    _check_tasks(world)
    for task in world.tasks:
        check_order(world, task)
    for job in world.jobs:
        _check_results(world, job)
        _check_peeks(world, job)
    _check_edges(world)
    _check_log(world)
    _check_state(world)
    _check_leaks(world)
    check_flows(world)
    check_turns(world)


def _fail(world, what):
    raise Broken(f"seed {world.seed}: {what}")


def check_order(world, task):
    """Results behind whole operators are in the order of the rows."""
    sketch = world.sketches[task.job.region]
    for endpoint, rows in world.results(task).items():
        ids, orderly = [row[0] for row in rows], sketch.streams[sketch.endpoints[endpoint]].orderly
        for source in range(sketch.sources) if orderly else ():
            mine = [number for number in ids if (number * 7919 // 13) % sketch.sources == source]
            if mine != sorted(mine):
                _fail(world, f"results of {task} at endpoint {endpoint} are out of order: {mine}")


def compare(world, who, ends, results, whole):
    """Results against what they should be: all of it if they are `whole`, and else nothing that is not in it."""
    for endpoint, wanted in enumerate(ends):
        got = Counter(results[endpoint])
        if not got <= wanted or (whole and got != wanted):
            more, less = dict(got - wanted), dict(wanted - got) if whole else "?"
            _fail(world, f"{who}: endpoint {endpoint} has {more} too many and {less} too few")


def _check_results(world, job):
    """Nothing is lost or doubled in an evaluation that ended well, and nothing doubled in the others."""
    given, results = {}, defaultdict(list)
    for task in job.tasks:
        given[task.epoch, task.partition] = task.batches
        for endpoint, rows in world.results(task).items():
            results[endpoint] += rows
    ends, _ = world.expected(job.region, [batch for batches in given.values() for batch in batches])
    clean = all(task.error is None and not task.stopped for task in job.tasks)
    compare(world, job.evaluation, ends, results, clean)


def _check_edges(world):
    """Each unit gets the rows of one task in order, if only whole operators are before it; wherever it was."""
    for region, sketch in world.sketches.items():
        for name, make, reads in sketch.nodes:
            operator, found = make(None), defaultdict(list)
            spread = operator.units - 1
            for side, (task, number, key, _) in SEEN[world.seed, region, name]:
                if sketch.streams[reads[side]].orderly and not operator.lanes:
                    found[side, task, key % spread if spread else 0].append(number)
            for (side, task, _), numbers in found.items():
                if numbers != sorted(numbers):
                    _fail(world, f"{name} got rows of {world.tasks[task]} on side {side} out of order: {numbers}")


def states(world, region):
    """By evaluation and unit of a graph: the workers that have state of it, and that."""
    found = defaultdict(list)
    plan = world.hosted_graph(region).plan
    for number, server in servers(world).items():
        known = server.regions.get(region)
        for evaluation, instance in known.instances.items() if known is not None else ():
            for node, operator in graph_of(instance)._operators.items():
                about, kept = plan.nodes[node], dict(getattr(operator, "state", {}))
                for unit in range(about.units) if isinstance(instance, Paged) else ():
                    if not instance.resident[about.first + unit]:
                        assert unit not in kept, f"unit {unit} of {about.name} is on disk and in memory"
                        state = instance.snapshot(about.first + unit)
                        kept[unit] = state.counts if isinstance(state, Brittle) else state
                for unit, state in kept.items():
                    found[evaluation, about.first + unit].append((number, about.name, state))
    return found


def _check_state(world):
    """One live copy of every unit's state, where the table says it is, and with every row in it."""
    for name, region in world.regions.items():
        owners, alive = region.movements.table.owners, set(region.evaluations.ids)
        found = states(world, name)
        for number, server in servers(world).items():
            known = server.regions.get(name)
            for gone in known.away.values() if known is not None else ():
                wrong = [unit for unit in gone.nonzero()[0].tolist() if owners[unit] == number]
                if wrong:
                    _fail(world, f"worker {number} owns units {wrong} of {name} and takes them to be away")
        for (evaluation, unit), places in found.items():
            if evaluation not in alive:
                _fail(world, f"workers {places} have state of {evaluation}, which is over")
            if [number for number, _, _ in places] != [owners[unit]]:
                _fail(world, f"{evaluation}: unit {unit} is of worker {owners[unit]} and at {places}")
        for job in world.jobs:
            if job.region == name and job.evaluation in alive:
                _check_totals(world, job, found)


def _check_totals(world, job, found):
    if job.unpersisted:
        _fail(world, f"{job.evaluation} has state, and is not persisted any more")
    if any(task.error is not None or task.stopped for task in job.tasks):
        return
    given = {(task.epoch, task.partition): task.batches for task in job.tasks}
    _, wanted = world.expected(job.region, [batch for batches in given.values() for batch in batches])
    for node, state in wanted.items():
        mine = [
            got for (evaluation, _), [(_, name, got)] in found.items() if (evaluation, name) == (job.evaluation, node)
        ]
        if merged(mine) != state:
            _fail(world, f"{job.evaluation}: {node} has {merged(mine)} in its state, not {state}")


def check_flows(world):
    """Nothing of any graph is on its way: no frames wait, no rows are held, nobody is asked, all know the owners."""
    for name, region in world.regions.items():
        if region.graph.measured._told:
            _fail(world, f"the controller takes rows of {name} to wait: {region.graph.measured._told}")
    for process in world.live():
        if process.worker.assembly.keyed is None:
            continue
        flows = process.worker.assembly.keyed.flows
        routings = flows.unit_rows.routings
        left = {
            "frames": len(flows.queue),
            "bytes": flows.queue.bytes,
            "held": {name: known for name, known in routings.items() if known.held or known.gates},
            "flushes": flows.unit_rows.flushing,
            "feeders": flows.feeders,
            "beginning": flows.beginning,
        }
        if any(left.values()):
            _fail(world, f"{process.name} keeps {left}")
        for name, known in routings.items():
            table = world.regions[name].movements.table
            if known.ways is not None and known.ways._destination.tolist() != table.owners.tolist():
                _fail(world, f"{process.name} knows other owners of {name}: {known.ways._destination}, {table.owners}")


def check_turns(world):
    """Behind ordered maps nothing is kept of tasks that are over."""
    for number, server in servers(world).items():
        for name, known in server.regions.items():
            for evaluation, instance in known.instances.items():
                orders = [each for each in graph_of(instance)._operators.values() if isinstance(each, OrderNode)]
                if any(order._next or order._held for order in orders):
                    _fail(world, f"worker {number} keeps turns of {evaluation} of {name}")


def history(seed, plan=None, sketch=None, memory=None):
    """Run one history and check it; the world, for whoever wants to look."""
    with GraphWorld(seed, plan, sketch, memory) as world:
        world.run()
        check(world)
        live_again(world)
        check(world)
    return world
