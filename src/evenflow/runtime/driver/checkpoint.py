"""The driver's side of the checkpoint: a thread that reads what the store has of queries, and has manifests put.

It does so in the order in which it was asked, so that the controller never waits for a disk.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from evenflow.control.events import SaveInstruction
from evenflow.errors import StoreError, StoreInUse, described
from evenflow.model.checkpoint import NOTHING, Base, Begun, Saved, SavedUnits, WholeAttempt
from evenflow.runtime.driver.manifests import ManifestWriter
from evenflow.runtime.driver.operator_names import BRING_BACK, Kept, OperatorNames, mismatch, not_listed
from evenflow.runtime.threads import BackgroundThread, Start
from evenflow.state.checkpoint.chain import (
    Latest,
    QueryRecord,
    latest,
    note_operators,
    query_record,
    unfinished,
)
from evenflow.state.checkpoint.progress import progress
from evenflow.state.checkpoint.unit_snapshots import read_index
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import MOVES, parse, prefix_of
from evenflow.state.store.claims.claim import BEATS, claim
from evenflow.state.store.opening import DATABASES, open_store
from evenflow.state.store.retry import RetryingStore, all_but, retry
from evenflow.state.store.sealed import Place

logger = logging.getLogger("evenflow")

CLOSE_S = 30.0


class Unpassing(str):
    """Why something could not be saved; another try would fail, too."""

    __slots__ = ()


class CheckpointThread(BackgroundThread):
    """Owns the store, the claim on it, and the thread that uses them."""

    lost = ""
    """Why nothing is read or put any more: another cluster has taken the checkpoint over, or the thread has failed."""
    quiet: Callable[[str, int, int, str], bool] = staticmethod(lambda query, first, last, operator: False)
    """Whether Spark's log of offsets shows that an operator cannot have had rows in these batches of a query; or, if
    its name is empty, any operator of ours."""

    def __init__(
        self,
        place: str | Place,
        owner: str,
        start: Start | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("checkpoint", self._run, lambda _error: None, start)
        self._clock = clock
        own = str(place).startswith(DATABASES)  # which retries by itself
        self._store: Store = open_store(place) if own else retry(lambda: open_store(place))
        self.on_lost: Callable[[str], None] = lambda why: None
        """Called on this thread when it turns out that the checkpoint cannot be used any more."""
        try:
            left = retry(lambda: [name for name, _ in self._store.names(MOVES)])  # before the claim: leftovers
            patient = RetryingStore(self._store)
            self._claim = retry(lambda: claim(patient, owner))
        except BaseException:
            self._store.close()
            raise
        self._store = self._claim.store
        with suppress(StoreError, OSError):  # leftovers do no harm
            self._store.delete(left)
        self._patient: Store = self._store
        self._kept: dict[str, Kept] = {}
        self.names = OperatorNames(self._kept)
        self._writer = ManifestWriter(self._store, self._kept)
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._due = self._clock() + self._store.claim_s / BEATS
        self.begin()

    def add(self, region: str, kept: Kept) -> None:
        """Note which operator's state a region has."""
        self._kept[region] = kept

    def put_back(self, region: str, before: Kept | None) -> None:
        """Undo `add` for a region that could not be opened, so that a corrected operator finds the name free."""
        if before is None:
            self._kept.pop(region, None)
        else:
            self._kept[region] = before

    def keeps(self, region: str) -> Kept | None:
        """The operator of a region whose state is stored; None if it is not."""
        return self._kept.get(region)

    def look(self, region: str, query: str, epoch: int, new: bool, done: Callable[[Saved | str], None]) -> None:
        """Read what the store has of a query; `done` is called with the answer, on this thread."""
        self._orders.put(lambda: done(self.saved(region, query, epoch, new)))

    def look_again(self, region: str, query: str, epoch: int, done: Callable[[str], None]) -> None:
        """Look whether a query that is started again has the operators it had; `done` is called with why not, or ''.

        The operator itself goes on with the state that workers have in memory.
        """
        self._orders.put(lambda: done(self.checked(region, query, epoch)))

    def checked(self, region: str, query: str, epoch: int) -> str:
        """Why an operator whose state is in memory cannot go on when its query is started again; empty if it can."""
        if self.lost:
            return self.lost
        try:
            why = self.names.doubled(region, query)
            why = why or self.names.moved_away(self._patient, region, query)
            if not why and (why := self._apart(query, epoch, False, region)):
                why += ". Stop this cluster first"  # it has the claim, and state in memory
            why = why or self.names.vanished(self._patient, region, query, epoch)
            return why or self._back(region, query, epoch)
        except StoreInUse as failure:
            self._lose(failure)
            return self.lost
        except Exception as error:  # the task that asks is told; this thread goes on
            return described(error)

    def _back(self, region: str, query: str, epoch: int) -> str:
        """Note that an operator takes part again, if it was left out."""
        record = query_record(self._patient, query)
        if record is not None and (now := record.back(region, epoch)) != record:
            note_operators(self._store, query, now)
        return ""

    def saved(self, region: str, query: str, epoch: int = 0, new: bool = True) -> Saved | str:
        """What the store has of an operator of a query that is at batch `epoch`; a text says why it cannot be used.

        For a `new` query, which has had no rows before, and for an operator new in its query, a first state is put.
        """
        if self.lost:
            return self.lost
        try:
            kept, prefix = self._kept[region], prefix_of(region, query)
            why = self.names.doubled(region, query)
            behind = partial(self._behind, query, epoch, new)
            why = why or self.names.adopted(self._patient, region, query, behind, self._beat_in_time)
            why = why or self.names.vanished(self._patient, region, query, epoch)
            if why:
                return why
            found = latest(self._patient, prefix)
            what = f"the checkpoint of region {region} and query {query}"
            if found.damaged:
                return f"{found.damaged[0]}"
            if found.missing:
                return f"{what} is not complete: {': '.join(found.missing[0])}. {BRING_BACK}"
            for manifest in (found.manifest, *found.wholes):
                why = mismatch(manifest, kept) if manifest is not None else ""
                if why:
                    return f"{what} {why}"
            if found.manifest is None:
                return self._fresh(region, query, epoch, new)
            record = query_record(self._patient, query)
            if record is None or region not in record.operators:
                return not_listed(region, query)
            if why := behind(region, found, kept):
                return why
            self._back(region, query, epoch)
            self._tell_new(region, query, epoch, (found.manifest, *found.wholes)[-1].operator)
            return self._resumed(found, kept.operator)
        except StoreInUse as failure:
            self._lose(failure)
            return self.lost
        except Exception as error:  # the task that asks is told; this thread goes on
            return f"{error}" if isinstance(error, StoreError | OSError) else described(error)

    def _unfit_to_grow(self, found: Latest, kept: Kept, epoch: int) -> str:
        """Why an operator that has got more aggregates cannot go on yet; empty if it can, or has got none."""
        counts = found.wholes[-1] if found.wholes else None
        if counts is None or counts.epoch < epoch or not counts.repeatable or counts.operator == kept.operator:
            return ""
        return (
            f"operator {kept.operator} has aggregates that its state does not have, and batch {epoch} was evaluated "
            "without them, but Spark has not committed it: start the query once with the aggregates that it had, until "
            "that batch is committed"
        )

    def _tell_new(self, region: str, query: str, epoch: int, stored: str) -> None:
        """Say which aggregates begin empty while the operator goes on with its state."""
        more = self._kept[region].new_beside(stored)
        if more:
            self._writer.grown[region, query] = epoch, stored
            logger.warning(
                "operator %s of query %s goes on with its state; new in it, and empty before batch %d: %s",
                *(region, query, epoch, ", ".join(more)),
            )

    def _apart(self, query: str, epoch: int, new: bool, region: str) -> str:
        """Why this checkpoint and Spark's, which is at batch `epoch`, do not belong together; empty if they do.

        An operator of a `new` query cannot have missed any rows.
        """
        found = progress(self._patient, query)
        if found is None:
            return ""  # told apart by whether there is any state
        whose = region if region in found.operators else ""
        return found.apart(region, epoch, lambda first, last: new or self.quiet(query, first, last, whose))

    def _behind(self, query: str, epoch: int, new: bool, region: str, found: Latest, kept: Kept | None) -> str:
        """Why the state of a name is not the one to start batch `epoch` from, with `kept`; empty if it is."""
        if why := self._apart(query, epoch, new, region):
            return why
        lacking = unfinished(found, epoch)
        if not lacking:
            return self._unfit_to_grow(found, kept, epoch) if kept is not None else ""
        return (
            f"the checkpoint of region {region} and query {query} is not complete: Spark is at batch {epoch}, and of "
            f"the one that has begun before {lacking} is missing. {BRING_BACK}. If it never was there, since only "
            "parts of that batch were evaluated, delete its file in commits/ of the query's checkpointLocation: Spark "
            "then runs it again"
        )

    def _fresh(self, region: str, query: str, epoch: int, new: bool) -> Saved | str:
        """Put the first state of an operator that has none; a text says why it ought to have some."""
        record = query_record(self._patient, query) or QueryRecord({})
        since = record.operators.get(region)
        if not new and since != epoch:
            here = f"query {query} is at batch {epoch}, and this checkpoint has no state of the batches before it"
            if not record.operators:
                return f"{here}: give the checkpoint that it had, or start the query with a new checkpointLocation"
            if since is not None:
                return (
                    f"{here} for operator {region}, which it has had since batch {since}: that is lost. Bring back all "
                    f"files of {prefix_of(region, query)} from a copy, without any '~...' suffix, or give keyed "
                    "another name= for an operator with fresh state"
                )
        if why := self._apart(query, epoch, new, region):
            return why
        error = self._retried(lambda: note_operators(self._store, query, record.added(region, epoch)))
        error = error or self._tried(SaveInstruction(region, query, "begun", Begun()))
        error = error or self._tried(SaveInstruction(region, query, "epoch", Base()))
        return error or Saved(Base())

    def _beat_in_time(self) -> None:
        """Renew the claim, if that is due."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._store.claim_s / BEATS
            self._beat()

    def _resumed(self, found: Latest, operator: str) -> Saved:
        """The stored state of an operator. An attempt with fewer aggregates than it has now cannot be repeated."""
        assert found.manifest is not None
        assert found.begun is not None
        snapshots = []
        for name in found.manifest.snapshots:
            units = np.fromiter(read_index(partial(self._patient.get, name), name).entries, np.int32)
            parsed = parse(name)
            assert parsed is not None
            snapshots.append(SavedUnits(name, parsed.epoch, units))
        base = Base(
            epoch=found.manifest.epoch,
            attempt=found.manifest.attempt,
            snapshots=tuple(snapshots),
            logs=found.manifest.logs,
        )
        wholes = tuple(
            WholeAttempt(
                epoch=each.epoch,
                attempt=each.attempt,
                segments=each.logs[0].segments,
                partitions=each.partitions,
                expected=each.expected,
                before=each.before or NOTHING,
                run=each.run,
                repeatable=each.repeatable and each.operator == operator,
            )
            for each in found.wholes
        )
        begun = Begun(
            epoch=found.begun.epoch,
            attempt=found.begun.attempt,
            before=found.begun.before or NOTHING,
            run=found.begun.run,
        )
        return Saved(base, wholes, begun)

    def save(self, order: SaveInstruction, done: Callable[[SaveInstruction, str], None]) -> None:
        """Put something; `done` is called on this thread, with the error or an empty text.

        An error that another try would not avoid is an `Unpassing`.
        """
        self._orders.put(lambda: done(order, self._tried(order)))

    def close(self) -> None:
        """Finish what was asked for, release the claim and close the store."""
        self.end(CLOSE_S, "the store hangs")
        try:
            with suppress(StoreError, OSError):  # then the next cluster has to wait until the claim is void
                retry(self._claim.release)
        finally:
            self._store.close()

    def rouse(self) -> None:
        self._orders.put(None)

    def _run(self) -> None:
        while (order := self._next()) is not None:
            try:
                order()
            except Exception as error:  # whoever has asked is told why by `saved` and `_tried`; this concerns no query
                self._lose(f"the checkpoint cannot be used any more: {described(error)}")

    def _next(self) -> Callable[[], None] | None:
        """The next thing to do; None at the end. The claim is renewed in time, however long the queue is."""
        left = self._due - self._clock()
        with suppress(queue.Empty):
            if left > 0:
                return self._orders.get(timeout=left)
        self._due = self._clock() + self._store.claim_s / BEATS
        return self._beat

    def _tried(self, order: SaveInstruction) -> str:
        """Carry out an instruction; why that failed, or an empty text."""
        return self._retried(lambda: self._writer.put(order))

    def _retried(self, put: Callable[[], None]) -> str:
        """Put something, with retries; why that failed, or an empty text."""
        if self.lost:
            return Unpassing(self.lost)
        try:
            retry(put, time.sleep, passes=all_but(StoreInUse))
        except StoreInUse as failure:
            self._lose(failure)
            return f"{failure}"
        except (StoreError, OSError) as failure:
            return f"{failure}"
        except BaseException as failure:  # a damaged manifest, no memory: no retry helps
            return Unpassing(described(failure))
        return ""

    def _beat(self) -> None:
        """Renew the claim; if the store does not answer, the next renewal may succeed."""
        try:
            self._claim.beat()
        except StoreInUse as failure:
            self._lose(failure)
        except (StoreError, OSError):
            return

    def _lose(self, why: object) -> None:
        """Note that the checkpoint cannot be used any more: another cluster has taken it over, in most cases."""
        if not self.lost:
            self.lost = f"{why}"
            self.on_lost(self.lost)
