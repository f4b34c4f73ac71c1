"""Claims on a checkpoint as blobs, and which puts of a name count; `fence` says how they are used.

For each claim there is a blob `evenflow.claims/G.T`: G is its generation, T a random token. What a driver puts under a
claim is stored as `<name>~G.T.N`, where N counts the puts of that claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenflow.errors import BlobMissing, CorruptState, StoreError
from evenflow.state.store.base import OWN, Store, corrupt
from evenflow.state.store.checked_json import sealed, unsealed

CLAIMS = f"{OWN}claims/"
_CLAIM = re.compile(rf"{re.escape(CLAIMS)}([0-9]+)\.([0-9a-f]+)")
_VERSION = re.compile(r"(.*[^/])~([0-9]+)\.([0-9a-f]+)\.([0-9]+)")


class Mark(NamedTuple):
    """Identifies a claim. The highest mark, by generation and then by token, has the checkpoint."""

    generation: int
    token: str
    """Random, so that of two claims taken in the same instant one is higher."""

    def __str__(self) -> str:
        return f"{self.generation}.{self.token}"


NOBODY = Mark(0, "")
"""The mark of blobs that were put without a claim, or before there were generations."""


class Version(NamedTuple):
    """One put of a name. Of several that count, the highest is read."""

    mark: Mark
    number: int


@dataclass(frozen=True, slots=True)
class Holding:
    """The content of a claim's blob."""

    about: Mapping[str, Any]
    """Who holds it: `owner`, `host`, `pid`, `since`, and the time of the last `beat`, in seconds since 1970."""
    counts: Mapping[Mark, int] | None = None
    """By lower claim, the last of its puts that counts, by number; None while the claim is being taken."""
    released: bool = False

    def encode(self, mark: Mark) -> bytes:
        """The blob of a claim, as JSON with a checksum; it carries the name of the claim."""
        counts = None if self.counts is None else {str(mark): number for mark, number in sorted(self.counts.items())}
        return sealed({"claim": str(mark), "about": dict(self.about), "counts": counts, "released": self.released})

    @classmethod
    def read(cls, store: Store, mark: Mark) -> Holding:
        """Read the blob of a claim; `CorruptState` if it is damaged, or is the blob of another claim."""
        name = f"{CLAIMS}{mark}"
        try:
            fields = unsealed(bytes(store.get(name)), name, "claim")
            if fields["claim"] != str(mark):
                raise corrupt(name, 0, f"it holds what belongs in {CLAIMS}{fields['claim']}")
            counts = fields["counts"]
            if counts is not None:
                counts = {_mark(*text.split(".")): int(number) for text, number in counts.items()}
            return cls(dict(fields["about"]), counts, bool(fields["released"]))
        except CorruptState as error:
            raise CorruptState(f"{error}. {RESTORE}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"it is no claim: {type(error).__name__}: {error}"
            raise CorruptState(f"{corrupt(name, 0, why)}. {RESTORE}") from None


RESTORE = (
    "It says which notes and manifests count, so nothing was changed or deleted: bring it back from a copy, or give a "
    "checkpoint of its own"
)
"""What to do about a claim that is damaged."""


def marks(store: Store) -> list[Mark]:
    """All claims in the store, in ascending order: the last one is the holder's."""
    found = (_CLAIM.fullmatch(name) for name, _ in store.names(CLAIMS))
    return sorted(_mark(match[1], match[2]) for match in found if match is not None)


def _mark(generation: str, token: str) -> Mark:
    return Mark(int(generation), token)


def split(name: str) -> tuple[str, Version]:
    """Take apart a name in the store: the name that was put, and which put of it this is."""
    match = _VERSION.fullmatch(name)
    return (
        (name, Version(NOBODY, 0)) if match is None else (match[1], Version(_mark(*match.group(2, 3)), int(match[4])))
    )


def settled(store: Store, before: Mark | None = None) -> dict[Mark, int]:
    """By claim, the number of the last put that counts; of all claims, or of those below `before`."""
    for mark in reversed([mark for mark in marks(store) if before is None or mark < before]):
        try:
            holding = Holding.read(store, mark)
        except BlobMissing:  # a higher claim has deleted it since
            continue
        if holding.counts is not None:
            return _counted(store, mark, holding.counts)
    return _counted(store, NOBODY, {})


def _counted(store: Store, holder: Mark, counts: Mapping[Mark, int]) -> dict[Mark, int]:
    """The counts that a holder has noted of lower claims, and of its own puts the highest number that is there."""
    found = {NOBODY: 0}
    for name, _ in store.names():
        _, (mark, number) = split(name)
        if mark > holder:
            raise StoreError(
                f"blob {name} is of claim {mark}, and there is no blob {CLAIMS}{mark} nor a later one, which says what "
                "counts: bring it back from a backup, or give a checkpoint of its own"
            )
        if mark == holder:
            found[mark] = max(number, found.get(mark, 0))
        elif mark in counts:
            found[mark] = counts[mark]
    return found


def holders(store: Store) -> Iterator[Holding]:
    """The content of all claims' blobs, in descending order: the first one is the holder's."""
    for mark in reversed(marks(store)):
        try:
            yield Holding.read(store, mark)
        except BlobMissing:
            continue


def about_holder(store: Store, mark: Mark) -> Mapping[str, Any]:
    """What the holder of a claim has written about itself; nothing if that cannot be read."""
    try:
        return Holding.read(store, mark).about
    except (StoreError, CorruptState):
        return {}
