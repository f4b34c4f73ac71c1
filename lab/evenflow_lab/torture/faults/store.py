"""A store with the faults of the schedule: slow, failing, full, with flipped bits, or killing a process at a put."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from evenflow.errors import StoreError
from evenflow.state.store.base import Part, Store
from evenflow.state.store.blob_names import MOVES, parse
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.files import FileStore, resolve
from evenflow.state.store.layout import TEMPORARY, explained
from evenflow_lab.torture.faults.hooks import RUN, STATE, Hooks, hooks_of, kill
from evenflow_lab.torture.schedule import VOID_S, Fault
from evenflow_lab.torture.servers import all as servers

FLIPPED = "flipped-{}.json"
"""A file with the place of the flipped bit, by number of the fault."""


class _Faulty(Store):
    """The faults of a store, as a base class in front of the class of the real store."""

    _hooks: Hooks

    @property
    def claim_s(self) -> float:
        return VOID_S

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
        filesystem, base = resolve(where)
        super().__init__(filesystem, base)
        self._hooks = hooks


def _faulty_database(where: str, hooks: Hooks) -> Store:
    """A schema of the run's own database, with faults; psycopg may be missing elsewhere."""
    from evenflow.state.store.postgres import PostgresStore

    class FaultyDatabase(_Faulty, PostgresStore):
        _hooks = hooks

    return FaultyDatabase(where)


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
        with raw_store(folder) as store:
            store.put(given["name"], [_flipped(bytes(store.get(given["name"])), 0, given["place"])[0]])
        note.unlink()
        undone.append(Path(given["name"]).name)
    return undone


def state_of(folder: Path) -> str:
    """The checkpoint of a run: in its folder, or on the server of its kind of store."""
    store = hooks_of(folder).schedule.job.store
    return str(folder / STATE) if store == "disk" else servers.address(store, folder)


def raw_store(folder: Path) -> Store:
    """The store of a run without faults; its blobs are as they are stored, so sealed if there is a key."""
    where = state_of(folder)
    match hooks_of(folder).schedule.job.store:
        case "s3":
            filesystem, base = resolve(where)
            return FileStore(filesystem, base)
        case "postgres":
            from evenflow.state.store.postgres import PostgresStore

            return PostgresStore(where)
        case _:
            return DiskStore(Path(where))


def open_faulty(where: str) -> Store:
    """Open the store of a run, with the faults of the schedule that lies beside it."""
    scheme, url = where.partition("://")[0], urlparse(where)
    if scheme == "postgresql":
        return _faulty_database(where, hooks_of(Path(os.environ.get(RUN, ""), parse_qs(url.query)["schema"][0])))
    hooks = hooks_of(Path("/", url.path.lstrip("/") if scheme == "s3" else where).parent)
    return FaultyBucket(where, hooks) if scheme == "s3" else FaultyStore(Path(where), hooks)
