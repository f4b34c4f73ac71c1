"""A store with the faults of the schedule: slow, failing, full, with flipped bits, or killing a process at a put."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from evenflow.errors import StoreError
from evenflow.state.store.base import Part, Store
from evenflow.state.store.blob_names import MOVES, parse
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.files import FileStore, resolve
from evenflow.state.store.layout import TEMPORARY, explained
from evenflow.state.store.opening import open_store
from evenflow.torture.bucket import address
from evenflow.torture.hooks import BUCKET, SCHEDULE, STATE, Hooks, hooks_of, kill
from evenflow.torture.schedule import VOID_S, Fault

FLIPPED = "flipped-{}.json"
"""The file that tells which bit was flipped, by number of the fault."""


class _Faulty(Store):
    """The faults of a store, as a base class in front of the class of the real store."""

    _hooks: Hooks

    def put(self, name: str, parts: Iterable[Part]) -> None:
        self._endure()
        parts = list(parts)
        parsed = parse(name)
        kind = parsed.kind if parsed is not None else "move" if name.startswith(MOVES) else "other"
        after: list[tuple[int, Fault]] = []
        self._hooks.reach(kind, lambda number, fault: self._strike(number, fault, name, parts, after))
        self._check_full(name)
        super().put(name, parts)  # type: ignore[safe-super]
        for number, fault in after:
            if fault.kind == "flip":
                content, place = _flipped(b"".join(parts), fault.share)
                note = self._hooks.folder / FLIPPED.format(number)
                note.write_text(json.dumps({"name": name, "place": place}))
                super().put(name, [content])  # type: ignore[safe-super]
            else:
                kill(self._hooks.folder, fault.victim)

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        self._endure()
        return super().get(name, start, length)  # type: ignore[safe-super]

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        self._endure()
        return super().names(prefix)  # type: ignore[safe-super]

    def delete(self, names: Iterable[str]) -> None:
        self._endure()
        super().delete(names)  # type: ignore[safe-super]

    def _strike(self, number: int, fault: Fault, name: str, parts: list[Part], after: list[tuple[int, Fault]]) -> None:
        if not self._hooks.claim(number) or fault.kind == "full":
            return
        if fault.kind == "flip" or fault.moment == "after":
            after.append((number, fault))
            return
        if fault.moment == "half" and isinstance(self, DiskStore):
            beside = (self.root / name).with_name(f"{TEMPORARY}{os.getpid()}-torture")
            beside.parent.mkdir(parents=True, exist_ok=True)
            whole = b"".join(parts)
            beside.write_bytes(whole[: len(whole) // 2])
        kill(self._hooks.folder, fault.victim)

    def _endure(self) -> None:
        for fault in self._hooks.schedule.faults:
            if fault.kind in ("slow", "fails") and self._hooks.random.random() < fault.share:
                if fault.kind == "fails":
                    raise StoreError("the store fails now and then, as the schedule says")
                time.sleep(self._hooks.random.uniform(0, fault.seconds))

    def _check_full(self, name: str) -> None:
        if self._hooks.store_full:
            full = OSError(errno.ENOSPC, "No space left on device, as the schedule says")
            raise explained(full, "write", name)


class FaultyStore(_Faulty, DiskStore):
    """A store on the local disk, with faults."""

    def __init__(self, root: Path, hooks: Hooks) -> None:
        super().__init__(root)
        self._hooks = hooks


class FaultyBucket(_Faulty, FileStore):
    """The bucket on the run's own server, with faults."""

    def __init__(self, where: str, hooks: Hooks) -> None:
        super().__init__(*resolve(where))
        self._hooks = hooks


def _flipped(content: bytes, share: float, place: int = -1) -> tuple[bytes, int]:
    """A blob with one bit flipped, and the place of its byte."""
    changed = bytearray(content)
    place = min(len(changed) - 1, int(len(changed) * share)) if place < 0 else place
    changed[place] ^= 1 << (place % 8)
    return bytes(changed), place


def flip_back(folder: Path, error: str) -> list[str]:
    """Undo the flips in blobs that an error names; returns their names."""
    undone = []
    for note in sorted(folder.glob(FLIPPED.format("*"))):
        given = json.loads(note.read_text())
        if given["name"] not in error:
            continue
        with open_store(state_of(folder)) as store:
            store.put(given["name"], [_flipped(bytes(store.get(given["name"])), 0, given["place"])[0]])
        note.unlink()
        undone.append(Path(given["name"]).name)
    return undone


def state_of(folder: Path) -> str:
    """The checkpoint of a run: in its folder, or in the bucket under the same path."""
    state = folder / STATE
    if hooks_of(folder).schedule.job.store != "s3":
        return str(state)
    return address(int((folder.parent / BUCKET).read_text()), str(state).lstrip("/"))


def install() -> None:
    """Make this process open faulty stores wherever a schedule lies beside them, and shorten claims to VOID_S."""
    from evenflow.runtime.driver import checkpoint as checkpoint_thread
    from evenflow.runtime.worker import blob_writer, loader, store_transfer
    from evenflow.state.store import claim

    def open_faulty(where: Any, **options: Any) -> Store:
        text = str(getattr(where, "where", where))  # with its key, if it has one
        bucket = text.startswith("s3://")
        folder = Path("/", urlparse(text).path.lstrip("/") if bucket else text).parent
        if not (folder / SCHEDULE).exists():
            return open_store(where, **options)
        return FaultyBucket(text, hooks_of(folder)) if bucket else FaultyStore(Path(text), hooks_of(folder))

    for module in (store_transfer, blob_writer, loader, checkpoint_thread):
        module.open_store = open_faulty  # type: ignore[attr-defined]
    claim.VOID_S = VOID_S
    checkpoint_thread.BEAT_S = VOID_S / 5  # type: ignore[attr-defined]
