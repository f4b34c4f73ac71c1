"""What a store is: named blobs and nothing else. `state.checkpoint` knows what the blobs hold."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import quote, unquote

import xxhash

from evenflow.errors import CorruptState, InvalidArgument, StoreError

Part = bytes | bytearray | memoryview

LONGEST = 255
"""Bytes of one part of a name, at most: the limit of file systems."""
OWN = "evenflow."
"""Names of the store's own files begin with this, or with a dot."""
CLAIM_S = 60.0
FORMAT_FILE = f"{OWN}json"
"""Says which format the store has."""
_EMPTY = "%"
_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.~%-]+(?:/(?!\.)[A-Za-z0-9_.~%-]+)*")


class Lock(Protocol):
    """The store's own lock on a whole checkpoint: it is freed when its holder ends, however it ends."""

    def beat(self) -> None:
        """Make sure that we still have it; `StoreInUse` if another cluster has."""

    def release(self) -> None:
        """Free it. Does nothing the second time."""


class Store(ABC):
    """Durable blobs by name.

    A name is parts joined by '/'. A part has letters, digits and `_ . ~ % -`, and does not begin with a dot; `part`
    turns any text into one. No name is a directory of another: with `a/b` there is no `a`. All methods may be called
    from several threads and several processes at a time. A failure is a `StoreError`; a store tries nothing twice.
    `evenflow.testing.check_store` checks a store against all that is said here.
    """

    @abstractmethod
    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Store the parts, one after the other, as one blob. Atomic and durable; the last put of a name wins.

        When it returns the blob survives a loss of power; until then readers find what was there before, whole, or
        nothing. So a put that failed may simply be repeated. The parts are neither changed nor joined in memory, and
        must not change until it returns.
        """

    @abstractmethod
    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        """The bytes of a blob from `start` on, at most `length`; `BlobMissing` if there is no such blob.

        The memory is the caller's own and may be written to.
        """

    @abstractmethod
    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        """Name and size in bytes of every blob whose name begins with `prefix`, sorted; all earlier puts show."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Remove blobs; names without a blob are ignored."""

    @property
    def claim_s(self) -> float:
        """Where the store has no locks, a claim whose holder has given no sign for so many seconds is void."""
        return CLAIM_S

    def lock(self, mine: dict[str, object]) -> Lock | None:
        """Lock the whole checkpoint; None if the store has no locks, `StoreInUse` if another has it.

        `mine` describes us to those who come after: owner, host, pid, since.
        """
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Close what the store holds open; it is not used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class WrappedStore(Store):
    """Another store, to which all calls are passed on; subclasses change some of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, name: str, parts: Iterable[Part]) -> None:
        self._store.put(name, parts)

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        return self._store.get(name, start, length)

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        return self._store.names(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._store.delete(names)

    @property
    def claim_s(self) -> float:
        return self._store.claim_s

    def lock(self, mine: dict[str, object]) -> Lock | None:
        return self._store.lock(mine)

    def close(self) -> None:
        self._store.close()


def shown(where: object) -> str:
    """An address without its secrets: no user, no password, no parameters but the schema of a database."""
    scheme, separator, rest = str(where).partition("://")
    if not separator or scheme == "file":
        return str(where)
    path, _, parameters = rest.rpartition("@")[2].partition("?")
    schema = re.search(r"(?:^|&)(schema=[^&]*)", parameters)
    return f"{scheme}://{path}" + (f"?{schema[1]}" if schema else "")


def part(text: str) -> str:
    """Turn any text into one part of a name; `unpart` is the reverse.

    Characters are quoted as in URLs. So is the first one of a text that begins with a dot or `evenflow.`, since such
    names are the store's own. The empty text becomes '%'.
    """
    quoted = quote(text, safe="", errors="surrogatepass") or _EMPTY
    if quoted.startswith((".", OWN)):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) > LONGEST:
        raise StoreError(f"the name {text[:40]!r}... takes {len(quoted)} bytes, over {LONGEST}: give a shorter one")
    return quoted


def unpart(quoted: str) -> str:
    """The text that `part` was given."""
    return "" if quoted == _EMPTY else unquote(quoted, errors="surrogatepass")


def checked(name: str) -> str:
    """The name itself; `StoreError` if it is not valid."""
    if not is_name(name):
        raise StoreError(f"{name!r} is no name of a blob: make its parts with evenflow.state.store.base.part")
    return name


def check_range(name: str, start: int, length: int | None) -> None:
    """Refuse a range of bytes of a blob that makes no sense."""
    if start < 0 or (length is not None and length < 0):
        raise InvalidArgument(f"bytes {start} to {start} + {length} of blob {name}: neither may be negative")


def is_name(name: str) -> bool:
    """Whether this is a valid name of a blob; that of the format file is not."""
    return name.partition("/")[0] != FORMAT_FILE and _NAME.fullmatch(name) is not None


def mark_of(name: str) -> int:
    """A number that makes the checksums of a blob depend on its name; 0 for no name."""
    return xxhash.xxh3_64_intdigest(name) if name else 0


def corrupt(name: str, offset: int, why: str) -> CorruptState:
    """The error for a blob whose bytes are not those that were written."""
    return CorruptState(
        f"blob {name or '(unnamed)'} is damaged at byte {offset}: {why}; "
        "`evenflow state verify` tells which epochs can still be restored"
    )
