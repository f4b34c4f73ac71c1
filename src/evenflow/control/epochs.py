"""The epochs of one query: which attempt at each batch counts, what of it is durable, and what state to start from.

Every evaluation of batch n is an attempt, started from the state at the end of batch n-1: one Spark stage, or several
if what they compute is persisted. It is whole when every partition of the operator's input, of which Spark tells the
number, is durable or had no rows; the last of its tasks ends only after that is noted in the store. Spark may evaluate
a batch more than once, wholly or in part: after a failure, or for a second action in `foreachBatch`. That batch n+1
comes is the proof that Spark has done with batch n. Then the newest whole attempt at n is chosen, from whichever run of
the query. Its log, after the logs and snapshots of the batches before, is the state at the end of n.

    state(n) = for each unit its newest snapshot, of batch s <= n, and its rows in the logs of batches s+1 ... n
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from evenflow.control.attempts import KIND_BITS, Attempt
from evenflow.control.events import FeederJoined, Peer, StageFacts
from evenflow.control.history import History
from evenflow.errors import SEVERAL_ACTIONS
from evenflow.model.checkpoint import NOTHING, Base, BatchLog, Begun, Key, Saved, SavedUnits, Whole

LATE = 1
"""A report of a snapshot this many batches older than the settled one is not taken: its blob may be deleted."""

SHOWN = 4
"""Attempts at a batch that a message tells of."""


class Epochs:
    """One query's use of one keyed operator, with a store."""

    def __init__(self, units: int, saved: Saved | None = None) -> None:
        self.epoch = -1
        self.attempts: list[Attempt] = []
        """Those of the present batch."""
        self.held: Key | None = NOTHING
        """The batch and attempt whose state workers have in memory; None if it is not whole."""
        self.stateful = False
        """Whether any of that may have rows in it."""
        self.loading: set[int] = set()
        """Workers that are loading the state to start from."""
        self.loads = 0
        """How often state was to be loaded: reports about earlier times do not count."""
        self.target: Key = NOTHING
        """The batch and attempt whose state is being loaded."""
        self.dropped: set[Peer] = set()
        """Feeders of attempts that were given up for a newer one, and have not been told."""
        self.settled = False
        """Whether a batch was settled that the store has not been told of."""
        self.started: Begun | None = None
        """An attempt that has begun, if the store has not been told."""
        self._history = History(units)
        if saved is not None and (saved.base.key, saved.wholes, saved.begun.epoch) != (NOTHING, (), -1):
            self._resume(saved)

    # -- what was before

    def _resume(self, saved: Saved) -> None:
        self.held = None
        self.epoch = saved.base.epoch
        self._history.resume(saved.base)
        for whole in sorted(saved.wholes, key=lambda each: each.key):
            if whole.epoch > self.epoch:
                self._choose(whole.before)
                self.epoch, self.attempts = whole.epoch, []
            self._remember(whole)
        last = saved.begun
        if last.epoch > self.epoch:
            self._choose(last.before)
            self.epoch, self.attempts = last.epoch, []
        if last.epoch == self.epoch > saved.base.epoch and last.key not in {whole.key for whole in saved.wholes}:
            self.attempts.append(Attempt(last.attempt, "", last.run, last.before))

    def _remember(self, whole: Whole) -> None:
        """An attempt that the store has; who had rows in it nobody has said."""
        through = {partition: dict(whole.segments) for partition in whole.partitions}
        attempt = Attempt(whole.attempt, "", whole.run, whole.before, expected={0: whole.expected}, whole=True)
        attempt.begun, attempt.through = dict.fromkeys(through, ""), through
        self.attempts.append(attempt)
        self._history.arrived(whole.epoch, slice(None) if through else [])

    # -- tasks

    @property
    def attempt(self) -> Attempt | None:
        """The one under way, or the last."""
        return self.attempts[-1] if self.attempts else None

    def join(self, feeder: FeederJoined) -> str:
        """A task has started; why it is refused, or nothing."""
        done = self._history.key[0]
        if feeder.epoch < self.epoch or feeder.epoch <= done:
            return (
                f"batch {feeder.epoch} of query {feeder.query} is older than the state in the checkpoint, which is of "
                f"batch {max(self.epoch, done)}: Spark's checkpoint and the cluster's do not belong together"
            )
        if not isinstance(feeder.facts, StageFacts) or not feeder.facts.inputs:
            told = f": {feeder.facts}" if isinstance(feeder.facts, str) else ""
            return (
                f"it cannot be told how many partitions stage {feeder.stage} of batch {feeder.epoch} has{told}, so not "
                "either when all of them are through: start the query again"
            )
        if feeder.epoch > self.epoch:
            why = self._choose()
            if why:
                return why
            for attempt in self.attempts:
                self.dropped |= attempt.feeders
            self.epoch, self.attempts = feeder.epoch, []
        now = self.attempt
        if now is None or not self._part_of(now, feeder):
            given_up = [each for each in self.attempts if each.run == feeder.run and feeder.stage in each.stages]
            if given_up:
                return given_up[-1].poisoned or "another attempt at its batch has begun"
            if why := self._mixed(feeder):
                return why
            if now is not None:
                self._give_way(now, feeder)
            now = self._start(feeder)
        elif now.poisoned:
            return now.poisoned
        now.feeders.add(feeder.peer)
        now.stages.add(feeder.stage)
        now.running = feeder.own_stage or feeder.stage
        now.expected.setdefault(feeder.partition >> KIND_BITS, _facts(feeder).inputs)
        return ""

    def abandon(self, peers: set[Peer]) -> None:
        """Spark has no use for these tasks: an action had rows enough. What they began is not through, and stays so."""
        if self.attempt is not None:
            self.dropped |= self.attempt.feeders & peers
            self.attempt.feeders -= peers
            self.attempt.waiting = [peer for peer in self.attempt.waiting if peer not in peers]

    def _part_of(self, now: Attempt, feeder: FeederJoined) -> bool:
        """Whether a task belongs to the attempt under way: it is of its stage, or of another that goes on with it.

        That is so if both compute the same RDD, as the jobs of one `take` do, or persist the operator's results in the
        same one. Then partitions are the same, by their numbers; and what is in state of them must still be there.
        """
        if now.run != feeder.run or feeder.stage in now.stages:
            return now.run == feeder.run
        facts = _facts(feeder)
        if now.poisoned or now.whole or now.feeders or not (now.numbered and facts.partitions == facts.inputs):
            return False
        if facts.inputs != now.expected.get(0):
            return False
        same = bool(facts.rdd) and facts.rdd == now.rdd
        if not same and (facts.kept is None or facts.kept != now.kept):
            return False
        return not now.begun or self.held == (self.epoch, now.number)

    def _mixed(self, feeder: FeederJoined) -> str:
        """Why a new evaluation must not be: there are results of another that it would be put together with."""
        facts = _facts(feeder)
        kept = facts.kept is not None and any(
            each.kept == facts.kept and each.run == feeder.run and each.touched for each in self.attempts
        )
        if kept or (facts.tasks < facts.partitions and not facts.result):
            what = "persisted" if kept else "shuffled"
            return (
                f"batch {feeder.epoch} of query {feeder.query}: some results of another evaluation are {what} and some "
                "of them are lost: together with new ones they make no sense. The batch has to be run again as a whole:"
                " start the query again, or have evenflow.supervise do it"
            )
        return ""

    def _give_way(self, now: Attempt, feeder: FeederJoined) -> None:
        """Another evaluation begins: whoever of this one is still here is of no use, or in the way."""
        if now.feeders and not now.whole and not now.poisoned:
            now.poisoned = "the query was started anew"
            if now.run == feeder.run:
                now.poisoned = (
                    f"batch {feeder.epoch} of query {feeder.query} is being evaluated by stage {feeder.stage} as well "
                    f"as by stage {now.stage}: if a DataFrame is used more than once in one plan, persist() it first"
                )
        self.dropped |= now.feeders
        now.feeders, now.waiting = set(), []

    def _start(self, feeder: FeederJoined) -> Attempt:
        facts = _facts(feeder)
        number = 1 + max((attempt.number for attempt in self.attempts), default=0)
        now = Attempt(number, feeder.stage, feeder.run, self._history.key, kept=facts.kept, kinds=feeder.kinds)
        now.numbered, now.rdd = facts.partitions == facts.inputs, facts.rdd
        now.broad = facts.whole and facts.tasks > 1
        self.attempts.append(now)
        self.started = Begun(self.epoch, number, now.before, now.run)
        return now

    def begin(self, feeder: FeederJoined) -> str:
        """A task has its first row; why it is refused, or nothing."""
        now = self.attempt
        if now is None or feeder.peer not in now.feeders:
            return (now.poisoned if now else "") or "another attempt at its batch has begun"
        stage = feeder.own_stage or feeder.stage
        if feeder.partition in now.begun:
            now.feeders.discard(feeder.peer)
            once_more = bool(feeder.own_stage) and now.begun[feeder.partition] != stage
            again = (
                f"partition {feeder.partition} of batch {feeder.epoch} of query {feeder.query} is here again (attempt "
                f"{feeder.attempt}), and rows of it are in state already. "
            ) + (
                f"Spark has not read them again: in foreachBatch, {SEVERAL_ACTIONS}"
                if once_more
                else "The batch has to be run again as a whole: start the query again, or have evenflow.supervise do it"
                if feeder.attempt or feeder.own_stage
                else "If keyed is used twice in this query, give each use a name= of its own; if one DataFrame is used "
                "twice, persist() it first"
            )
            return again
        if now.whole:
            return f"partition {feeder.partition} of batch {feeder.epoch} comes on top of all that Spark told of"
        now.begun[feeder.partition] = stage
        return ""

    def admit(self) -> None:
        """Rows of the attempt under way go into state from now on."""
        assert self.attempt is not None
        self.held, self.stateful = (self.epoch, self.attempt.number), True

    def arrived(self, epoch: int, units: npt.NDArray[np.int32]) -> None:
        """Rows of these units have come in."""
        self._history.arrived(epoch, units)

    def end(self, feeder: FeederJoined, segments: Mapping[str, int], rows: bool) -> Whole | None:
        """All rows of a task are durable with the workers, or it had none; if that was the last, what is to be noted.

        The others are in the attempt's `waiting`.
        """
        now = self.attempt
        if now is None or now.poisoned or feeder.peer not in now.feeders:
            return None
        now.finish(feeder, segments, rows)
        if now.whole or not now.complete:
            now.waiting.append(feeder.peer)
            return None
        now.whole = True
        everything = sum(now.expected.values())
        with_rows = tuple(sorted(now.through))
        return Whole(self.epoch, now.number, now.segments, with_rows, everything, now.before, now.run)

    def noted(self, key: Key) -> list[Peer]:
        """The store has been told of an attempt; tasks that may end now."""
        now = self.attempt
        if now is None or (self.epoch, now.number) != key:
            return []
        now.noted = True
        return self.released()

    def released(self) -> list[Peer]:
        """Tasks that are through, and need not wait for the rest of their attempt; they are none of it any more."""
        now = self.attempt
        if now is None or not now.noted:
            return []
        done, now.waiting = now.waiting, []
        now.feeders.difference_update(done)
        return done

    def let_go(self, peer: Peer) -> None:
        """A task has been told that it may end."""
        if self.attempt is not None:
            self.attempt.feeders.discard(peer)

    def leave(self, feeder: FeederJoined, begun: bool) -> str:
        """A task is over; if it broke off with rows in state, why its attempt cannot count."""
        now = self.attempt
        if now is None or feeder.peer not in now.feeders:
            return ""
        now.feeders.discard(feeder.peer)
        if begun and feeder.partition not in now.through:
            return f"partition {feeder.partition} of batch {feeder.epoch} of query {feeder.query} broke off"
        return ""

    def unnoted(self, key: Key, why: str) -> bool:
        """The store could not be told of an attempt; whether that is the one under way, which then cannot count."""
        now = self.attempt
        if now is None or (self.epoch, now.number) != key:
            return False
        now.poisoned, now.whole = now.poisoned or why, False
        return True

    def poison(self, why: str) -> set[Peer]:
        """State is lost, or has rows of tasks that broke off: the attempt under way cannot count.

        If it is whole it can: it does not need what is in memory any more, and Spark may have counted it already.
        """
        self.drop()
        self.loading.clear()
        now = self.attempt
        if now is None or now.whole:
            return set()
        if now.begun or now.feeders:
            now.poisoned = now.poisoned or why
        feeders, now.feeders, now.waiting = now.feeders, set(), []
        return feeders

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
        return self._history.base

    @property
    def current(self) -> bool:
        """Whether workers have the state that the attempt under way starts from, or is building on it."""
        now = self.attempt
        return self.held == self._history.key or (
            now is not None and self.held == (self.epoch, now.number) and not now.poisoned
        )

    @property
    def wanted(self) -> bool:
        """Whether tasks wait for state that workers do not have."""
        return self.attempt is not None and bool(self.attempt.feeders) and not self.current

    @property
    def outdated(self) -> bool:
        """Whether a state is being loaded that is not the one to start from any more."""
        return bool(self.loading) and self.target != self._history.key

    def _choose(self, wanted: Key = NOTHING) -> str:
        """Settle which attempt at the present batch counts, `wanted` if that is one; why none does, or nothing."""
        if not self.attempts:
            return ""
        for attempt in sorted(self.attempts, key=lambda each: ((self.epoch, each.number) == wanted, each.number))[::-1]:
            if attempt.whole:
                if not attempt.begun and self.held == self._history.key:
                    self.held = (self.epoch, attempt.number)  # it has changed nothing
                with_rows = tuple(sorted(attempt.through))
                self._history.append(BatchLog(self.epoch, attempt.number, attempt.segments, with_rows))
                self.settled = True
                return ""
        seen = "; ".join(f"attempt {each.number} saw {each.seen}{_because(each)}" for each in self.attempts[-SHOWN:])
        return (
            f"batch {self.epoch} was evaluated in parts, and Spark has gone on: no single evaluation has seen all of "
            f"its partitions through ({seen}), so the state after it is not known. In foreachBatch, persist() the "
            "DataFrame, let count() or the write itself be the first action, and let no failure pass. To go on, delete "
            f"the file commits/{self.epoch} in the query's checkpointLocation: Spark then runs that batch again"
        )

    def reported(self, saved: SavedUnits) -> bool:
        """A worker says that it has saved units; whether they are used: if it is late, the blob may be gone by now."""
        used = saved.epoch >= self._history.key[0] - LATE
        if used:
            self.snapshot(saved)
        return used

    def snapshot(self, saved: SavedUnits) -> None:
        """Units were saved as they were at the end of a batch."""
        self._history.snapshot(saved)

    def settle(self) -> tuple[Base, tuple[str, ...]]:
        """What the store is to be told of the batch that was settled last, and snapshots that are not needed."""
        self.settled = False
        stale = self._history.trim(self.epoch)
        return self.base, stale


def _facts(feeder: FeederJoined) -> StageFacts:
    """What Spark says of a task's stage; whoever does not know it has been refused."""
    assert isinstance(feeder.facts, StageFacts)
    return feeder.facts


def _because(attempt: Attempt) -> str:
    return f" ({attempt.poisoned})" if attempt.poisoned else ""
