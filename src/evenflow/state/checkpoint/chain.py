"""How far a query has come, by its manifests in a store, and which of them are missing.

A batch leaves three kinds of manifests, one after the other: an attempt has begun, an attempt is whole, and what the
state at its end consists of. The first of the next batch names the last of the one before. So no manifest can vanish
unnoticed, unless all that the newest batch has left vanishes with it.

The operators of a query are listed in `evenflow.queries/<query>`, each with the batch in which it was added: an
operator that is not listed never had state here, and one that is listed without any state has lost it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from evenflow.errors import BlobMissing, CorruptState
from evenflow.state.checkpoint.manifest import Manifest, read_manifest, sealed, unsealed
from evenflow.state.store.base import OWN, Store, part, unpart
from evenflow.state.store.blob_names import begun_name, epoch_name, parse, prefix_of, whole_name

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


def operators(store: Store, query: str) -> dict[str, int] | None:
    """The operators of a query, each with the batch in which it was added; None if there is no list of them."""
    name = record_name(query)
    try:
        told = unsealed(bytes(store.get(name)), name)
    except BlobMissing:
        return None
    return {str(region): int(since) for region, since in told["operators"].items()}


def note_operators(store: Store, query: str, known: Mapping[str, int]) -> None:
    """Put the list of a query's operators, each with the batch in which it was added."""
    store.put(record_name(query), [sealed({"query": query, "operators": dict(known)})])


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
