"""What must hold of a simulated cluster with a checkpoint."""

import re

from evenflow.control.batches.epochs import LATE
from evenflow.errors import ClusterStopped, StateLost, StoreError
from evenflow.runtime.driver.manifests import KEPT
from evenflow.state.checkpoint.manifest import epochs, read_manifest
from evenflow.state.store.blob_names import MOVES, epoch_name, parse, prefix_of
from tests.support.durable_world import DurableWorld
from tests.support.keyed_actors import Killed
from tests.support.keyed_invariants import _check_leaks, _check_log
from tests.support.keyed_world import KEYS, Broken

REASONS = re.compile(
    r"was lost( \(.*\))?, and with it (the|rows and) state of|lost worker .* and the state it held"
    r"|broke off|is here again|is older than the state in the checkpoint"
    r"|is being evaluated by stage|the query was started anew|another attempt at its batch has begun"
    r"|is started without operator '\w+', which has state"
    r"|could be neither moved nor taken back|on purpose|are lost: |together with new ones they make no sense"
)
"""Why a task may be refused."""


def check(world):
    """Everything that must hold when all is quiet."""
    check_protocol(world)
    for query in world.jobs:
        for stage in query.stages:
            _check_stage(world, stage)
        _check_state(world, query)


def check_protocol(world):
    """What must hold whatever the operators do."""
    for task in world.tasks:
        _check_task(world, task)
    _check_log(world)
    _check_leaks(world)
    for log in world.logs:
        for entry in log:
            if entry["event"] in ("controller-error", "region-failed", "balance-failed", "peer-refused"):
                raise Broken(f"seed {world.seed}: {entry}")
    for name, region in world.regions.items():
        if region.waiting:
            raise Broken(f"seed {world.seed}: {name} keeps {region.waiting}")


def _check_task(world, task):
    allowed = (StateLost, Killed, StoreError) if world.harm else ()
    allowed += (ClusterStopped,) if world.harm & {"cut", "driver"} else ()
    if task.error is None:
        return
    if not isinstance(task.error, allowed):
        raise Broken(f"seed {world.seed}: {task} failed with {task.error!r}") from task.error
    if isinstance(task.error, StateLost | StoreError) and not (
        REASONS.search(str(task.error)) or world.losses.explain(task)
    ):
        raise Broken(f"seed {world.seed}: {task} was refused: {task.error}") from task.error


def _check_stage(world, stage):
    """An evaluation starts from the end of the batch before, and counts each row once, in order.

    One that repeats another may give rows to other tasks, but to each task as many as it has.
    """
    query = stage.query
    before, rows = query.counts(stage.epoch - 1), query.keys(stage.epoch)
    seen = {}
    first = stage is next(each for each in query.stages if each.epoch == stage.epoch)
    own = query.ordered or first
    for task in stage.tasks:
        got = task.rows()
        ids = [row for row, _, _ in got]
        if task.error is None and (sorted(ids) != task.input_ids if own else len(ids) != len(task.input_ids)):
            raise Broken(f"seed {world.seed}: {task} of {stage} gave rows {ids} for {task.input_ids}")
        if query.ordered and ids != task.input_ids[: len(ids)]:
            raise Broken(f"seed {world.seed}: {task} of {stage} is to be ordered and gave {ids}")
        last = {}
        for row, key, nth in got:
            if (first and (row, nth) < last.get(key, (-1, -1))) or (
                (first or not own) and nth < last.get(key, (-1, -1))[1]
            ):
                raise Broken(f"seed {world.seed}: rows of key {key} of {task} of {stage} changed their order")
            last[key] = (row, nth)
            if not before[key] < nth <= before[key] + len(rows[key]):
                raise Broken(
                    f"seed {world.seed}: {task} of {stage} counted row {row} of key {key} as number {nth}; before the "
                    f"batch there were {before[key]}, and it has {len(rows[key])}"
                )
            seen.setdefault((key, nth), set()).add(row)
    doubled = {what: found for what, found in seen.items() if len(found) > 1}
    if doubled:
        raise Broken(f"seed {world.seed}: in {stage} different rows have one number: {doubled}")
    if stage.through and stage.full:
        for key, given in rows.items():
            numbers = sorted(nth for which, nth in seen if which == key)
            if numbers != list(range(before[key] + 1, before[key] + len(given) + 1)):
                raise Broken(f"seed {world.seed}: {stage} counted key {key} {numbers} after {before[key]}")


def whole_batch(world, query):
    """The batch at whose end the state is that workers have; None if they do not have such a state."""
    epochs = world.regions[query.region].evaluations.stored.get(query.evaluation)
    if epochs is None or not epochs.stateful:
        return None
    if epochs.held is None or epochs.attempt is None or not epochs.attempt.whole:
        return None
    stage = next((stage for stage in query.stages if f"{stage.number}" == epochs.attempt.stage), None)
    if epochs.held != (epochs.epoch, epochs.attempt.number) or stage is None or not (stage.full and stage.through):
        return None
    return epochs.epoch


def _check_state(world, query):
    """If workers have the state at the end of the last batch, it is that, and each unit is at one place."""
    epoch, found = whole_batch(world, query), {}
    if epoch is None:
        return
    for process in world.live():
        keyed = process.worker.assembly.keyed
        known = keyed.server.regions.get(query.region) if keyed is not None else None
        copy = known.instances.get(query.evaluation) if known is not None else None
        for counts in copy.counts.values() if copy is not None else ():
            if found.keys() & counts.keys():
                raise Broken(
                    f"seed {world.seed}: {process.name} has keys {counts} of {query.name} that others have too"
                )
            found |= counts
    wrong = query.mistakes(found, epoch)
    if wrong:
        raise Broken(f"seed {world.seed}: workers have of {query.name}, batch {epoch}: {wrong}")


def check_moves(world):
    """If nobody died, nothing is left of movements in the store but what is about to be deleted."""
    left = [name for name in world.store.blobs if name.startswith(MOVES)]
    transfers = [process.worker.assembly.store_transfer for process in world.live()]
    if len(left) > sum(store_transfer.undone for store_transfer in transfers if store_transfer is not None):
        raise Broken(f"seed {world.seed}: movements are left in the store: {left}")


def check_blobs(world):
    """Nothing is in the store that nobody needs, and what is needed is bounded."""
    world.store.sound = True
    for query in world.jobs:
        prefix = prefix_of(query.region, query.name)
        kept = epochs(world.store, prefix)
        manifests = [read_manifest(world.store, epoch_name(prefix, epoch)) for epoch in kept]
        if len(kept) > KEPT:
            raise Broken(f"seed {world.seed}: there are manifests of batches {kept}")
        if len(manifests[0].logs) > world.limits.cycle + 4 and world.limits.slice_bytes > 1000:
            raise Broken(
                f"seed {world.seed}: {len(manifests[0].logs)} logs are needed, and CYCLE is {world.limits.cycle}"
            )
        needed = {name for manifest in manifests for name in manifest.blobs()}
        for name, _ in world.store.names(prefix):
            parsed = parse(name)
            if parsed.kind != "epoch" and parsed.epoch < manifests[0].epoch - LATE and name not in needed:
                raise Broken(f"seed {world.seed}: nobody needs {name}; manifests are of {kept}")
    world.store.sound = False


def go_on(world, batches):
    """Some batches more, with all keys in each, and nothing goes wrong."""
    world.be_calm()
    before = len(world.tasks)
    for query in world.jobs:
        for epoch in range(query.epochs, query.epochs + batches):
            pieces = [list(range(piece, KEYS, query.partitions)) for piece in range(query.partitions)]
            query.data[epoch] = [world.some_batches(keys) for keys in pieces]
        query.epochs += batches
        query.actions = None
    world.run()
    found = {task.stage for task in world.tasks[before:] if world.losses.explain(task)}  # lost before, noticed only now
    for task in world.tasks[before:]:
        if task.error is not None and task.stage not in found:
            raise Broken(f"seed {world.seed}: {task} failed after all was calm: {task.error!r}") from task.error


def history(seed, plan=None):
    """Run one history and check it; the world, for whoever wants to look."""
    with DurableWorld(seed, plan) as world:
        lead(world, check)
    return world


def lead(world, check):
    """Run a history, and some batches more with the same and with another driver."""
    world.run()
    check(world)
    if not world.harm:
        check_moves(world)
    harm = world.harm
    go_on(world, 1)
    world.harm = harm
    check(world)
    world.kill_driver()
    go_on(world, world.limits.cycle + 4)
    world.harm = harm | {"driver"}
    check(world)
    check_blobs(world)
