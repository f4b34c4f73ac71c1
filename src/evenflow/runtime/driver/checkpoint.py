"""The driver's side of the checkpoint: puts manifests of attempts and batches, and reads those of earlier runs.

All of it happens on a thread of its own, in the order in which it was asked for, so that the controller never waits for
a disk. After a manifest is put, blobs that no manifest needs any more are deleted.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from evenflow.control.batches.epochs import LATE
from evenflow.control.events import SaveInstruction
from evenflow.errors import BlobMissing, CorruptState, StoreError, StoreInUse, described
from evenflow.model.checkpoint import NOTHING, Base, BatchLog, Begun, Saved, SavedUnits, Voided, WholeAttempt
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
from evenflow.state.checkpoint.manifest import Manifest, epochs, put_manifest, read_manifest
from evenflow.state.checkpoint.progress import progress
from evenflow.state.checkpoint.unit_snapshots import read_index
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import MOVES, epoch_name, parse, prefix_of, whole_name
from evenflow.state.store.claims.claim import BEATS, claim
from evenflow.state.store.claims.fence import Fence
from evenflow.state.store.opening import DATABASES, open_store
from evenflow.state.store.retry import RetryingStore, all_but, retry
from evenflow.state.store.sealed import Place

logger = logging.getLogger("evenflow")

KEPT = 2
"""Manifests of epochs that are kept: the newest, and the one before."""
CLOSE_S = 30.0


class Unpassing(str):
    """Why something could not be saved; another try would fail, too."""

    __slots__ = ()


class CheckpointThread(BackgroundThread):
    """The thread; owns the store and the claim on it."""

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
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._earlier: dict[tuple[str, str], tuple[int, str]] = {}
        """By operator and query, the batch in which it has got more parts, and what it was before."""
        self._stale: dict[str, set[str]] = {}
        """By prefix, snapshots to be deleted once no manifest that is kept needs them."""
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
        """Read what the store has of a query; `done` is called with that on this thread."""
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
            self._earlier[region, query] = epoch, stored
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
        for content in (record.added(region, epoch), Begun(), Base()):
            error = self._tried(SaveInstruction(region, query, "", content))
            if error:
                return error
        return Saved(Base())

    def _beat_in_time(self) -> None:
        """Renew the claim, if that is due."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._store.claim_s / BEATS
            self._beat()

    def _resumed(self, found: Latest, operator: str) -> Saved:
        """What there is of an operator; an attempt that had fewer aggregates cannot be repeated by one with more."""
        assert found.manifest is not None
        assert found.begun is not None
        snapshots = []
        for name in found.manifest.snapshots:
            units = np.fromiter(read_index(partial(self._patient.get, name), name).entries, np.int32)
            parsed = parse(name)
            assert parsed is not None
            snapshots.append(SavedUnits(name, parsed.epoch, units))
        base = Base(*found.manifest.key, tuple(snapshots), found.manifest.logs)
        wholes = tuple(
            WholeAttempt(
                *each.key,
                each.logs[0].segments,
                each.partitions,
                each.expected,
                each.before or NOTHING,
                each.run,
                each.repeatable and each.operator == operator,
            )
            for each in found.wholes
        )
        begun = Begun(*found.begun.key, found.begun.before or NOTHING, found.begun.run)
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
        """What to do next; None at the end. The claim is renewed in time, however much else there is to do."""
        left = self._due - self._clock()
        with suppress(queue.Empty):
            if left > 0:
                return self._orders.get(timeout=left)
        self._due = self._clock() + self._store.claim_s / BEATS
        return self._beat

    def _tried(self, order: SaveInstruction) -> str:
        """Put something, with retries; why that failed, or an empty text."""
        if self.lost:
            return Unpassing(self.lost)
        try:
            retry(lambda: self._put(order), time.sleep, passes=all_but(StoreInUse))
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

    def _put(self, order: SaveInstruction) -> None:
        kept = self._kept[order.region]
        about = (order.region, order.query, kept.operator, kept.units)
        grown_at, earlier = self._earlier.get((order.region, order.query), (-1, ""))
        match order.content:
            case QueryRecord() as record:
                note_operators(self._store, order.query, record)
            case Begun() as begun:
                self._put_begun(about, begun)
            case WholeAttempt() as whole:
                log = (BatchLog(*whole.key, whole.segments),)
                told = Manifest(*about, *whole.key, whole.partitions, logs=log, kind="whole", before=whole.before)
                told = replace(told, expected=whole.expected, run=whole.run, repeatable=whole.repeatable)
                put_manifest(self._store, told)
            case Voided() as voided:
                self._put_begun(about, voided.begun)
                self._store.delete([whole_name(prefix_of(order.region, order.query), *voided.key)])
            case Base() as base:
                partitions = base.logs[-1].partitions if base.logs else ()
                names = tuple(snapshot.name for snapshot in base.snapshots)
                told = Manifest(*about, *base.key, partitions, names, base.logs)
                if base.epoch < grown_at:  # until a batch is whole with the new parts, the query may do without them
                    told = replace(told, operator=earlier)
                self._put_epoch(told, order.stale)

    def _put_begun(self, about: tuple[str, str, str, int], begun: Begun) -> None:
        told = Manifest(*about, *begun.key, (), kind="begun", before=begun.before, run=begun.run, repeats=begun.repeats)
        whole = whole_name(told.prefix, begun.epoch, begun.repeats)
        if begun.repeats and not any(name == whole for name, _ in self._store.names(whole)):
            raise StoreError(f"attempt {begun.attempt} repeats one whose note {whole} could not be put")
        put_manifest(self._store, told)

    def _put_epoch(self, manifest: Manifest, stale: tuple[str, ...]) -> None:
        """Put the manifest of an epoch, and delete what neither it nor the one before needs."""
        prefix = manifest.prefix
        known = [epoch for epoch in epochs(self._store, prefix) if epoch != manifest.epoch]
        needed = set(manifest.blobs())
        previous = self._previous(prefix, known)
        if previous is not None:
            needed.update(previous.blobs())
        put_manifest(self._store, replace(manifest, before=previous.key if previous is not None else None))
        if manifest.epoch >= 0:  # a first state shows nothing of what else there is, and leaves nothing behind
            self._clean(manifest, [epoch_name(prefix, epoch) for epoch in known[KEPT - 1 :]], needed, stale)

    def _previous(self, prefix: str, known: list[int]) -> Manifest | None:
        """The newest manifest so far, which is kept beside the next; None if there is none, or it is damaged."""
        with suppress(BlobMissing, CorruptState):
            return read_manifest(self._store, epoch_name(prefix, known[0])) if known else None
        return None

    def _clean(self, manifest: Manifest, gone: list[str], needed: set[str], stale: tuple[str, ...]) -> None:
        """Delete `gone`, and all else of the query that is not `needed` any more."""
        prefix = manifest.prefix
        first = prefix not in self._stale
        waiting = self._stale.setdefault(prefix, set())
        waiting.update(stale)
        gone += waiting - needed
        waiting &= needed
        epoch = manifest.epoch  # older snapshots than LATE cannot be reported any more
        for kind, before in (("log", epoch + 1), ("whole", epoch + 1), ("begun", epoch), ("units", epoch - LATE)):
            for name, _ in self._store.names(f"{prefix}{kind}/"):
                parsed = parse(name)
                if parsed is not None and parsed.epoch < before and name not in needed:
                    gone.append(name)
        self._store.delete(gone)
        if first and isinstance(self._store, Fence):
            self._store.tidy(prefix, self._complete)

    def _complete(self) -> bool:
        """Whether no operator and query in the store lacks anything; by an altered claim, notes would be hidden."""
        prefixes = {parsed.prefix for name, _ in self._store.names() if (parsed := parse(name)) is not None}
        found = (latest(self._store, prefix) for prefix in prefixes)
        return not any(each.damaged or each.missing for each in found)
