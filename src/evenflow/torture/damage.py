"""Damage to blobs of a checkpoint while no driver runs: they vanish, are cut, or replaced by those of another batch.

A damaged blob that is needed must be refused, with its name in the error. Then it is restored, as from a backup.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import parse
from evenflow.state.store.generations import split
from evenflow.state.store.opening import open_store
from evenflow.torture.hooks import Hooks
from evenflow.torture.schedule import DAMAGES, Fault

NOTE = "damaged-{}.json"
"""The file with the content of a blob before the damage, by number of the fault."""


def strike(hooks: Hooks, where: str) -> None:
    """Do the damage of the schedule, if there has been a driver before."""
    for number, fault in enumerate(hooks.schedule.faults):
        if fault.kind in DAMAGES and hooks.life and not hooks.done(number):
            with open_store(where) as store:
                if _damage(hooks.folder / NOTE.format(number), store, fault):
                    hooks.claim(number)


def restore(folder: Path, where: str, error: str) -> list[str]:
    """Restore the damaged blobs that an error names; returns their names."""
    restored = []
    for note in sorted(folder.glob(NOTE.format("*"))):
        given = json.loads(note.read_text())
        meant, _ = split(given["name"])  # errors name the blob, but not the put
        if meant in error:
            with open_store(where) as store:
                # a blob that vanished no longer counts as a put of its claim; one that was cut is still read
                place = meant if given["kind"] == "vanish" else given["name"]
                store.put(place, [base64.b64decode(given["content"])])
            note.unlink()
            restored.append(f"{given['kind']} {Path(given['name']).name}")
    return restored


def names(folder: Path) -> list[str]:
    """The blobs that are damaged now, by their names in errors: without the claim they were put under."""
    return [split(json.loads(note.read_text())["name"])[0] for note in folder.glob(NOTE.format("*"))]


def _damage(note: Path, store: Store, fault: Fault) -> bool:
    """Damage a blob, with a note of its content; returns whether there was one."""
    blobs = sorted(
        name for name, _ in store.names() if (known := parse(name)) is not None and known.kind == fault.point
    )
    if not blobs or (fault.kind == "stale" and len(blobs) < 2):
        return False
    place = int(len(blobs) * fault.share)
    name, other = blobs[place], blobs[place - 1]
    content = bytes(store.get(name))
    told = {"name": name, "kind": fault.kind, "content": base64.b64encode(content).decode()}
    note.write_text(json.dumps(told))
    match fault.kind:
        case "vanish":
            store.delete([name])
        case "cut":
            store.put(name, [content[: len(content) // 2]])
        case _:
            store.put(name, [bytes(store.get(other))])
    return True
