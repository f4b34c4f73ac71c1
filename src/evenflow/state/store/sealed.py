"""A store whose blobs are authenticated with the user's key: what was not written with the key is not read.

State is pickled, so anyone who can write to a checkpoint could run code in the cluster. A key prevents that: a blob is
cut into chunks of 64 kB, and each is followed by 16 bytes of HMAC-SHA256 over the blob's name (without the claim it was
put under), the chunk's number, whether it is the last one, and its bytes. A chunk is handed out only after it has been
checked: none can be changed, cut off, put in another place or under another name. Those who can write to the store can
still delete blobs, and bring back old ones under their own names. Nothing is encrypted.

The blob `evenflow.key` shows that there is a key, and tells a wrong key from damage.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.errors import BlobMissing, InvalidArgument, StoreError
from evenflow.state.store.base import OWN, Part, Store, WrappedStore, check_range, checked, corrupt, shown
from evenflow.state.store.claims.generations import split

CHUNK = 64 * 1024
TAG = 16
WHOLE = CHUNK + TAG
KEY_BLOB = f"{OWN}key"
LEAST = 16
"""Bytes of a key, at least: a shorter one can be guessed from a blob."""
_PLACE = struct.Struct("<QB")
"""A chunk's number, and whether it is the last."""


Opener = Callable[[str], Store]
"""Opens the store at an address, without looking at its key."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is, the key to it, and how each process opens it."""

    where: str | Path
    key: bytes = field(default=b"", repr=False)
    opener: Opener | None = None
    """It is pickled, so it is a function of a module; None: the address says which kind of store it is."""

    def __str__(self) -> str:
        return shown(self.where)


def placed(where: str, key: bytes, opener: Opener | None = None) -> str | Place:
    """An argument for `open_store`: with a key or an opener a Place, without them the address."""
    return Place(where, key, opener) if key or opener is not None else where


def key_of(given: bytes | str | None) -> bytes:
    """Derive the key that is sent to all processes from the user's; empty if there is none. No error shows it."""
    if given is None:
        return b""
    if not isinstance(given, bytes | str):
        raise InvalidArgument(f"checkpoint_key is a {type(given).__name__}: give bytes or a string, or leave it out")
    key = given.encode() if isinstance(given, str) else given
    if len(key) < LEAST:
        raise InvalidArgument(
            f"checkpoint_key has {len(key)} bytes: give at least {LEAST}, for instance what secrets.token_hex(32) gives"
        )
    return hashlib.blake2b(key, digest_size=32, person=b"evenflow-state").digest()


class SealedStore(WrappedStore):
    """Another store whose blobs are sealed with a key."""

    def __init__(self, store: Store, key: bytes, where: str, *, create: bool = True) -> None:
        super().__init__(store)
        self._mac = hmac.new(key, digestmod="sha256")
        mark = hmac.digest(key, b"\0checkpoint", "sha256")[:TAG]  # no name begins so
        try:
            there = bytes(store.get(KEY_BLOB))
        except BlobMissing:
            if store.names() or not create:
                raise StoreError(
                    f"{where} was written without a checkpoint_key, so anybody may have written it: leave the key out, "
                    "or give a checkpoint of its own"
                ) from None
            store.put(KEY_BLOB, [mark])
        else:
            if not hmac.compare_digest(there, mark):
                raise StoreError(f"the checkpoint_key is not the one that {where} was written with")

    def put(self, name: str, parts: Iterable[Part]) -> None:
        self._store.put(name, list(self._sealed(checked(name), parts)))

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        check_range(name, start, length)
        first = start // CHUNK
        count = None if length is None else max(1, -(-(start + length) // CHUNK) - first)
        raw = self._store.get(name, first * WHOLE, None if count is None else count * WHOLE + 1)
        if not raw.nbytes and first:  # beyond the end, if that is where it was
            end = self.get(name).nbytes
            if end > start:
                raise corrupt(name, start, "it was cut off while it was read")
            return raw
        content = self._opened(name, raw, first, count)[start - first * CHUNK :]
        return content if length is None else content[:length]

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        return [(name, _size(size)) for name, size in self._store.names(prefix) if name != KEY_BLOB]

    def _sealed(self, name: str, parts: Iterable[Part]) -> Iterator[Part]:
        """Cut the parts into chunks, each followed by its tag; nothing is copied."""
        chunk: list[memoryview] = []
        room, number = CHUNK, 0
        for part in parts:
            view = memoryview(part).cast("B")
            while view.nbytes:
                if not room:
                    yield self._tag(name, number, False, chunk)
                    chunk, room, number = [], CHUNK, number + 1
                piece, view = view[:room], view[room:]
                chunk.append(piece)
                room -= piece.nbytes
                yield piece
        yield self._tag(name, number, True, chunk)

    def _tag(self, name: str, number: int, last: bool, chunk: Iterable[memoryview]) -> bytes:
        digest = self._mac.copy()
        digest.update(split(name)[0].encode() + b"\0" + _PLACE.pack(number, last))
        for piece in chunk:
            digest.update(piece)
        return digest.digest()[:TAG]

    def _opened(self, name: str, raw: memoryview, first: int, count: int | None) -> memoryview:
        """Check chunks from number `first` on; their bytes, moved together within `raw`, which is the caller's own.

        With `count` only that many are checked; then `raw` has one byte more if others follow.
        """
        there = -(-raw.nbytes // WHOLE) or 1
        at = 0
        for place in range(there if count is None else min(count, there)):
            sealed = raw[place * WHOLE : (place + 1) * WHOLE]
            piece, tag = sealed[:-TAG], sealed[-TAG:]
            last = place + 1 == there
            if sealed.nbytes < TAG or not hmac.compare_digest(tag, self._tag(name, first + place, last, [piece])):
                raise corrupt(
                    name, (first + place) * CHUNK, "it was not written with this checkpoint_key, or was changed since"
                )
            raw[at : at + piece.nbytes] = piece
            at += piece.nbytes
        return raw[:at]


def refuse_sealed(store: Store, where: str) -> None:
    """Refuse to open a store without the key that it has."""
    try:
        store.get(KEY_BLOB, 0, 1)
    except BlobMissing:
        return
    raise StoreError(
        f"{where} was written with a checkpoint_key: give it (Cluster(..., checkpoint_key=...); for `evenflow state`, "
        "the environment variable EVENFLOW_CHECKPOINT_KEY or --key-file)"
    )


def _size(stored: int) -> int:
    """Bytes of a blob, given how many it takes in the store."""
    return max(0, stored - TAG * max(1, -(-stored // WHOLE)))
