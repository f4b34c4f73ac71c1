"""What must hold of a simulated cluster when all is quiet."""

from collections import defaultdict

import numpy as np

from evenflow.errors import ClusterStopped, StateLost
from evenflow.state.paging.paged import Paged
from tests.support.keyed_actors import Killed
from tests.support.keyed_plan import Task
from tests.support.keyed_world import KEYS, Broken, World


def check(world):
    """Everything that must hold when all is quiet."""
    _check_tasks(world)
    _check_results(world)
    _check_log(world)
    _check_state(world)
    _check_leaks(world)


def _fail(world, what):
    raise Broken(f"seed {world.seed}: {what}")


def _check_tasks(world):
    for task in world.tasks:
        allowed = (StateLost, Killed) if world.harm else ()
        allowed += (ClusterStopped,) if "cut" in world.harm else ()
        if task.error is not None and not isinstance(task.error, allowed):
            raise Broken(f"seed {world.seed}: {task} failed with {task.error!r}") from task.error


def _check_results(world):
    for task in world.tasks:
        ids = [row[0] for row in task.rows()]
        if task.error is None and not task.stopped and sorted(ids) != task.input_ids:
            _fail(world, f"{task} gave rows {ids} for {task.input_ids}")
        if task.job.ordered and ids != task.input_ids[: len(ids)]:
            _fail(world, f"{task} is to be ordered and gave {ids} for {task.input_ids}")
        by_key = defaultdict(list)
        for row, key, nth in task.rows():
            by_key[key].append((row, nth))
        for key, got in by_key.items():
            if got != sorted(got) or [nth for _, nth in got] != sorted(nth for _, nth in got):
                _fail(world, f"rows of key {key} of {task} changed their order: {got}")
    for job in world.jobs:
        _check_counts(world, job)
        _check_peeks(world, job)


def _check_counts(world, job):
    """Of each key every number at most once; and where nothing failed, all of them."""
    seen, given = defaultdict(list), defaultdict(set)
    for task in job.tasks:
        for batch in task.batches:
            for row, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                given[key].add(row)
        for _, key, nth in task.rows():
            seen[key].append(nth)
    clean = all(task.error is None and not task.stopped for task in job.tasks)
    for key, rows in given.items():
        numbers = sorted(seen[key])
        if len(set(numbers)) < len(numbers) or (numbers and numbers[-1] > len(rows)):
            _fail(world, f"{job.evaluation}: key {key} of {len(rows)} rows was counted {numbers}")
        if clean and numbers != list(range(1, len(rows) + 1)):
            _fail(world, f"{job.evaluation}: key {key} of {len(rows)} rows was counted {numbers}")


def _check_peeks(world, job):
    """A query does not go on from a batch of which only some partitions were evaluated."""
    for epoch, partitions in job.peeked.items():
        seen = {task.partition for task in job.tasks if task.epoch == epoch}
        later = [task for task in job.tasks if task.epoch > epoch and task.rows()]
        if len(seen) < partitions and later:
            _fail(world, f"{later[0]} has results, though of batch {epoch} only {sorted(seen)} were evaluated")


def _check_log(world):
    begun, over = set(), set()
    for entry in world.log:
        match entry["event"]:
            case "move":
                begun.add((entry["region"], entry["move"]))
            case "moved":
                over.add((entry["region"], entry["move"]))
            case "move-undone" | "move-refused" | "evaluation-ended" | "evaluation-stopped":
                over.add((entry["region"], entry.get("move")))
                if not entry["why"]:
                    _fail(world, f"no reason in {entry}")
            case "balance-failed" | "controller-error" | "region-failed" | "peer-refused":
                _fail(world, f"{entry}")
    ended = {entry["region"] for entry in world.log if entry["event"] in ("evaluation-ended", "evaluation-stopped")}
    if any(region not in ended for region, _ in begun - over):
        _fail(world, f"movements {begun - over} have no end in the log")


def servers(world):
    return {p.number: p.worker.assembly.keyed.server for p in world.live() if p.worker.assembly.keyed is not None}


def _check_state(world):
    """One live copy of every unit's state, where the table says it is, and with every row in it."""
    for name, region in world.regions.items():
        owners = region.movements.table.owners
        alive = set(region.evaluations.ids)
        found = defaultdict(list)
        for number, server in servers(world).items():
            known = server.regions.get(name)
            if known is None:
                continue
            for gone in known.away.values():
                wrong = [unit for unit in gone.nonzero()[0].tolist() if owners[unit] == number]
                if wrong:
                    _fail(world, f"worker {number} owns units {wrong} of {name} and takes them to be away")
            for evaluation, copy in known.instances.items():
                if evaluation not in alive:
                    _fail(world, f"worker {number} has state of {evaluation}, which is over")
                for unit, counts in counts_of(copy).items():
                    found[evaluation, unit].append((number, sum(counts.values())))
        for (evaluation, unit), places in found.items():
            if [number for number, _ in places] != [owners[unit]]:
                _fail(world, f"{evaluation}: unit {unit} is of worker {owners[unit]} and at {places}")
        _check_totals(world, name, alive, found)


def counts_of(copy):
    """By unit, how often an `Nth` has counted each key, wherever its state is."""
    if not isinstance(copy, Paged):
        return copy.counts
    assert not copy.pending_rows
    on_disk = np.flatnonzero(~copy.resident).tolist()
    assert not set(on_disk) & set(copy.operator.counts)
    return copy.operator.counts | {unit: copy.snapshot(unit)[0] for unit in on_disk}


def _check_totals(world, name, alive, found):
    for job in world.jobs:
        if job.region != name or job.evaluation not in alive:
            continue
        if job.unpersisted:
            _fail(world, f"{job.evaluation} has state, and is not persisted any more")
        if all(task.error is None and not task.stopped for task in job.tasks):
            rows = sum(len(task.input_ids) for task in job.tasks)
            held = sum(n for (evaluation, _), [(_, n)] in found.items() if evaluation == job.evaluation)
            if held != rows:
                _fail(world, f"{job.evaluation} has {held} of {rows} rows in its state")


def _check_leaks(world):
    for number, server in servers(world).items():
        for name in ("leaving", "markers", "arrived"):
            if getattr(server.mover.movements, name):
                _fail(world, f"worker {number} keeps {name} {getattr(server.mover.movements, name)}")
        if any(known.feeders for known in server.regions.values()):
            _fail(world, f"worker {number} thinks that feeders are there")
    for process in world.live():
        if not process.worker.assembly.direct_transfer.idle:
            _fail(world, f"the direct transfer of {process.name} keeps something")
    controller = world.controller
    left = (controller.feeders, *(r.feeders for r in world.regions.values()))
    if any(left) or any(region.begun for region in world.regions.values()):
        _fail(world, f"the controller keeps feeders: {left}")


def live_again(world):
    """What comes after works: the streaming queries that go on, and fresh state."""
    harm, world.harm = world.harm, set()
    before = len(world.tasks)
    for job in world.jobs:
        goes_on = job.streaming and job.reads != "peek" and not job.failed
        if goes_on and job.evaluation in world.regions[job.region].evaluations.ids:
            job.epochs += 1
    for region in world.regions:
        fresh = world.start_job(region, streaming=False, partitions=1)
        fresh.epoch = 1
        world.start_task(Task(fresh, 0, 0, 0, world.some_batches(list(range(KEYS)) * 2)))
    world.run()
    for task in world.tasks[before:]:
        if task.error is not None:
            raise Broken(f"seed {world.seed}: {task} failed after all was calm: {task.error!r}") from task.error
    world.harm = harm


def history(seed, plan=None, memory=None):
    """Run one history and check it; the world, for whoever wants to look."""
    world = World(seed, plan)
    world.memory = memory
    with world:
        world.run()
        check(world)
        live_again(world)
        check(world)
    return world
