"""Stores: named blobs and nothing else. What the blobs hold is the business of the modules beside this one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import quote, unquote

import xxhash

from evenflow.errors import CorruptState, StoreError

Part = bytes | bytearray | memoryview

LONGEST = 255
"""Bytes of one part of a name: what file systems take."""
OWN = "evenflow."
"""What the store's own files begin with, if not with a dot."""
FORMAT_FILE = f"{OWN}json"
"""Says in which format the rest of the directory is."""
_EMPTY = "%"
_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.~%-]+(?:/(?!\.)[A-Za-z0-9_.~%-]+)*")


class Lock(Protocol):
    """The store's own lock on a whole checkpoint: it ends with its holder, in whatever way that ends."""

    def beat(self) -> None:
        """See to it that we still have it; `StoreInUse` if another has."""

    def release(self) -> None:
        """Let others have it. Does nothing the second time."""


class Store(ABC):
    """Blobs by name, kept for good.

    Names are parts joined by '/'; a part has letters, digits and `_ . ~ % -`, does not begin with a dot and is made of
    anything else by `part`. No name is a directory of another: with `a/b` there is no `a`. All methods may be called
    from several threads and several processes at a time. Failures are `StoreError`; nothing is tried twice here.
    `evenflow.testing.check_store` checks a store against what is said below.
    """

    @abstractmethod
    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Keep the parts, one after the other, as one blob. Atomic, durable, and the last one wins.

        When it returns, the blob survives loss of power; until then readers find what was there before, whole, or
        nothing. So a put that failed may simply be done again. The parts are not changed, nor joined in memory, and
        must not change until it returns.
        """

    @abstractmethod
    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        """The bytes of a blob from `start` on, as many as there are but no more than `length`; `BlobMissing` if none.

        The memory is the caller's own and may be written to.
        """

    @abstractmethod
    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        """Name and bytes of every blob whose name begins with `prefix`, sorted; what was put before is among them."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Remove blobs; those that are not there do not matter."""

    def lock(self, mine: dict[str, Any]) -> Lock | None:
        """Lock the whole checkpoint, or `StoreInUse`; None if the store has no locks. `mine` says who does."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what the store holds open; it is not used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def shown(where: object) -> str:
    """The place as it may be shown: without user, password and parameters, except the schema of a database."""
    scheme, separator, rest = str(where).partition("://")
    if not separator or scheme == "file":
        return str(where)
    path, _, parameters = rest.rpartition("@")[2].partition("?")
    schema = re.search(r"(?:^|&)(schema=[^&]*)", parameters)
    return f"{scheme}://{path}" + (f"?{schema[1]}" if schema else "")


def part(text: str) -> str:
    """Any text as one part of a name; `unpart` is the way back.

    As in URLs; also what begins with a dot or `evenflow.` is quoted, for such names are the store's own, and nothing at
    all becomes '%'.
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
    """The name, if it is one."""
    if not is_name(name):
        raise StoreError(f"{name!r} is no name of a blob: make its parts with evenflow.state.store.base.part")
    return name


def is_name(name: str) -> bool:
    """Whether a blob may be called so; the store's own files are not."""
    return name.partition("/")[0] != FORMAT_FILE and _NAME.fullmatch(name) is not None


def mark_of(name: str) -> int:
    """What stands for a name in the checksums of its blob; 0 for none."""
    return xxhash.xxh3_64_intdigest(name) if name else 0


def corrupt(name: str, offset: int, why: str) -> CorruptState:
    """The error for a blob whose bytes are not those that were written."""
    return CorruptState(
        f"blob {name or '(unnamed)'} is damaged at byte {offset}: {why}; "
        "`evenflow state verify` tells which epochs can still be restored"
    )
