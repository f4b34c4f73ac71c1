"""The epochs of one query: which attempt at each batch counts, what of it is durable, and what state to start from.

Every evaluation of batch n is an attempt: one Spark stage, started from the state at the end of batch n-1. A task whose
rows are durable says which segments of the workers' logs hold them (`through`). Spark may evaluate a batch more than
once, wholly or in part: after a failure, or for a second action in `foreachBatch`. That batch n+1 comes is the proof
that Spark has done with batch n. Then one attempt at n is chosen: not poisoned, all its tasks through, and with the
tasks of every other attempt. Its log, after the logs and snapshots of the batches before, is the state at the end of n.

    state(n) = for each unit its newest snapshot, of batch s <= n, and its rows in the logs of batches s+1 ... n
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from evenflow.control.attempts import Attempt, Base, Log, Saved, SavedUnits, TaskThrough
from evenflow.control.events import FeederJoined, Peer

LATE = 1
"""A report of a snapshot older than this many batches before the settled one is not taken: the vault may delete it."""

Marks = npt.NDArray[np.bool_]


class Epochs:
    """One query's use of one keyed operator, with a store."""

    def __init__(self, units: int, saved: Saved | None = None) -> None:
        self.epoch = -1
        self.attempts: list[Attempt] = []
        """Those of the present batch."""
        self.held: tuple[int, int] | None = (-1, 0)
        """The batch and attempt whose state workers have in memory; None if it is not whole."""
        self.stateful = False
        """Whether any of that may have rows in it."""
        self.loading: set[int] = set()
        """Workers that are loading the state to start from."""
        self.loads = 0
        """How often state was to be loaded: reports about earlier times do not count."""
        self.target: tuple[int, int] = (-1, 0)
        """The batch and attempt whose state is being loaded."""
        self.dropped: set[Peer] = set()
        """Feeders of attempts that were given up for a newer one, and have not been told."""
        self.settled = False
        """Whether a batch was settled that the store has not been told of."""
        self.broken: list[TaskThrough] = []
        """Tasks of attempts that cannot count, as far as the store has not been told."""
        self._units = units
        self._logs: list[Log] = []
        self._snapshots: dict[str, SavedUnits] = {}
        self._newest = np.full(units, -1, np.int64)
        """By unit, the batch of its newest snapshot."""
        self._rows_in: dict[int, Marks] = {}
        """By batch, the units that had rows in it, as far as that is known."""
        self._unknown = ""
        """Why it cannot be told from the store which attempt at a batch counts."""
        if saved is not None:
            self._resume(saved)

    # -- what was before

    def _resume(self, saved: Saved) -> None:
        self.held = None
        self.epoch = saved.base.epoch
        self._logs = list(saved.base.logs)
        for snapshot in saved.base.snapshots:
            self.snapshot(snapshot)
        for epoch in sorted({task.epoch for task in saved.tasks if task.epoch > saved.base.epoch}):
            if self.attempts:
                self._unknown = self._unknown or self._choose()
            self.epoch, self.attempts = epoch, []
            self._rows_in[epoch] = np.ones(self._units, np.bool_)  # of these attempts nobody has said
            for number in sorted({task.attempt for task in saved.tasks if task.epoch == epoch}):
                attempt = Attempt(number, "")
                for task in saved.tasks:
                    if (task.epoch, task.attempt) == (epoch, number):
                        attempt.begun.add(task.partition)
                        if not task.broken:
                            attempt.through[task.partition] = dict(task.segments)
                self.attempts.append(attempt)

    # -- tasks

    @property
    def attempt(self) -> Attempt | None:
        """The one under way, or the last."""
        return self.attempts[-1] if self.attempts else None

    def join(self, feeder: FeederJoined) -> str:
        """A task has started; why it is refused, or nothing."""
        done = self._settled_key[0]
        if feeder.epoch < self.epoch or feeder.epoch <= done:
            return (
                f"batch {feeder.epoch} of query {feeder.query} is older than the state in the checkpoint, which is of "
                f"batch {max(self.epoch, done)}: Spark's checkpoint and the cluster's do not belong together"
            )
        if self._unknown:
            return self._unknown
        if feeder.epoch > self.epoch:
            why = self._choose()
            if why:
                return why
            for attempt in self.attempts:
                self.dropped |= attempt.feeders
            self.epoch, self.attempts = feeder.epoch, []
        now = self.attempt
        if now is None or now.stage != feeder.stage or now.run != feeder.run:
            if now is not None and now.feeders and not now.poisoned:
                if now.run == feeder.run:
                    return (
                        f"batch {feeder.epoch} of query {feeder.query} is being evaluated by stage {now.stage} already:"
                        " if a DataFrame is used more than once in one plan, persist() it first"
                    )
                self._spoil(now, "the query was started anew")
                self.dropped |= now.feeders
                now.feeders, now.feeding = set(), set()
            number = 1 + max((attempt.number for attempt in self.attempts), default=0)
            now = Attempt(number, feeder.stage, feeder.run)
            self.attempts.append(now)
        elif now.poisoned:
            return now.poisoned
        now.feeders.add(feeder.peer)
        return ""

    def abandon(self, peers: set[Peer]) -> None:
        """Spark has no use for these tasks: an action had rows enough. What they began is not through, and stays so."""
        if self.attempt is not None:
            self.dropped |= self.attempt.feeders & peers
            self.attempt.feeders -= peers

    def begin(self, feeder: FeederJoined) -> str:
        """A task has its first row; why it is refused, or nothing."""
        now = self.attempt
        if now is None or feeder.peer not in now.feeders:
            return (now.poisoned if now else "") or "another attempt at its batch has begun"
        if feeder.partition in now.begun:
            now.feeders.discard(feeder.peer)
            again = (
                f"partition {feeder.partition} of batch {feeder.epoch} of query {feeder.query} is here again (attempt "
                f"{feeder.attempt}), and rows of it are in state already. "
            ) + (
                "The batch has to be run again as a whole: start the query again, or have evenflow.supervise do it"
                if feeder.attempt
                else "If keyed is used twice in this query, give each use a name= of its own; if one DataFrame is used "
                "twice, persist() it first"
            )
            return again
        if now.closed:  # it is not all there, and cannot be any more
            self._spoil(now, now.closed)
            now.feeders.discard(feeder.peer)
            return now.closed
        now.begun.add(feeder.partition)
        now.feeding.add(feeder.peer)
        return ""

    def admit(self) -> None:
        """Rows of the attempt under way go into state from now on."""
        assert self.attempt is not None
        self.held, self.stateful = (self.epoch, self.attempt.number), True

    def arrived(self, epoch: int, units: npt.NDArray[np.int32]) -> None:
        """Rows of these units have come in."""
        marks = self._rows_in.setdefault(epoch, np.zeros(self._units, np.bool_))
        marks[units] = True

    def end(self, feeder: FeederJoined, segments: Mapping[str, int]) -> TaskThrough | None:
        """All rows of a task are durable with the workers; what the store is to be told."""
        now = self.attempt
        if now is None or now.poisoned or feeder.peer not in now.feeders or feeder.partition not in now.begun:
            return None
        now.through[feeder.partition] = dict(segments)
        return TaskThrough(self.epoch, now.number, feeder.partition, dict(segments))

    def noted(self, peer: Peer) -> None:
        """The store has been told of a task, or it had no rows: whatever happens now, it is none of the attempt's."""
        if self.attempt is not None:
            self.attempt.feeders.discard(peer)
            self.attempt.feeding.discard(peer)

    def leave(self, feeder: FeederJoined, begun: bool) -> str:
        """A task is over; if it broke off with rows in state, why its attempt cannot count."""
        now = self.attempt
        if now is None or feeder.peer not in now.feeders:
            return ""
        now.feeders.discard(feeder.peer)
        now.feeding.discard(feeder.peer)
        if begun and feeder.partition not in now.through:
            return f"partition {feeder.partition} of batch {feeder.epoch} of query {feeder.query} broke off"
        return ""

    def poison(self, why: str) -> set[Peer]:
        """State is lost, or has rows of tasks that broke off: the attempt under way cannot count.

        If all it began is noted, Spark may have counted it already, though tasks without rows have not been heard to
        end: then it only takes no more.
        """
        self.drop()
        self.loading.clear()
        now = self.attempt
        if now is None:
            return set()
        if now.feeding or not now.whole or (now.feeders and not now.begun):
            self._spoil(now, why)
        elif now.begun:
            now.closed = why
        feeders, now.feeders, now.feeding = now.feeders, set(), set()
        return feeders

    def _spoil(self, now: Attempt, why: str) -> None:
        """An attempt cannot count, nor may it seem to when only the store is left to tell."""
        if now.begun and not now.poisoned:
            unfinished = sorted(now.begun - now.through.keys()) or [min(now.begun)]
            self.broken += [TaskThrough(self.epoch, now.number, partition, {}, True) for partition in unfinished]
        now.poisoned = now.poisoned or why

    # -- state

    def drop(self) -> None:
        """What workers have in memory is of no use any more."""
        self.held, self.stateful = None, False

    def load(self, workers: Iterable[int]) -> Base:
        """Workers are to drop what they have, and to load the state to start from."""
        base = self.base
        self.drop()
        self.target = (base.epoch, base.attempt)
        self.loading = set(workers)
        self.loads += 1
        return base

    def loaded(self, worker: int) -> None:
        """A worker has loaded."""
        self.loading.discard(worker)
        if not self.loading:
            self.held, self.stateful = self.target, True

    @property
    def base(self) -> Base:
        """The state to start the present batch from."""
        last = self._logs[-1] if self._logs else Log(-1, 0, {})
        return Base(last.epoch, last.attempt, self._useful(), tuple(self._logs))

    @property
    def current(self) -> bool:
        """Whether workers have the state that the attempt under way starts from, or is building on it."""
        now = self.attempt
        return self.held == self._settled_key or (
            now is not None and self.held == (self.epoch, now.number) and not now.poisoned
        )

    @property
    def wanted(self) -> bool:
        """Whether tasks wait for state that workers do not have."""
        return self.attempt is not None and bool(self.attempt.feeders) and not self.current

    @property
    def outdated(self) -> bool:
        """Whether a state is being loaded that is not the one to start from any more."""
        return bool(self.loading) and self.target != self._settled_key

    @property
    def _settled_key(self) -> tuple[int, int]:
        return (self._logs[-1].epoch, self._logs[-1].attempt) if self._logs else (-1, 0)

    def _choose(self) -> str:
        """Settle which attempt at the present batch counts; why none does, or nothing."""
        begun = [attempt for attempt in self.attempts if attempt.begun]
        if not begun:
            return ""
        everything = set().union(*(attempt.begun for attempt in begun))
        for attempt in reversed(begun):
            if attempt.whole and attempt.begun >= everything:
                self._logs.append(Log(self.epoch, attempt.number, attempt.segments, tuple(sorted(attempt.begun))))
                self.settled = True
                return ""
        return (
            f"batch {self.epoch} was evaluated in parts: no single evaluation has seen all of its partitions "
            f"{sorted(everything)} through, so the state after it is not known. In foreachBatch, persist() the "
            "DataFrame before an action that reads only some of it"
        )

    def reported(self, saved: SavedUnits) -> bool:
        """A worker says that it has saved units; whether they are used: if it is late, the blob may be gone by now."""
        used = saved.epoch >= self._settled_key[0] - LATE
        if used:
            self.snapshot(saved)
        return used

    def snapshot(self, saved: SavedUnits) -> None:
        """Units were saved as they were at the end of a batch."""
        self._snapshots[saved.name] = saved
        self._newest[saved.units] = np.maximum(self._newest[saved.units], saved.epoch)

    def settle(self) -> tuple[Base, tuple[str, ...]]:
        """What the store is to be told of the batch that was settled last, and snapshots that are not needed."""
        self.settled = False
        known = set(self._snapshots)
        self._trim()
        return self.base, tuple(sorted(known - self._snapshots.keys()))

    def _trim(self) -> None:
        """Forget logs and snapshots that no unit needs any more."""
        last = self._logs[-1:]  # it names the batch that the state is of
        self._logs = [log for log in self._logs[:-1] if self._needed(log.epoch).any()] + last
        kept = {log.epoch for log in self._logs}
        self._rows_in = {epoch: marks for epoch, marks in self._rows_in.items() if epoch in kept or epoch >= self.epoch}
        self._snapshots = {kept.name: kept for kept in self._useful()}

    def _needed(self, epoch: int) -> Marks:
        """The units whose rows in a batch are in no snapshot; where it is not known who had rows, all may have."""
        rows = self._rows_in.get(epoch)
        missing: Marks = self._newest < epoch
        return missing if rows is None else missing & rows

    def _useful(self) -> tuple[SavedUnits, ...]:
        """The snapshots that are the newest of some unit, from old to new."""
        claimed = np.zeros(self._units, np.bool_)
        useful = []
        for kept in sorted(self._snapshots.values(), key=lambda each: -each.epoch):
            if not claimed[kept.units].all():
                useful.append(kept)
                claimed[kept.units] = True
        return tuple(reversed(useful))
