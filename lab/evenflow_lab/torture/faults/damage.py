"""Damage to a checkpoint while no cluster works on it: to single blobs, or an older copy of all blobs comes back.

A damaged blob that is needed must be refused, with its name in the error. Then it is restored, as from a backup.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from evenflow.state.store.base import FORMAT_FILE, OWN
from evenflow.state.store.blob_names import parse
from evenflow.state.store.claims.generations import CLAIMS, split
from evenflow_lab.torture.faults import copies
from evenflow_lab.torture.faults.hooks import SPARK, STATE, Hooks
from evenflow_lab.torture.faults.store import raw_store
from evenflow_lab.torture.schedule import DAMAGES, Fault

NOTE = "damaged-{}.json"
"""The file with the content of a blob before the damage, by number of the fault."""
COUNTED = rb'"counts": ?\{[^}]*: ?[1-9]'
"""In a claim that counts something that an earlier one has put."""
PREFIXES = {"claim": CLAIMS, "list": f"{OWN}queries/"}
"""Kinds of blobs with the beginnings of their names; the other kinds are parts of names."""


def strike(hooks: Hooks) -> None:
    """Do the damage of the schedule, as soon as its blobs are there."""
    if not (hooks.folder / SPARK).exists():
        return  # no query was started yet
    for number, fault in enumerate(hooks.schedule.faults):
        if hooks.done(number):
            continue
        if fault.kind in DAMAGES and _damage(hooks.folder, number, fault):
            hooks.claim(number)
        if fault.kind == "older" and copies.bring_back(hooks.folder, fault.point):
            hooks.claim(number)


def restore(folder: Path, error: str) -> list[str]:
    """Restore the damaged blobs that an error names; returns their names."""
    restored = copies.put_right(folder, error)
    for note in sorted(folder.glob(NOTE.format("*"))):
        given = json.loads(note.read_text())
        meant, _ = split(given["name"])  # errors name the blob, but not the put
        if meant in error:
            # a blob that vanished no longer counts as a put of its claim; one that was cut is still read
            place = meant if given["kind"] == "vanish" else given["name"]
            _write(folder, place, base64.b64decode(given["content"]))
            note.unlink()
            restored.append(f"{given['kind']} {Path(given['name']).name}")
    return restored


def refused(folder: Path, error: str) -> bool:
    """Whether an error names a blob that is damaged now."""
    notes = (json.loads(note.read_text()) for note in folder.glob(NOTE.format("*")))
    return any(split(note["name"])[0] in error for note in notes) or copies.refused(folder, error)


def _damage(folder: Path, number: int, fault: Fault) -> bool:
    """Damage a blob, with a note of its content; returns whether there was one."""
    found = _found(folder, fault)
    if not found:
        return False
    name, content, other = found
    changed: bytes | None
    match fault.kind:
        case "vanish":
            changed = None
        case "cut":
            changed = content[: len(content) // 2]
        case "alter":
            changed = altered(content, fault.share)
        case _:
            changed = other
    if changed == content:
        return False
    told = {"name": name, "kind": fault.kind, "content": base64.b64encode(content).decode()}
    (folder / NOTE.format(number)).write_text(json.dumps(told))
    _write(folder, name, changed)
    return True


def _found(folder: Path, fault: Fault) -> tuple[str, bytes, bytes] | None:
    """A blob of the kind that a fault is about: its name, its content, and that of another one."""
    if fault.point == "format":
        path = folder / STATE / FORMAT_FILE
        return (FORMAT_FILE, path.read_bytes(), b"{}") if path.exists() else None
    with raw_store(folder) as store:
        blobs = sorted(name for name, _ in store.names() if _kind(name) == fault.point)
        if not blobs or (fault.kind == "stale" and len(blobs) < 2):
            return None
        place = int(len(blobs) * fault.share) if fault.point != "claim" else len(blobs) - 1
        content, other = (bytes(store.get(blobs[each])) for each in (place, place - 1))
        if fault.kind == "alter" and fault.point == "claim" and not re.search(COUNTED, content):
            return None  # it has no number that matters yet
        return blobs[place], content, other


def _kind(name: str) -> str:
    known = parse(name)
    if known is not None:
        return known.kind
    return next((kind for kind, prefix in PREFIXES.items() if name.startswith(prefix)), "")


def altered(content: bytes, share: float) -> bytes:
    """A blob in which a number is a little less: in a claim, the last of what counts; without any, its first byte."""
    numbers = list(re.finditer(rb": ?([0-9]+)", content))
    if not numbers:
        return bytes([content[0] ^ 1]) + content[1:]
    claimed = [found for found in numbers if 0 <= content.find(b'"counts"') < found.start()]
    found = claimed[-1] if claimed else numbers[int(len(numbers) * share)]
    value = int(found[1])
    less = max(0, value - 1 - int(share * 6)) if value else 1  # a batch leaves some four notes and manifests
    return content[: found.start(1)] + b"%d" % less + content[found.end(1) :]


def _write(folder: Path, name: str, content: bytes | None) -> None:
    """Put a blob as it is to be in the store; None to delete it."""
    if name == FORMAT_FILE:
        path = folder / STATE / FORMAT_FILE
        path.unlink() if content is None else path.write_bytes(content)
        return
    with raw_store(folder) as store:
        store.delete([name]) if content is None else store.put(name, [content])
