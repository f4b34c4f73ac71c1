"""The laws that every store must keep: what `evenflow.testing.check_store` checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.state.store.base import Part, Store, part, unpart
from evenflow.state.store.claims.fence import Fence, FencedView

ODD = [
    "",
    ".",
    "..",
    "evenflow.json",
    ".hidden",
    "a/b",
    "a b",
    "%",
    "%2E",
    "café",
    "\u0000",
    "C:\\x",
    "*?[",
    "~",
    "-rf",
    "\n",
    "a" * 80,
]
"""Texts that `part` must turn into parts of names."""
THREADS = 8
BLOBS = 20
"""Of each thread."""


def check(make: Callable[[], Store], large: int) -> None:
    """Check all laws, each on a new store."""
    laws: list[Callable[[Store], None]] = [
        _round_trip,
        _parts,
        _ranges,
        _overwriting,
        _listing,
        _deleting,
        _odd_names,
        _bad_names,
        _failing,
        _threads,
        _fencing,
        lambda store: _large(store, large),
    ]
    for law in laws:
        with make() as store:
            _say(not store.names(), "fresh", "make() gave a store that is not empty: give a new one each time")
            law(store)


def _say(held: bool, law: str, broken: str) -> None:
    if not held:
        raise AssertionError(f"law '{law}': {broken}")


def _round_trip(store: Store) -> None:
    for content in (b"", b"x", bytes(range(256)) * 5):
        name = f"a/{len(content)}"
        store.put(name, [content])
        found = store.get(name)
        _say(bytes(found) == content, "round trip", f"put {len(content)} bytes, got others back")
        _say(not found.readonly, "round trip", "what get gives cannot be written to")
        if content:
            found[0] ^= 1
            _say(bytes(store.get(name)) == content, "round trip", "writing to what get gave changes the blob")
    try:
        store.get("a/c")
    except BlobMissing:
        return
    raise AssertionError("law 'round trip': get of a blob that is not there must raise BlobMissing")


def _parts(store: Store) -> None:
    parts: list[Part] = [b"ab", bytearray(b""), np.arange(3, dtype="<i8").data, bytearray(b"c")]
    whole = b"".join(bytes(piece) for piece in parts)
    store.put("p/1", parts)
    _say(bytes(store.get("p/1")) == whole, "parts", "a blob is not its parts one after the other")
    many: list[Part] = [bytes([place % 256]) for place in range(5000)]
    store.put("p/2", iter(many))
    _say(bytes(store.get("p/2")) == b"".join(many), "parts", "5,000 parts do not make up their blob")
    store.put("p/3", [])
    _say(store.get("p/3").nbytes == 0, "parts", "no parts at all do not make an empty blob")


def _ranges(store: Store) -> None:
    content = bytes(range(100))
    store.put("r", [content])
    for start, length in ((0, 10), (90, 10), (90, 11), (50, None), (100, 5), (200, 5), (3, 0), (0, None)):
        expected = content[start:] if length is None else content[start : start + length]
        found = bytes(store.get("r", start, length))
        _say(found == expected, "ranges", f"get({start}, {length}) of 100 bytes gave {len(found)} wrong ones")


def _overwriting(store: Store) -> None:
    store.put("o", [b"first, and longer"])
    store.put("o", [b"second"])
    _say(bytes(store.get("o")) == b"second", "overwriting", "the last put does not win")
    _say(store.names() == [("o", 6)], "overwriting", f"a blob put twice is listed as {store.names()}")


def _listing(store: Store) -> None:
    sizes = {"a/log/1.1": 3, "a/log/1.2": 0, "a/log/10.1": 1, "a/logs": 4, "ab/log/1.1": 2, "b": 5}
    for name, size in sizes.items():
        store.put(name, [bytes(size)])
    for prefix in ("", "a", "a/", "a/log", "a/log/", "a/log/1", "a/log/1.", "b", "c", "c/d", "b/c"):
        expected = sorted((name, size) for name, size in sizes.items() if name.startswith(prefix))
        found = store.names(prefix)
        _say(found == expected, "listing", f"names({prefix!r}) gave {found}, not {expected}")


def _deleting(store: Store) -> None:
    for name in ("d/1", "d/2", "d/e/3"):
        store.put(name, [b"x"])
    store.delete(["d/1", "d/1", "d/e/3", "never/was"])
    store.delete(["d/1"])
    store.delete([])
    _say(store.names() == [("d/2", 1)], "deleting", f"after delete there are {store.names()}, not d/2 alone")
    store.put("d/1", [b"again"])
    _say(bytes(store.get("d/1")) == b"again", "deleting", "a blob cannot be put again after delete")


def _odd_names(store: Store) -> None:
    for place, text in enumerate(ODD):
        store.put(f"n/{part(text)}/x", [bytes(place)])
    found = {unpart(name.split("/")[1]): size for name, size in store.names("n/")}
    _say(found == {text: place for place, text in enumerate(ODD)}, "names", f"odd names come back as {found}")
    for place, text in enumerate(ODD):
        _say(store.get(f"n/{part(text)}/x").nbytes == place, "names", f"the blob for {text!r} is another's")


def _bad_names(store: Store) -> None:
    for name in ("", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a b", "a\n"):
        for call in (partial(store.put, name, [b"x"]), partial(store.get, name)):
            refused = False
            try:
                call()
            except StoreError as error:
                refused = not isinstance(error, BlobMissing)
            _say(refused, "bad names", f"{name!r} must be refused with a StoreError")
    _say(not store.names(), "bad names", f"names that were refused left {store.names()}")


def _failing(store: Store) -> None:
    """A put that fails half-way, here because its parts fail, leaves what was there before."""
    store.put("f/old", [b"old"])

    def broken() -> Iterator[Part]:
        yield b"some"
        raise RuntimeError("no more")

    for name in ("f/old", "f/new"):
        try:
            store.put(name, broken())
        except RuntimeError:
            continue
        raise AssertionError("law 'atomic': put must let the failure of its parts through")
    _say(store.names() == [("f/old", 3)], "atomic", f"a put that failed left {store.names()}, not f/old with 3 bytes")
    _say(bytes(store.get("f/old")) == b"old", "atomic", "a put that failed changed the blob")


def _threads(store: Store) -> None:
    """Threads put, read, list and delete their own blobs, and all put one shared blob."""

    def work(thread: int) -> str:
        for place in range(BLOBS):
            name, content = f"t/{thread}/{place}", bytes([thread]) * (1000 + place)
            store.put(name, [content])
            store.put("t/shared", [bytes([thread]) * 1000])
            if bytes(store.get(name)) != content or (name, len(content)) not in store.names(f"t/{thread}/"):
                return f"{name} is not what its only writer put"
            if len(set(bytes(store.get("t/shared")))) != 1 or store.get("t/shared").nbytes != 1000:
                return "t/shared is a mixture of two puts"
            if place % 2:
                store.delete([name])
        return ""

    with ThreadPoolExecutor(THREADS) as pool:
        for broken in pool.map(work, range(1, THREADS + 1)):
            _say(not broken, "threads", broken)
    _say(len(store.names("t/")) == THREADS * BLOBS // 2 + 1, "threads", "blobs of other threads are lost or left over")


def _fencing(store: Store) -> None:
    """After a second claim nothing that the first one puts or deletes counts, and it is told so."""
    first = Fence(store, _who("first"), lambda: 0.0)
    first.put("f/q/task/1", [b"before"])
    first.put("f/q/task/2", [b"before"])
    store.put("f/q/log/1.1.0.7.0", [b"rows"])
    second = Fence(store, _who("second"), lambda: 0.0)
    _say(bytes(second.get("f/q/task/1")) == b"before", "fencing", "the second claim misses what the first had put")
    second.put("f/q/task/1", [b"second"])
    late: list[tuple[str, Callable[[], None]]] = [
        ("put", lambda: first.put("f/q/task/1", [b"late"])),
        ("put", lambda: first.put("f/q/task/3", [b"late"])),
        ("delete", lambda: first.delete(["f/q/task/1", "f/q/task/2", "f/q/log/1.1.0.7.0"])),
        ("beat", first.beat),
    ]
    for what, stale in late:
        told = ""
        try:
            stale()
        except StoreInUse as error:
            told = str(error)
        _say(
            "second" in told, "fencing", f"a {what} of the first claim must fail and name the second; it said {told!r}"
        )
    expected = {"f/q/log/1.1.0.7.0": b"rows", "f/q/task/1": b"second", "f/q/task/2": b"before"}
    for who, seen in {
        "the second": second,
        "a third": Fence(store, _who("third"), lambda: 0.0),
        "a view": FencedView(store),
    }.items():
        found = {name: bytes(seen.get(name)) for name, _ in seen.names()}
        _say(found == expected, "fencing", f"{who} finds {found}, not {expected}")


def _who(owner: str) -> dict[str, object]:
    return {"owner": owner, "host": "h", "pid": 1, "since": 0.0}


def _large(store: Store, nbytes: int) -> None:
    block = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8).data
    whole, rest = divmod(nbytes, block.nbytes)
    store.put("large", [*[block] * whole, block[:rest]])
    _say(store.names() == [("large", nbytes)], "large", f"{nbytes} bytes were put, listed are {store.names()}")
    found = store.get("large")
    for place in range(whole):
        same = found[place * block.nbytes : (place + 1) * block.nbytes] == block
        _say(same, "large", f"of a blob of {nbytes} bytes MB {place} is wrong")
    _say(found[whole * block.nbytes :] == block[:rest], "large", f"of a blob of {nbytes} bytes the end is wrong")
