"""A store in a PostgreSQL database: for clusters without a file system that all hosts share.

The address names a schema (`postgresql://user@host/database?schema=name`, by default `evenflow`), which is to a
database what a directory is to a disk: each checkpoint has its own. Blobs of one operator and query, whose names begin
with the same two parts, are in one table, all others in the table `blobs`; `evenflow_tables` lists the tables. A table
has

    name, part   primary key: blobs are cut into parts of 4 MB, so that none has to be in memory twice
    size         bytes of the whole blob, in each part
    kind, epoch, worker   from the name, for users' own SQL; indexed by epoch and worker
    data         bytes, not compressed (state compresses badly, and parts of it are read)

*Atomic*: a put is one transaction, which takes a lock on the name, deletes what was there and copies the parts in (COPY
in binary format: neither side makes text of bytes). Readers see the state before it or after it. *Durable*: commits
wait for the server's disk. *Listing*: names are sorted by bytes, so a prefix is a range of the primary key.

The index of a snapshot of units is in the snapshot (`unit_snapshots`), of which only the needed bytes are read.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from psycopg.errors import UndefinedTable
from psycopg.sql import SQL, Composable, Composed, Identifier

from evenflow.errors import BlobMissing, StoreError, StoreMissing
from evenflow.state.store.base import Part, Store, check_range, checked
from evenflow.state.store.blob_names import parse
from evenflow.state.store.claims.postgres import SessionLock
from evenflow.state.store.layout import check_format, format_bytes
from evenflow.state.store.postgres_link import OPEN_TRIES, Address, PostgresConnection, PostgresLink

PART_BYTES = 4 * 1024 * 1024
ABOUT, TABLES, BLOBS = "evenflow_about", "evenflow_tables", "blobs"

CREATE = SQL("""
CREATE TABLE IF NOT EXISTS {table} (
    name text COLLATE "C" NOT NULL, part integer NOT NULL, size bigint NOT NULL,
    kind text, epoch bigint, worker integer, data bytea NOT NULL, PRIMARY KEY (name, part)
);
ALTER TABLE {table} ALTER data SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS {index} ON {table} (epoch, worker) WHERE part = 0;
INSERT INTO {tables} VALUES ({prefix}, {name}) ON CONFLICT DO NOTHING
""")
CLEAR = SQL("SELECT pg_advisory_xact_lock({key}); DELETE FROM {table} WHERE name = {name}")
"""Two statements: the second must see what the lock's holder before has committed."""
COPY_IN = SQL("COPY {table} (name, part, size, kind, epoch, worker, data) FROM STDIN (FORMAT BINARY)")
IN_TYPES = ("text", "int4", "int8", "text", "int8", "int4", "bytea")
COPY_OUT = SQL("""
COPY (SELECT size, {data} FROM {table} WHERE name = {name} AND (part = 0 OR part BETWEEN {first} AND {last})
      ORDER BY part) TO STDOUT (FORMAT BINARY)
""")
OUT_TYPES = ("int8", "bytea")
PIECE = SQL("""substring(data FROM 1 + greatest(0, least({whole}, {start} - part * {whole}::bigint))::integer
    FOR greatest(0, least({whole}, {stop} - part * {whole}::bigint)
                    - greatest(0, least({whole}, {start} - part * {whole}::bigint)))::integer)""")
"""The bytes of a part that lie between `start` and `stop` of the blob."""
LIST = SQL("SELECT name, size FROM {table} WHERE part = 0 AND name >= {prefix} AND name < {end}")
AFTER = "\x7f"
"""Sorts after all characters of names."""


class PostgresStore(Store):
    """Blobs in tables of one schema."""

    def __init__(self, uri: str, *, create: bool = True) -> None:
        address = Address.parse(uri)
        self._schema = address.schema
        self.where = f"{address.where}, schema {address.schema}"
        self._link = PostgresLink.to(address)
        self._claim: SessionLock | None = None
        try:
            self._link.run("open the store", lambda connection: self._open(connection, create), OPEN_TRIES)
        except BaseException:
            self._link.release()
            raise

    def __repr__(self) -> str:
        return f"<PostgresStore {self.where}>"

    def put(self, name: str, parts: Iterable[Part]) -> None:
        checked(name)
        views = [memoryview(part).cast("B") for part in parts]
        self._link.run(f"write blob {name}", lambda connection: self._put(connection, name, views))

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        checked(name)
        check_range(name, start, length)
        return self._link.run(f"read blob {name}", lambda connection: self._get(connection, name, start, length))

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        return self._link.run("list blobs", lambda connection: self._names(connection, prefix))

    def delete(self, names: Iterable[str]) -> None:
        tables: dict[str, list[str]] = defaultdict(list)
        for name in names:
            tables[_table_of(checked(name))].append(name)
        if tables:
            self._link.run("delete blobs", lambda connection: self._delete(connection, tables))

    def close(self) -> None:
        if self._claim is not None:
            self._claim.drop()
        self._link.release()

    def lock(self, mine: dict[str, object]) -> SessionLock:
        """Take an advisory lock."""
        self._claim = SessionLock(self, self.where, self._link, _key(self._schema, ""), mine)
        return self._claim

    # -- tables

    def _in(self, table: str) -> Identifier:
        return Identifier(self._schema, table)

    def _open(self, connection: PostgresConnection, create: bool) -> None:
        found = {name for (name,) in self._tables(connection)}
        if ABOUT not in found:
            self._check_empty(found, create)
            with connection.transaction():
                self._create(connection)
        content = connection.execute(SQL("SELECT content FROM {}").format(self._in(ABOUT)), binary=True).fetchone()
        check_format(bytes(content[0]) if content else b"", self.where)

    def _tables(self, connection: PostgresConnection) -> list[Any]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        return connection.execute(query, [self._schema]).fetchall()

    def _check_empty(self, found: set[str], create: bool) -> None:
        if found:
            raise StoreMissing(
                f"{self.where} holds table {min(found)!r} and no {ABOUT}: it is not a checkpoint of Evenflow; give a "
                "schema of its own (?schema=name)"
            )
        if not create:
            raise StoreMissing(f"{self.where} is empty: there is no state here")

    def _create(self, connection: PostgresConnection) -> None:
        """Create the tables; one process at a time does, the others find them."""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_key(self._schema, "create")])
        there = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]).fetchone()
        if not there:  # a user who is given a schema may lack the right to create one
            connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(self._schema)))
        if (ABOUT,) in self._tables(connection):
            return
        about, tables = self._in(ABOUT), self._in(TABLES)
        connection.execute(SQL("CREATE TABLE {} (content bytea NOT NULL)").format(about))
        prefix = SQL('prefix text COLLATE "C" PRIMARY KEY, name text NOT NULL')
        connection.execute(SQL("CREATE TABLE {} ({})").format(tables, prefix))
        connection.execute(SQL("INSERT INTO {} VALUES (%s)").format(about), [format_bytes()])
        self._create_table(connection, BLOBS, "")

    def _create_table(self, connection: PostgresConnection, table: str, prefix: str) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_key(self._schema, "create")])
            index = Identifier(f"{table}_epoch")
            fields = {"table": self._in(table), "index": index, "tables": self._in(TABLES)}
            connection.execute(CREATE.format(**fields, prefix=prefix, name=table))

    # -- blobs

    def _put(self, connection: PostgresConnection, name: str, views: list[memoryview]) -> None:
        if self._claim is not None:
            self._claim.beat()
        table = _table_of(name)
        try:
            self._replace(connection, table, name, views)
        except UndefinedTable:
            self._create_table(connection, table, _prefix_of(name))
            self._replace(connection, table, name, views)

    def _replace(self, connection: PostgresConnection, table: str, name: str, views: list[memoryview]) -> None:
        parsed = parse(name)
        worker = int(parsed.writer.partition(".")[0]) if parsed is not None and parsed.writer else None
        about = (parsed.kind, parsed.epoch, worker) if parsed is not None else (None, None, None)
        size = sum(view.nbytes for view in views)
        target = self._in(table)
        with connection.transaction():
            connection.execute(CLEAR.format(key=_key(self._schema, name), table=target, name=name))
            with connection.cursor().copy(COPY_IN.format(table=target)) as copy:
                copy.set_types(IN_TYPES)
                for number, piece in enumerate(_cut(views)):
                    copy.write_row((name, number, size, *about, piece))

    def _get(self, connection: PostgresConnection, name: str, start: int, length: int | None) -> memoryview:
        content = np.empty(0, np.uint8).data
        done, found = 0, False
        with suppress(UndefinedTable), connection.cursor().copy(self._reading(name, start, length)) as copy:
            copy.set_types(OUT_TYPES)
            for size, piece in copy.rows():
                if not found:
                    there = max(0, size - start)
                    content, found = np.empty(there if length is None else min(length, there), np.uint8).data, True
                content[done : done + len(piece)] = piece
                done += len(piece)
        if not found:
            raise BlobMissing(f"there is no blob {name} in {self.where}")
        if done != content.nbytes:
            raise StoreError(f"blob {name} in {self.where} has {done} of {content.nbytes} bytes: rows were deleted")
        return content

    def _reading(self, name: str, start: int, length: int | None) -> Composed:
        """What copies out the parts that have these bytes, and the first in any case: it says how large the blob is."""
        data: Composable = SQL("data")
        last = 2**31 - 1
        if start or length is not None:
            stop = 2**62 if length is None else start + length
            data, last = PIECE.format(whole=PART_BYTES, start=start, stop=stop), min(last, stop // PART_BYTES)
        first = min(2**31 - 1, start // PART_BYTES)
        return COPY_OUT.format(data=data, table=self._in(_table_of(name)), name=name, first=first, last=last)

    def _names(self, connection: PostgresConnection, prefix: str) -> list[tuple[str, int]]:
        if prefix.count("/") >= 2:
            tables = [_table_of(prefix)]
        else:
            query = SQL("SELECT name FROM {} WHERE starts_with(prefix, %s) OR prefix = ''").format(self._in(TABLES))
            tables = [name for (name,) in connection.execute(query, [prefix]).fetchall()]
        lists = [LIST.format(table=self._in(table), prefix=prefix, end=prefix + AFTER) for table in tables]
        with suppress(UndefinedTable):
            return sorted(connection.execute(SQL(" UNION ALL ").join(lists)).fetchall())
        return []

    def _delete(self, connection: PostgresConnection, tables: dict[str, list[str]]) -> None:
        for table, names in tables.items():
            with suppress(UndefinedTable):
                connection.execute(SQL("DELETE FROM {} WHERE name = ANY(%s)").format(self._in(table)), [names])


def _prefix_of(name: str) -> str:
    """The prefix of all names in the same table; empty for names with fewer than three parts."""
    parts = name.split("/", 2)
    return f"{parts[0]}/{parts[1]}/" if len(parts) == 3 else ""


def _table_of(name: str) -> str:
    """The name of a blob's table: readable, and different for each prefix."""
    prefix = _prefix_of(name)
    if not prefix:
        return BLOBS
    readable = re.sub("[^a-z0-9]+", "_", prefix.partition("/")[0].lower())[:24].strip("_")
    return f"{readable or 'q'}_{hashlib.blake2b(prefix.encode(), digest_size=8).hexdigest()}"


def _key(schema: str, name: str) -> int:
    """The number of an advisory lock."""
    digest = hashlib.blake2b(f"evenflow\0{schema}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _cut(views: list[memoryview]) -> Iterator[Part]:
    """Cut bytes into parts of PART_BYTES, the last one shorter; there is at least one."""
    pieces: list[memoryview] = []
    room = PART_BYTES
    some = False
    for view in views:
        while view.nbytes:
            piece, view = view[:room], view[room:]
            pieces.append(piece)
            room -= piece.nbytes
            if not room:
                yield _joined(pieces)
                pieces, room, some = [], PART_BYTES, True
    if pieces or not some:
        yield _joined(pieces)


def _joined(pieces: list[memoryview]) -> Part:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
