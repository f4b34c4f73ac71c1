"""The format of a store, and errors that say what to do about a place that cannot be used."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable

from evenflow._version import __version__
from evenflow.errors import InvalidArgument, StoreError, StoreMissing
from evenflow.state.store.base import FORMAT_FILE, shown
from evenflow.state.store.checked_json import checksum

FORMAT = 3
"""Of names, claims, lists, segments, snapshots and manifests. Format 1 had notes of single tasks instead of whole
attempts; in format 2 claims had no checksum, and logs did not tell which aggregates there were."""
TEMPORARY = ".tmp-"
"""Prefix of the names of files that are being written."""
HDFS = ("hdfs", "viewfs")
"""Schemes that are refused: a rename there does not replace a file, and nothing was ever tested with them."""


def needs_format(entries: Iterable[str], where: str, create: bool) -> bool:
    """Whether the format file is still to be written, given the entries of the directory; refuses what is no store."""
    seen = set(entries)
    if FORMAT_FILE in seen:
        return False
    if foreign := sorted(entry for entry in seen if not entry.startswith(".")):
        raise StoreMissing(
            f"{where} holds {foreign[0]!r} and no {FORMAT_FILE}: it is not a checkpoint of Evenflow; "
            "give a directory of its own, or bring that file back"
        )
    if not create:
        raise StoreMissing(f"{where} is empty: there is no state here")
    return True


def format_bytes() -> bytes:
    """The content of the format file."""
    about = {"format": FORMAT, "evenflow": __version__}
    return json.dumps(about | {"checksum": checksum(json.dumps(about))}).encode() + b"\n"


def check_format(content: bytes, where: str) -> None:
    """Refuse a store in another format than this version's, given its format file.

    Its checksum may be left out by whoever writes the file anew by hand.
    """
    try:
        about = json.loads(content)
        found, by = int(about["format"]), about.get("evenflow", "?")
        told = about.pop("checksum", None)
        intact = told == checksum(json.dumps(about)) if told is not None else about.keys() <= {"format", "evenflow"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise StoreError(
            f"{where}/{FORMAT_FILE} is damaged: it holds {content[:80]!r}, not the format of a checkpoint: "
            f'if the rest is sound, write {{"format": {FORMAT}}} to it'
        )
    if found != FORMAT:
        remedy = "install a newer evenflow"
        if 1 <= found < FORMAT:
            remedy = (
                "what it notes does not tell whether all of it is there and unchanged, so nothing goes on from it: "
                "start the query with a new checkpoint and a new checkpointLocation, or install that evenflow"
            )
        raise StoreError(
            f"{where} has format {found}, written by evenflow {by}; this is evenflow {__version__}, which reads "
            f"format {FORMAT}: {remedy}"
        )


def explained(error: OSError, doing: str, path: str) -> StoreError:
    """The same failure as a `StoreError` with the path and a remedy."""
    match errno.ENOENT if isinstance(error, FileNotFoundError) else error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            why = "there is no space left: free some, or put the checkpoint elsewhere"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            why = f"{error.strerror}: give this user the right to it, or put the checkpoint elsewhere"
        case errno.ENOTDIR | errno.EEXIST | errno.EISDIR:
            why = "something on the way is a file and not a directory, or the reverse: give another path"
        case errno.ENOENT:
            why = "it does not exist: check the path"
        case errno.ENAMETOOLONG:
            why = "the name is too long for this file system: give the operator or the query a shorter one"
        case errno.EMFILE | errno.ENFILE:
            why = "too many files are open: raise `ulimit -n`"
        case _:
            why = f"{type(error).__name__}: {error}"
    missing = doing == "open" and isinstance(error, FileNotFoundError | NotADirectoryError)
    return (StoreMissing if missing else StoreError)(f"cannot {doing} {path}: {why}")


def check_scheme(where: str) -> None:
    """Refuse schemes on which there can be no checkpoint."""
    if where.partition("://")[0].lower() in HDFS:
        raise InvalidArgument(
            f"{shown(where)}: HDFS is not supported for checkpoints: give a directory that all hosts share, a bucket "
            "(s3://, gs://, abfss://), or a database (postgresql://)"
        )
