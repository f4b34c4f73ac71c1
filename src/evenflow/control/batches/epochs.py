"""The epochs (batches) of one query: which attempt at each batch counts, what is durable, which state comes next.

Every time that Spark runs batch n is an attempt, started from the state at the end of batch n-1: one Spark stage, or
several if what they compute is persisted. An attempt is whole when every partition of the operator's input is durable
or had no rows; Spark tells how many there are, and the last task ends only after a note of it is in the store. Spark
may run a batch more than once, all or part of it: after a failure, or for a second action in `foreachBatch`.

The first whole attempt at a batch is the one that counts: its results may be in a sink. Every later attempt *repeats*
it: workers give the results of the logged rows again, in the order of the log, and log nothing. When batch n+1 comes,
Spark has finished batch n, and the whole attempt at n is settled, from whichever run of the query it is. Its log, after
the logs and snapshots of the batches before, is the state at the end of n.

    state(n) = for each unit its newest snapshot, of batch s <= n, and its rows in the logs of batches s+1 ... n
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from evenflow.control import refusals
from evenflow.control.batches.attempts import KIND_BITS, Attempt, facts_of
from evenflow.control.batches.history import History
from evenflow.control.events import FeederJoinedEvent, Peer, StageFacts
from evenflow.model.checkpoint import (
    NOTHING,
    AttemptKey,
    Base,
    BatchLog,
    Begun,
    Saved,
    SavedUnits,
    Voided,
    WholeAttempt,
)

LATE = 1
"""The report of a snapshot more than this many batches older than the settled one is ignored: it may be deleted."""


class Epochs:
    """One query's use of one keyed operator whose state is stored."""

    def __init__(self, units: int, saved: Saved | None = None) -> None:
        self.epoch = -1
        self.attempts: list[Attempt] = []
        """The attempts at the present batch, oldest first."""
        self.held: AttemptKey | None = NOTHING
        """The batch and attempt whose state workers have in memory; None if it is incomplete."""
        self.stateful = False
        """Whether that state may have rows in it."""
        self.loading: set[int] = set()
        """Workers that are loading the state to start from."""
        self.loads = 0
        """The number of the last load: reports of earlier loads are ignored."""
        self.target: AttemptKey = NOTHING
        """The batch and attempt whose state is being loaded."""
        self._loads_for = 0
        """The attempt for which rows to repeat are being loaded; 0 if there are none."""
        self._prepared = 0
        """The attempt for which workers have rows to repeat; 0 if they have none."""
        self.given_up = ""
        """The warning that results of part of a batch were given out, and the batch is evaluated again; else empty."""
        self.dropped: set[Peer] = set()
        """Feeders of attempts that were given up for a newer one, and do not know it yet."""
        self.settled = False
        """Whether a batch was settled whose manifest is yet to be put into the store."""
        self.started: Begun | None = None
        """The note of an attempt that has begun, if it is yet to be put into the store."""
        self._history = History(units)
        if saved is not None and (saved.base.key, saved.wholes, saved.begun.epoch) != (NOTHING, (), -1):
            self._resume(saved)

    # -- earlier runs

    def _resume(self, saved: Saved) -> None:
        """Continue from the notes and manifests in the store."""
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

    def _remember(self, whole: WholeAttempt) -> None:
        """Take in an attempt from the store; it is not known which units had rows in it."""
        through = {partition: dict(whole.segments) for partition in whole.partitions}
        attempt = Attempt(whole.attempt, "", whole.run, whole.before, expected={0: whole.expected}, whole=True)
        attempt.repeatable = whole.repeatable
        attempt.begun, attempt.through = dict.fromkeys(through, ""), through
        self.attempts.append(attempt)
        self._history.arrived(whole.epoch, slice(None) if through else [])

    # -- tasks

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt at the present batch; None if there is none."""
        return self.attempts[-1] if self.attempts else None

    def join(self, feeder: FeederJoinedEvent) -> str:
        """A task has started; returns why it is refused, or an empty text."""
        done = self._history.key[0]
        if feeder.epoch < self.epoch or feeder.epoch <= done:
            return refusals.older(feeder, max(self.epoch, done))
        if not isinstance(feeder.facts, StageFacts) or not feeder.facts.inputs:
            return refusals.uncounted(feeder)
        if feeder.epoch > self.epoch:
            why = self._choose()
            if why:
                return why
            for attempt in self.attempts:
                self.dropped |= attempt.feeders
            self.epoch, self.attempts = feeder.epoch, []
        now = self.attempt
        if now is None or not now.includes(feeder, in_memory=self.held == (self.epoch, now.number)):
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
        now.expected.setdefault(feeder.partition >> KIND_BITS, facts_of(feeder).inputs)
        return ""

    def abandon(self, peers: set[Peer]) -> None:
        """Give up tasks whose remaining results Spark does not want; their partitions stay unfinished."""
        if self.attempt is not None:
            self.dropped |= self.attempt.feeders & peers
            self.attempt.feeders -= peers
            self.attempt.waiting = [peer for peer in self.attempt.waiting if peer not in peers]

    def _mixed(self, feeder: FeederJoinedEvent) -> str:
        """Why there must be no new attempt, since its results would be mixed with results of another; empty if not."""
        facts = facts_of(feeder)
        kept = facts.kept is not None and any(
            each.kept == facts.kept and each.run == feeder.run and each.touched for each in self.attempts
        )
        if kept or (facts.tasks < facts.partitions and not facts.result):
            return refusals.mixed(feeder, "persisted" if kept else "shuffled")
        return ""

    def _give_way(self, now: Attempt, feeder: FeederJoinedEvent) -> None:
        """Give up an attempt because another one begins; an unfinished one with tasks is poisoned."""
        if now.begun and now.repeatable and now.run == feeder.run and not (now.whole or now.poisoned or now.repeats):
            self.given_up = refusals.evaluated_in_part(feeder)
        if now.feeders and not now.whole and not now.poisoned:
            now.poisoned = "the query was started anew"
            if now.run == feeder.run:
                now.poisoned = refusals.evaluated_twice(feeder, now.stage)
        self.dropped |= now.feeders
        now.feeders, now.waiting = set(), []

    def _start(self, feeder: FeederJoinedEvent) -> Attempt:
        """Begin a new attempt at the present batch, with its first task."""
        number = 1 + max((attempt.number for attempt in self.attempts), default=0)
        now = Attempt.of(number, feeder, self._history.key)
        if now.repeatable:
            counts = (each for each in reversed(self.attempts) if each.whole and each.repeats is None)
            now.repeats = next((each for each in counts if each.repeatable and each.through), None)
        self.attempts.append(now)
        repeats = now.repeats.number if now.repeats is not None else 0
        self.started = Begun(self.epoch, number, now.before, now.run, repeats)
        return now

    def begin(self, feeder: FeederJoinedEvent) -> str:
        """A task has its first row; returns why it is refused, or an empty text."""
        now = self.attempt
        if now is None or feeder.peer not in now.feeders:
            return (now.poisoned if now else "") or "another attempt at its batch has begun"
        stage = feeder.own_stage or feeder.stage
        if feeder.partition in now.begun:
            now.feeders.discard(feeder.peer)
            return refusals.begun_before(feeder, other_stage=now.begun[feeder.partition] != stage)
        if now.whole:
            return f"partition {feeder.partition} of batch {feeder.epoch} comes on top of all that Spark told of"
        now.begun[feeder.partition] = stage
        return ""

    def admit(self) -> None:
        """From now on rows of the present attempt go into state."""
        assert self.attempt is not None
        self.held, self.stateful = (self.epoch, self.attempt.number), True

    def arrived(self, epoch: int, units: npt.NDArray[np.int32]) -> None:
        """Note that rows of these units have come in a batch."""
        self._history.arrived(epoch, units)

    def end(
        self, feeder: FeederJoinedEvent, segments: Mapping[str, int], rows: bool, left: Mapping[str, int] | None = None
    ) -> WholeAttempt | None:
        """All rows of a task are durable, or it had none; if the attempt is whole now, returns the note for the store.

        Otherwise the task is added to the attempt's `waiting`; also if the attempt repeats another, which has its note.
        """
        now = self.attempt
        if now is None or now.poisoned or feeder.peer not in now.feeders:
            return None
        now.finish(feeder, segments, rows, left)
        whole, now.whole = now.whole, now.whole or now.complete
        if whole or not now.whole or now.repeats is not None:
            now.waiting.append(feeder.peer)
            return None
        return WholeAttempt(
            epoch=self.epoch,
            attempt=now.number,
            segments=now.segments,
            partitions=tuple(sorted(now.through)),
            expected=sum(now.expected.values()),
            before=now.before,
            run=now.run,
            repeatable=now.repeatable,
        )

    def void(self) -> Voided | None:
        """The source gives other rows than for the attempt that the present one repeats: that one counts no more."""
        now = self.attempt
        if now is None or now.repeats is None or now.repeats not in self.attempts:
            return None
        self.attempts.remove(now.repeats)
        now.whole = False
        return Voided(self.epoch, now.repeats.number, Begun(self.epoch, now.number, now.before, now.run))

    def noted(self, key: AttemptKey) -> list[Peer]:
        """The note that an attempt has begun or is whole is in the store; returns the tasks that may end now."""
        now = self.attempt
        if now is None or (self.epoch, now.number) != key:
            return []
        now.noted = True
        return self.released()

    def released(self) -> list[Peer]:
        """Remove the tasks that are through from the attempt and return them, once its beginning is in the store."""
        now = self.attempt
        if now is None or not now.noted:
            return []
        done, now.waiting = now.waiting, []
        now.feeders.difference_update(done)
        return done

    def let_go(self, peer: Peer) -> None:
        """Remove a task that has been told that it may end."""
        if self.attempt is not None:
            self.attempt.feeders.discard(peer)

    def leave(self, feeder: FeederJoinedEvent, begun: bool) -> str:
        """A task is over; if it broke off with rows in state, returns why its attempt cannot count."""
        now = self.attempt
        if now is None or feeder.peer not in now.feeders:
            return ""
        now.feeders.discard(feeder.peer)
        if begun and feeder.partition not in now.through:
            return f"partition {feeder.partition} of batch {feeder.epoch} of query {feeder.query} broke off"
        return ""

    def unnoted(self, key: AttemptKey, why: str) -> bool:
        """A note of an attempt could not be put into the store: that attempt does not count, nor do repeats of it.

        Returns whether that is the present one, which is poisoned then.
        """
        numbers = [
            (each, {each.number, each.repeats.number if each.repeats else each.number}) for each in self.attempts
        ]
        failed = [each for each, about in numbers if key[0] == self.epoch and key[1] in about]
        for each in failed:
            each.poisoned, each.whole = each.poisoned or why, False
        return any(each is self.attempt for each in failed)

    def poison(self, why: str) -> set[Peer]:
        """State is lost, or has rows of tasks that broke off, so the present attempt cannot count. Returns its feeders.

        An attempt that is whole still counts: it no longer needs the state in memory, and Spark may have committed it.
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
        """Give up the state that workers have in memory."""
        self.held, self.stateful, self._prepared = None, False, 0

    def load(self, workers: Iterable[int]) -> Base:
        """Begin to load on these workers; returns the state that the present batch starts from."""
        base = self.base
        self.drop()
        self.target = (base.epoch, base.attempt)
        self._loads_for = self.attempt.key_to_load if self.attempt is not None else 0
        self.loading = set(workers)
        self.loads += 1
        return base

    def loaded(self, worker: int) -> None:
        """A worker has loaded its part of the state."""
        self.loading.discard(worker)
        if not self.loading:
            self.held, self.stateful, self._prepared = self.target, True, self._loads_for

    @property
    def base(self) -> Base:
        """The state that the present batch starts from."""
        return self._history.base

    @property
    def current(self) -> bool:
        """Whether workers have the state that the present attempt starts from, or that state with its rows."""
        now = self.attempt
        if now is not None and now.key_to_load != self._prepared:
            return False
        return self.held == self._history.key or (
            now is not None and self.held == (self.epoch, now.number) and not now.poisoned
        )

    @property
    def wanted(self) -> bool:
        """Whether tasks wait for state that workers do not have."""
        return self.attempt is not None and bool(self.attempt.feeders) and not self.current

    @property
    def outdated(self) -> bool:
        """Whether the state that is being loaded is no longer the one to start from."""
        wanted = self.attempt.key_to_load if self.attempt is not None else 0
        return bool(self.loading) and (self.target, self._loads_for) != (self._history.key, wanted)

    @property
    def repeating(self) -> bool:
        """Whether rows of an attempt are being repeated: its units must not move."""
        now = self.attempt
        return now is not None and now.number == self._prepared and not (now.whole or now.poisoned)

    def _choose(self, wanted: AttemptKey = NOTHING) -> str:
        """Settle which attempt at the present batch counts, preferably `wanted`; returns why none does, or empty."""
        if not self.attempts:
            return ""
        for attempt in sorted(self.attempts, key=lambda each: ((self.epoch, each.number) == wanted, each.number))[::-1]:
            if attempt.whole and attempt.repeats is None:
                again = {(self.epoch, each.number) for each in self.attempts if each.repeats is attempt and each.whole}
                if self.held in again:
                    self.held, self._prepared = (self.epoch, attempt.number), 0
                if not attempt.begun and self.held == self._history.key:
                    self.held = (self.epoch, attempt.number)  # an attempt without rows leaves the state as it is
                with_rows = tuple(sorted(attempt.through))
                self._history.append(BatchLog(self.epoch, attempt.number, attempt.segments, with_rows))
                self.settled = True
                return ""
        return refusals.never_whole(self.epoch, self.attempts)

    def reported(self, saved: SavedUnits) -> bool:
        """A worker has saved units; returns whether they are used: if the report is late, the blob may be gone."""
        used = saved.epoch >= self._history.key[0] - LATE
        if used:
            self.snapshot(saved)
        return used

    def snapshot(self, saved: SavedUnits) -> None:
        """Take in a snapshot of units at the end of a batch."""
        self._history.snapshot(saved)

    def settle(self) -> tuple[Base, tuple[str, ...]]:
        """The state after the batch that was settled last, for its manifest, and the snapshots no longer needed."""
        self.settled = False
        stale = self._history.trim(self.epoch)
        return self.base, stale
