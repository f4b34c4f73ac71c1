"""Opens the store at an address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import InvalidArgument, extra
from evenflow.state.store.base import Store, shown
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.files import FileStore, resolve
from evenflow.state.store.layout import check_scheme
from evenflow.state.store.sealed import Place, SealedStore, refuse_sealed

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

DATABASES = ("postgresql://", "postgres://")


def open_store(where: str | Path | tuple[FileSystem, str] | Place, *, create: bool = True) -> Store:
    """Open a store: at a local path, at a URI (`file://`, `s3://`, `gs://`) or in a directory of a pyarrow file system.

    A local path and `file://` mean a `DiskStore`; `postgresql://` is a schema of a database. A `Place` may have a key
    and an opener of its own as well; a store that was written with a key is refused without it. With `create=False`
    nothing is written, and a place without a store is refused.
    """
    key = where.key if isinstance(where, Place) else b""
    inner = where.where if isinstance(where, Place) else where
    text = shown(inner) if isinstance(inner, str | Path) else f"{inner[0].type_name}:{inner[1]}"
    opener = where.opener if isinstance(where, Place) else None
    store = opener(str(inner)) if opener is not None else _plain(inner, create)
    try:
        if key:
            return SealedStore(store, key, text, create=create)
        refuse_sealed(store, text)
    except BaseException:
        store.close()
        raise
    return store


def _plain(where: str | Path | tuple[FileSystem, str], create: bool) -> Store:
    """The store at an address, as if it had no key."""
    if isinstance(where, tuple):
        filesystem, base = where
        return FileStore(filesystem, base, create=create)
    if isinstance(where, str) and where.startswith(DATABASES):
        return _database(where, create)
    if isinstance(where, str) and "://" in where:
        check_scheme(where)
        filesystem, base = resolve(where)
        if filesystem.type_name != "local":
            return FileStore(filesystem, base, create=create)
        where = base
    if not str(where):
        raise InvalidArgument("the checkpoint directory is an empty string: give a path or a URI")
    return DiskStore(Path(where), create=create)


def _database(where: str, create: bool) -> Store:
    with extra("postgres", shown(where), ", on all hosts"):
        from evenflow.state.store.postgres import PostgresStore
    return PostgresStore(where, create=create)
