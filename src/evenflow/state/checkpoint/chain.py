"""How far a query has come, by its manifests in a store, and which of them are missing.

A batch leaves three kinds of manifests, one after the other: an attempt has begun, an attempt is whole, and what the
state at its end consists of. The first of the next batch names the last of the one before. So no manifest can vanish
unnoticed, unless all that the newest batch has left vanishes with it.

The operators of a query are listed in `evenflow.queries/<query>`, each with the batch in which it was added: an
operator that is not listed never had state here, and one that is listed without any state has lost it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from evenflow.errors import BlobMissing, CorruptState
from evenflow.state.checkpoint.manifest import Manifest, read_manifest
from evenflow.state.store.base import OWN, Store, corrupt, part, unpart
from evenflow.state.store.blob_names import begun_name, epoch_name, parse, prefix_of, whole_name
from evenflow.state.store.checked_json import sealed, unsealed

QUERIES = f"{OWN}queries/"
"""Prefix of the names of the lists of operators; no region has this name."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest manifests of a query."""

    manifest: Manifest | None
    """The `epoch` manifest of the newest epoch that has a readable one."""
    wholes: tuple[Manifest, ...]
    """`whole` manifests of later epochs, by epoch and attempt."""
    begun: Manifest | None
    """The newest `begun` manifest."""
    damaged: tuple[CorruptState, ...]
    """Why manifests could not be read: to go on without them would be to go back in time."""
    missing: tuple[tuple[str, str], ...]
    """Names of blobs that are needed and missing, each with the reason why it is needed."""


def latest(store: Store, prefix: str) -> Latest:
    """Read the newest manifest of an epoch, and those put after it."""
    names = {name: parse(name) for name, _ in store.names(prefix)}
    damaged: list[CorruptState] = []

    def read(name: str) -> Manifest | None:
        try:
            return read_manifest(store, name)
        except BlobMissing:  # deleted meanwhile
            return None
        except CorruptState as error:
            damaged.append(error)
            return None

    def of(kind: str) -> list[tuple[int, str]]:
        return [(known.epoch, name) for name, known in names.items() if known is not None and known.kind == kind]

    found = next((each for _, name in sorted(of("epoch"), reverse=True) if (each := read(name)) is not None), None)
    settled = found.epoch if found is not None else -1
    later = [each for epoch, name in of("whole") if epoch > settled and (each := read(name)) is not None]
    wholes = tuple(sorted(later, key=lambda each: each.key))
    started = [each for epoch, name in of("begun") if epoch >= settled and (each := read(name)) is not None]
    begun = max(started, key=lambda each: each.key, default=None)
    missing = () if damaged else tuple(_missing(prefix, names, found, wholes, begun))
    return Latest(found, wholes, begun, tuple(damaged), missing)


def _missing(
    prefix: str,
    names: Mapping[str, object],
    found: Manifest | None,
    wholes: tuple[Manifest, ...],
    begun: Manifest | None,
) -> Iterator[tuple[str, str]]:
    """Names of blobs that these manifests need and that are missing, each with the reason."""
    if found is None and not wholes and (begun is None or begun.epoch < 0):
        return  # the query has no state yet
    if begun is None:
        key = found.key if found is not None else wholes[-1].key
        yield begun_name(prefix, *key), "it is missing; every attempt leaves it, and the last stays"
    known = {each.key for each in (found, *wholes) if each is not None}
    settled = found.epoch if found is not None else -2
    for each in (*wholes, *([begun] if begun is not None and begun.epoch > settled else ())):
        if each.before is not None and each.before not in known:
            yield epoch_name(prefix, each.before[0]), f"it is missing; {each.name} follows it"
    if begun is not None and begun.repeats and begun.epoch > settled and (begun.epoch, begun.repeats) not in known:
        yield whole_name(prefix, begun.epoch, begun.repeats), f"it is missing; {begun.name} repeats it"
    for each in [each for each in (found, *wholes) if each is not None]:
        for name in each.blobs():
            if name not in names:
                yield name, f"it is missing; {each.name} needs it"


def missing(store: Store, prefix: str, region: str, query: str) -> Iterator[tuple[str, str]]:
    """Names of all blobs that a query lacks, each with the reason; also of those it could go on without."""
    found = latest(store, prefix)
    yield from found.missing
    newest = found.manifest
    if newest is not None and newest.before is not None:
        before = epoch_name(prefix, newest.before[0])
        if not any(name == before for name, _ in store.names(before)):
            yield before, f"it is missing; {newest.name} follows it"
    with suppress(CorruptState):  # `vanished` reports it
        if newest is not None and region not in (operators(store, query) or {}):
            yield record_name(query), f"it is missing, or does not list {region}, of which there is state"


def unfinished(found: Latest, epoch: int) -> str:
    """The name of the missing `whole` manifest if an attempt before `epoch` has begun, and has no further manifests."""
    begun = found.begun
    settled = found.manifest.epoch if found.manifest is not None else -1
    if begun is None or not settled < begun.epoch < epoch or any(each.epoch == begun.epoch for each in found.wholes):
        return ""
    return whole_name(begun.prefix, *begun.key)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """The operators of a query."""

    operators: Mapping[str, int]
    """By name, the batch in which it was added."""
    absent: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """Operators among them that the user has left out: by name, the first batch without it, and the batch in which it
    came back; None if it has not."""
    adopted: Mapping[str, str] = field(default_factory=dict)
    """Operators that have gone on with the state of another name: by name, the one they had before."""
    without_us: tuple[tuple[int, int], ...] = ()
    """First and last of batches that were run without any operator of ours, as the user has said."""
    leaving: frozenset[str] = frozenset()
    """Names that blobs may be left of, because a renaming is under way or was broken off."""

    @property
    def expected(self) -> set[str]:
        """The operators that the query has, as far as this list knows."""
        return {name for name in self.operators if self.absent.get(name, (0, 0))[1] is not None}

    def unexplained(self, name: str, last: int, epoch: int) -> Iterator[tuple[int, int]]:
        """First and last of batches after `last` and before `epoch` of which nothing says that `name` was not run."""
        spans = list(self.without_us)
        if name in self.absent:
            gone, back = self.absent[name]
            spans.append((gone, (epoch if back is None else back) - 1))
        first = last + 1
        for start, end in sorted(spans):
            if first < min(start, epoch):
                yield first, min(start, epoch) - 1
            first = max(first, end + 1)
        if first < epoch:
            yield first, epoch - 1

    def renamed(self, was: str, name: str) -> QueryRecord:
        """With another name for an operator, in the place of one that has that name and no state yet."""
        operators = {known: since for known, since in self.operators.items() if known not in (was, name)}
        absent = {known: batches for known, batches in self.absent.items() if known not in (was, name)}
        return replace(
            self,
            operators=operators | {name: self.operators[was]},
            absent=absent | ({name: self.absent[was]} if was in self.absent else {}),
            adopted={known: old for known, old in self.adopted.items() if known != was} | {name: was},
            leaving=self.leaving - {name} | {was},
        )

    def dropped(self, name: str) -> QueryRecord:
        """With the note that nothing is left of a name that a renaming has left."""
        return replace(self, leaving=self.leaving - {name})

    def adopting(self, was: str, name: str) -> QueryRecord:
        """With the note that an operator is about to go on with the state of `was`, and is not listed before it has."""
        operators = {known: since for known, since in self.operators.items() if known != name}
        return replace(self, operators=operators, adopted={**self.adopted, name: was}, leaving=self.leaving | {name})

    def added(self, name: str, epoch: int) -> QueryRecord:
        """With an operator that comes in a batch."""
        adopted = {known: old for known, old in self.adopted.items() if known != name}  # of a renaming broken off
        return replace(self, operators={**self.operators, name: epoch}, adopted=adopted, leaving=self.leaving - {name})

    def unattended(self, first: int, last: int) -> QueryRecord:
        """With the note that batches were run without any operator of ours, in the place of one from the same on."""
        others = tuple(each for each in self.without_us if each[0] != first)
        return replace(self, without_us=(*others, (first, last)))

    def withdrawn(self, batch: int, name: str = "") -> QueryRecord:
        """Without notes that batches after `batch` were run without any operator of ours, or without `name`."""
        if name:
            gone = self.absent.get(name, (0, None))
            noted = gone[1] is not None and gone[0] > batch
            return replace(self, absent={**self.absent, name: (0, 0)}) if noted else self
        return replace(self, without_us=tuple(each for each in self.without_us if each[0] <= batch))

    def without(self, names: Iterable[str], epoch: int) -> QueryRecord:
        """With operators that are left out from a batch on."""
        return replace(self, absent={**self.absent, **{name: (epoch, None) for name in names}})

    def left_out(self, name: str, first: int, last: int) -> QueryRecord:
        """With the note that an operator was left out of batches."""
        return replace(self, absent={**self.absent, name: (first, last + 1)})

    def back(self, name: str, epoch: int) -> QueryRecord:
        """With an operator that comes back in a batch, if it was left out."""
        first, until = self.absent.get(name, (0, 0))
        return self if until is not None else replace(self, absent={**self.absent, name: (first, epoch)})


def operators(store: Store, query: str) -> dict[str, int] | None:
    """The operators of a query, each with the batch in which it was added; None if there is no list of them."""
    record = query_record(store, query)
    return None if record is None else dict(record.operators)


def query_record(store: Store, query: str) -> QueryRecord | None:
    """The operators of a query; None if there is no list of them."""
    name = record_name(query)
    try:
        told = unsealed(bytes(store.get(name)), name, "list of operators")
    except BlobMissing:
        return None
    if told["query"] != query:
        raise corrupt(name, 0, f"it holds what belongs in {record_name(told['query'])}")
    absent = {str(name): (int(first), until) for name, (first, until) in told.get("absent", {}).items()}
    known = {str(region): int(since) for region, since in told["operators"].items()}
    without_us = tuple((int(first), int(last)) for first, last in told.get("without_us", ()))
    return QueryRecord(known, absent, told.get("adopted", {}), without_us, frozenset(told.get("leaving", ())))


def note_operators(store: Store, query: str, record: QueryRecord) -> None:
    """Put the list of a query's operators."""
    told: dict[str, object] = {"query": query, "operators": dict(record.operators)}
    if record.absent:
        told["absent"] = {name: list(batches) for name, batches in record.absent.items()}
    if record.adopted:
        told["adopted"] = dict(record.adopted)
    if record.without_us:
        told["without_us"] = [list(batches) for batches in record.without_us]
    if record.leaving:
        told["leaving"] = sorted(record.leaving)
    store.put(record_name(query), [sealed(told)])


def record_name(query: str) -> str:
    """The name of the list of a query's operators."""
    return f"{QUERIES}{part(query)}"


def vanished(store: Store, name: str, there: set[str]) -> Iterator[tuple[str, str]]:
    """Faults of a list of operators: it is damaged, or an operator that it lists has no blobs.

    `there` has the prefixes of all operators and queries that have blobs.
    """
    query = unpart(name.removeprefix(QUERIES))
    try:
        known = operators(store, query) or {}
    except CorruptState as error:
        yield name, f"{error}"
        return
    for region, since in known.items():
        if prefix_of(region, query) not in there:
            yield prefix_of(region, query), f"all of it is missing; operator {region} came in batch {since}"


def leftovers(store: Store) -> set[str]:
    """The prefixes of blobs that a renaming which was broken off has left; the next start of the query deletes them."""
    found = set()
    for name, _ in store.names(QUERIES):
        query = unpart(name.removeprefix(QUERIES))
        with suppress(CorruptState):  # `vanished` reports it
            record = query_record(store, query)
            found |= {prefix_of(left, query) for left in (record.leaving if record is not None else ())}
    return found
