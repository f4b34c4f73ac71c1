"""Where a query stands, by the manifests it has in a store, and which of them are missing.

A batch leaves three of them, one after the other: an attempt at it has begun, an attempt is whole, and what the state
at its end is made of. The first of the next batch names the last of the one before. So of what was there once nothing
can be gone without being missed, short of all that the newest batch has left.

Which operators a query has is noted as well, in `evenflow.queries/<query>`, with the batch in which each came: what
that does not list was never here, and what it lists and is not to be found is lost.
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
"""What the names of the lists of operators begin with; no region is called so."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Where a query stands."""

    manifest: Manifest | None
    """Of the newest epoch that has a readable one."""
    wholes: tuple[Manifest, ...]
    """Whole attempts at later epochs, by epoch and attempt."""
    begun: Manifest | None
    """The attempt that began last."""
    damaged: tuple[CorruptState, ...]
    """Why manifests were passed over: who goes on nevertheless goes back in time."""
    missing: tuple[tuple[str, str], ...]
    """Blobs that are needed and not there, each with who needs it."""


def latest(store: Store, prefix: str) -> Latest:
    """The newest manifest of an epoch, and what was noted after it."""
    names = {name: parse(name) for name, _ in store.names(prefix)}
    damaged: list[CorruptState] = []

    def read(name: str) -> Manifest | None:
        try:
            return read_manifest(store, name)
        except BlobMissing:  # deleted while we look
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
    """What is not there, of what the manifests that are there name, and who needs it."""
    if found is None and not wholes and (begun is None or begun.epoch < 0):
        return  # nothing was there yet
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
    """All that a query lacks, and who needs it; also what it could go on without."""
    found = latest(store, prefix)
    yield from found.missing
    newest = found.manifest
    if newest is not None and newest.before is not None:
        before = epoch_name(prefix, newest.before[0])
        if not any(name == before for name, _ in store.names(before)):
            yield before, f"it is missing; {newest.name} follows it"
    with suppress(CorruptState):  # `vanished` tells
        if newest is not None and region not in (operators(store, query) or {}):
            yield record_name(query), f"it is missing, or does not list {region}, of which there is state"


def unfinished(found: Latest, epoch: int) -> str:
    """If an attempt at a batch before `epoch` has begun of which no more is known: the note that is not there."""
    begun = found.begun
    settled = found.manifest.epoch if found.manifest is not None else -1
    if begun is None or not settled < begun.epoch < epoch or any(each.epoch == begun.epoch for each in found.wholes):
        return ""
    return whole_name(begun.prefix, *begun.key)


def operators(store: Store, query: str) -> dict[str, int] | None:
    """The operators that a query has in this store, each with the batch in which it came; None if it has none."""
    name = record_name(query)
    try:
        told = unsealed(bytes(store.get(name)), name)
    except BlobMissing:
        return None
    return {str(region): int(since) for region, since in told["operators"].items()}


def note_operators(store: Store, query: str, known: Mapping[str, int]) -> None:
    """Note which operators a query has, each with the batch in which it came."""
    store.put(record_name(query), [sealed({"query": query, "operators": dict(known)})])


def record_name(query: str) -> str:
    """The name of the list of a query's operators."""
    return f"{QUERIES}{part(query)}"


def vanished(store: Store, name: str, there: set[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with a list of operators: it is damaged, or there is nothing of one that it has.

    `there` are the prefixes of those of which there is something.
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
