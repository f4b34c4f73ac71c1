"""Older copies of a checkpoint, ours, one operator's or Spark's, that come back beside a newer one of the other.

A copy of both is made when no cluster is at work for the first time. Later, when Spark has committed more batches, one
of them takes the place of the present state, which is put back when the engine has refused to go on.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path

from evenflow.errors import CorruptState
from evenflow.state.store.blob_names import parse
from evenflow.state.store.claims.fence import FencedView
from evenflow_lab.torture.faults.hooks import SPARK
from evenflow_lab.torture.faults.store import raw_store
from evenflow_lab.torture.schedule import COPIES

OLD = "old-{}"
"""The copy of a checkpoint: a file with all blobs of ours, or a directory like Spark's."""
NEW = "new-{}"
"""The same of the newer state, as long as an older copy is in its place."""

REFUSALS = ("do not belong together", "Spark is at batch", "it is an older copy")
"""What errors say, beside the name of the query, when a checkpoint is of another time than Spark's."""


def bring_back(folder: Path, which: str) -> bool:
    """Make copies, or put the older one in place of `ours`, `operator` or `spark`; returns whether that was done."""
    if not (folder / OLD.format("spark")).exists():
        if _committed(folder / SPARK) >= 0:
            _copy_operators(folder)
            _copy_ours(folder, folder / OLD.format("ours"))
            shutil.copytree(folder / SPARK, folder / OLD.format("spark"))
        return False
    if _committed(folder / SPARK) <= _committed(folder / OLD.format("spark")):
        return False
    new = folder / NEW.format(which)
    if which == "ours":
        _copy_ours(folder, new)
        _replace_ours(folder, folder / OLD.format("ours"))
    elif which == "operator":
        if not (prefix := _one_operator(folder)):
            return False
        _copy_ours(folder, new)
        _replace_ours(folder, folder / OLD.format(which), prefix)
    else:
        (folder / SPARK).rename(new)
        shutil.copytree(folder / OLD.format("spark"), folder / SPARK)
    return True


def refused(folder: Path, error: str) -> bool:
    """Whether an older copy is in place, and an error says that the two checkpoints do not belong together."""
    if not any((folder / NEW.format(which)).exists() for which in COPIES):
        return False
    query = json.loads((folder / SPARK / "metadata").read_text())["id"]
    return query in error and any(words in error for words in REFUSALS)


def put_right(folder: Path, error: str) -> list[str]:
    """Put the newer state back, if an error refuses the older copy; returns which copies were refused."""
    if not refused(folder, error):
        return []
    restored = []
    for which in ("ours", "operator"):
        if (new := folder / NEW.format(which)).exists():
            _replace_ours(folder, new)
            new.unlink()
            restored.append(f"older {which}")
    if (new := folder / NEW.format("spark")).exists():
        shutil.rmtree(folder / SPARK)
        new.rename(folder / SPARK)
        restored.append("older spark")
    return restored


def _committed(checkpoint: Path) -> int:
    """The last batch that Spark has committed, by its own checkpoint; -1 if there is none."""
    commits = checkpoint / "commits"
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)


def _copy_ours(folder: Path, target: Path) -> None:
    with raw_store(folder) as store:
        target.write_bytes(pickle.dumps({name: bytes(store.get(name)) for name, _ in store.names()}))


def _replace_ours(folder: Path, source: Path, prefix: str = "") -> None:
    """Replace the blobs below a prefix by those of a copy."""
    with raw_store(folder) as store:
        store.delete([name for name, _ in store.names(prefix)])
        for name, content in pickle.loads(source.read_bytes()).items():
            if name.startswith(prefix):
                store.put(name, [content])


def _copy_operators(folder: Path) -> None:
    """Copy the blobs that count, by their names without claims' suffixes: those claims may be gone later.

    Claims that are sealed with a key, or damaged, cannot be read here: then there is no such copy.
    """
    with raw_store(folder) as store:
        try:
            view = FencedView(store)
            found = {name: bytes(view.get(name)) for name, _ in view.names()}
        except CorruptState:
            return
    (folder / OLD.format("operator")).write_bytes(pickle.dumps(found))


def _one_operator(folder: Path) -> str:
    """The prefix of an operator that a copy has state of, and that has begun later batches since; empty if none has."""
    if not (copy := folder / OLD.format("operator")).exists():
        return ""
    was = _newest(pickle.loads(copy.read_bytes()))
    with raw_store(folder) as store:
        try:
            now = _newest(name for name, _ in FencedView(store).names())
        except CorruptState:
            return ""
    return next((prefix for prefix, epoch in sorted(was.items()) if now.get(prefix, epoch) > epoch), "")


def _newest(names: Iterable[str]) -> dict[str, int]:
    """The newest batch that each operator has begun."""
    found: dict[str, int] = {}
    for parsed in map(parse, names):
        if parsed is not None and parsed.kind == "begun":
            found[parsed.prefix] = max(parsed.epoch, found.get(parsed.prefix, parsed.epoch))
    return found
