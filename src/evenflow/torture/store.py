"""A store that fails as the schedule says: slow, failing now and then, full, with flipped bits; or deadly."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evenflow.errors import StoreError
from evenflow.state.disk import DiskStore
from evenflow.state.layout import TEMPORARY, explained
from evenflow.state.manifest import MOVES, parse
from evenflow.state.store import Part, Store, open_store
from evenflow.torture.hooks import SCHEDULE, STATE, Hooks, hooks_of, kill
from evenflow.torture.schedule import Fault

FLIPPED = "flipped-{}.json"
"""Notes of flipped bits, by fault."""


class FaultyStore(DiskStore):
    """A store on the local disk, beside the schedule of its faults."""

    def __init__(self, root: Path, hooks: Hooks) -> None:
        super().__init__(root)
        self._hooks = hooks
        self._random = hooks.random

    def put(self, name: str, parts: Iterable[Part]) -> None:
        self._endure()
        parts = list(parts)
        parsed = parse(name)
        kind = parsed.kind if parsed is not None else "move" if name.startswith(MOVES) else "other"
        after: list[tuple[int, Fault]] = []
        self._hooks.reach(kind, lambda number, fault: self._strike(number, fault, name, parts, after))
        self._check_full(name)
        super().put(name, parts)
        for number, fault in after:
            if fault.kind == "flip":
                flip(self.root / name, fault.share, self._hooks.folder / FLIPPED.format(number))
            else:
                kill(self._hooks.folder, fault.victim)

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        self._endure()
        return super().get(name, start, length)

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        self._endure()
        return super().names(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._endure()
        super().delete(names)

    def _strike(self, number: int, fault: Fault, name: str, parts: list[Part], after: list[tuple[int, Fault]]) -> None:
        if not self._hooks.claim(number) or fault.kind == "full":
            return
        if fault.kind == "flip" or fault.moment == "after":
            after.append((number, fault))
            return
        if fault.moment == "half":
            beside = (self.root / name).with_name(f"{TEMPORARY}{os.getpid()}-torture")
            beside.parent.mkdir(parents=True, exist_ok=True)
            whole = b"".join(parts)
            beside.write_bytes(whole[: len(whole) // 2])
        kill(self._hooks.folder, fault.victim)

    def _endure(self) -> None:
        for fault in self._hooks.schedule.faults:
            if fault.kind in ("slow", "fails") and self._random.random() < fault.share:
                if fault.kind == "fails":
                    raise StoreError("the store fails now and then, as the schedule says")
                time.sleep(self._random.uniform(0, fault.seconds))

    def _check_full(self, name: str) -> None:
        if self._hooks.store_full:
            full = OSError(errno.ENOSPC, "No space left on device, as the schedule says")
            raise explained(full, "write", str(self.root / name))


def flip(path: Path, share: float, note: Path) -> None:
    """Flip one bit of a file, and note which so that it can be flipped back."""
    content = bytearray(path.read_bytes())
    place = min(len(content) - 1, int(len(content) * share))
    content[place] ^= 1 << (place % 8)
    note.write_text(json.dumps({"path": str(path), "place": place}))
    path.write_bytes(content)


def flip_back(folder: Path, error: str) -> list[str]:
    """Undo the flips that an error tells of; the names of the blobs."""
    undone = []
    for note in sorted(folder.glob(FLIPPED.format("*"))):
        given = json.loads(note.read_text())
        path, place = Path(given["path"]), given["place"]
        if str(path.relative_to(folder / STATE)) not in error:
            continue
        content = bytearray(path.read_bytes())
        content[place] ^= 1 << (place % 8)
        path.write_bytes(content)
        note.unlink()
        undone.append(path.name)
    return undone


def install() -> None:
    """Have this process open faulty stores where a schedule lies beside them."""
    from evenflow.runtime import depot, journal, loader, vault

    def open_faulty(where: Any, **options: Any) -> Store:
        folder = Path(where).parent
        if (folder / SCHEDULE).exists():
            return FaultyStore(Path(where), hooks_of(folder))
        return open_store(where, **options)

    for module in (depot, journal, loader, vault):
        module.open_store = open_faulty  # type: ignore[attr-defined]
