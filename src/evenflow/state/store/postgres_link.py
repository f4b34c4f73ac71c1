"""Connections to a PostgreSQL server: few, shared by all stores of a process, and made anew when they are lost.

What fails because a connection is lost, the server restarts, or two transactions conflict, is tried again on another
connection a bounded number of times; then it is a `StoreError` that names the server. So all that is done here must be
safe to do twice. Of the address only host, port and database are ever shown.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from evenflow.errors import InvalidArgument, StoreError, first_line
from evenflow.state.store.retry import retry

MOST = 4
"""Connections of a process to a server, at most; a claim has one more."""
TRIES = 8
OPEN_TRIES = 5
"""When a store is opened: the user should soon learn of a wrong address."""
LONGEST_PAUSE_S = 2.0
PATIENCE_S = 15.0
"""After this long nothing is tried again."""
CONNECT_S = 5
STATEMENT_S = 120
"""The server ends a statement that takes longer; a log segment of 8 MB takes less than a second."""
SILENT_S = STATEMENT_S + 10
"""A connection on which one statement takes longer is cut: a frozen server ends none."""
SCHEMA = "evenflow"
"""The schema for tables if the address does not name one."""
LONGEST_SCHEMA = 63

DEFAULTS: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "evenflow",
}
"""Parameters of connections; those in the address take precedence."""
SESSION = f"""
SET synchronous_commit = on;
SET statement_timeout = '{STATEMENT_S}s';
SET idle_in_transaction_session_timeout = '{STATEMENT_S}s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET client_min_messages = warning
"""
"""A commit waits for the disk, whatever the server's default; the server notices when a host vanishes."""
PASSING = {"53300", "57P01", "57P02", "57P03", "40001", "40P01"}
"""Errors that pass: too many connections, shutting down, crashed, starting up, conflict, deadlock."""
STARTING = ("starting up", "shutting down", "recovery", "too many clients", "connection slots")

T = TypeVar("T")
PostgresConnection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a database and a schema in it."""

    conninfo: str = field(repr=False)
    schema: str
    where: str
    """The place in words, without user and password."""

    @classmethod
    def parse(cls, uri: str) -> Address:
        """Read `postgresql://user@host:port/database?schema=name`, with any other parameters of libpq."""
        try:
            parts = urlsplit(uri)
            given = parse_qsl(parts.query, keep_blank_values=True)
            rest = urlencode([(key, value) for key, value in given if key != "schema"])
            schema = dict(given).get("schema", SCHEMA)
            known = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
            for number in str(known.get("port") or "0").split(","):  # else it may be half a password
                int(number)
        except (psycopg.Error, ValueError):  # its text may quote the password, too
            raise InvalidArgument(
                "the address of the database cannot be read: write postgresql://user@host:port/database?schema=name, "
                "with special characters quoted as in URLs (%40 for @), and only parameters that libpq knows"
            ) from None
        if not 0 < len(schema.encode()) <= LONGEST_SCHEMA or "\0" in schema:
            raise InvalidArgument(f"schema={schema!r}: give a name of 1 to {LONGEST_SCHEMA} bytes")
        host = known.get("host") or known.get("hostaddr") or os.environ.get("PGHOST") or "local socket"
        port = known.get("port") or os.environ.get("PGPORT") or 5432
        database = known.get("dbname") or os.environ.get("PGDATABASE") or known.get("user") or "(the user's own)"
        return cls(
            make_conninfo("", **{**DEFAULTS, **known}), schema, f"PostgreSQL at {host}:{port}, database {database}"
        )


class PostgresLink:
    """The connections of this process to one server."""

    _shared: dict[tuple[int, str], PostgresLink] = {}  # noqa: RUF012 - by process and address: a fork shares no connection
    _sharing = threading.Lock()

    def __init__(self, address: Address) -> None:
        self._conninfo = address.conninfo
        self.where = address.where
        self._users = 0
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MOST)
        self._idle: list[PostgresConnection] = []

    @classmethod
    def to(cls, address: Address) -> PostgresLink:
        """The link that all stores at this address share; each `release`s it once."""
        with cls._sharing:
            link = cls._shared.setdefault((os.getpid(), address.conninfo), cls(address))
            link._users += 1
            return link

    def release(self) -> None:
        """Give up one use; after the last one all connections are closed."""
        with PostgresLink._sharing:
            self._users -= 1
            if not self._users:
                PostgresLink._shared.pop((os.getpid(), self._conninfo), None)
                self._drop_idle()

    def run(self, doing: str, work: Callable[[PostgresConnection], T], tries: int = TRIES) -> T:
        """Do something with a connection, and again with another one if that is lost."""

        def once() -> T:
            with self._one() as connection:
                return work(connection)

        return self.retry(doing, once, tries)

    def retry(self, doing: str, work: Callable[[], T], tries: int = TRIES) -> T:
        """Do something, and again if it fails in a way that passes."""
        began, pauses = time.monotonic(), 0

        def passes(error: Exception) -> bool:
            passing = isinstance(error, psycopg.Error) and _passes(error)
            return passing and time.monotonic() - began <= PATIENCE_S

        def pause(seconds: float) -> None:
            nonlocal pauses
            pauses += 1
            self._drop_idle()  # they are as good as lost
            time.sleep(seconds)

        try:
            return retry(work, pause, tries=tries, longest_s=LONGEST_PAUSE_S, passes=passes)
        except psycopg.Error as error:
            if not _passes(error):
                raise self._explained(error, doing) from error
            raise self._given_up(error, doing, pauses + 1, time.monotonic() - began) from error

    def connect(self) -> PostgresConnection:
        """A new connection, which the caller closes."""
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        try:
            with answering(connection):
                connection.execute(SESSION)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _one(self) -> Iterator[PostgresConnection]:
        with self._slots:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self.connect()
            try:
                with answering(connection):
                    yield connection
            except BaseException:
                connection.close()  # whatever state it is in
                raise
            with self._lock:
                self._idle.append(connection)

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _given_up(self, error: psycopg.Error, doing: str, tries: int, seconds: float) -> StoreError:
        return StoreError(
            f"cannot {doing}: {self.where} did not answer in {tries} tries over {seconds:.1f} s ({first_line(error)}); "
            "see that the server runs and that this host can reach it"
        )

    def _explained(self, error: psycopg.Error, doing: str) -> StoreError:
        match error.sqlstate or "":
            case "53100":
                why = "the server's disk is full: free some space there"
            case "42501":
                why = f"{first_line(error)}: grant it to this user, or give the address of a schema of its own"
            case "57014":
                why = f"it took over {STATEMENT_S} s: see what keeps the server so busy"
            case "3F000" | "42P01":
                why = f"{first_line(error)}: it was dropped while in use; start again with a schema of its own"
            case "":
                why = f"{first_line(error)}; check host, port, database, user and password"
            case _:
                why = first_line(error)
        return StoreError(f"cannot {doing}: {self.where}: {why}")


@contextmanager
def answering(connection: PostgresConnection) -> Iterator[None]:
    """Cut a connection on which the server is silent for SILENT_S."""
    cut = threading.Timer(SILENT_S, _cut, [connection.fileno()])
    cut.daemon = True
    cut.start()
    try:
        yield
    finally:
        cut.cancel()
        cut.join()  # from here on the descriptor may be another's


def _cut(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as beside:
        beside.shutdown(socket.SHUT_RDWR)


def _passes(error: psycopg.Error) -> bool:
    """Whether another try may succeed."""
    state = error.sqlstate
    if state is not None:
        return state in PASSING or state.startswith("08")
    refused = "FATAL" in str(error) and not any(text in str(error) for text in STARTING)  # at connecting
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not refused
