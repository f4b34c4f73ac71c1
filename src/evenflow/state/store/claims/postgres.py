"""The lock on a checkpoint in a PostgreSQL database."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import psycopg

from evenflow.errors import StoreError
from evenflow.state.store.base import OWN, Store
from evenflow.state.store.claims.in_use import said_by, taken
from evenflow.state.store.postgres_link import PostgresConnection, PostgresLink, answering

CLAIM_BLOB = f"{OWN}claim"
"""Says who has the lock, for error messages."""


class SessionLock:
    """An advisory lock of a session: the server frees it when its holder is gone.

    It is lost with its connection. `beat` takes it again then; if that fails another cluster has the checkpoint.
    """

    def __init__(self, store: Store, where: str, link: PostgresLink, key: int, mine: dict[str, object]) -> None:
        self._store, self._where, self._link, self._key = store, where, link, key
        self._connection: PostgresConnection | None = None
        self._released = False
        self._guard = threading.Lock()
        self.beat()
        try:
            store.put(CLAIM_BLOB, [json.dumps(mine).encode()])
        except BaseException:
            self.drop()
            raise

    def beat(self) -> None:
        """Take the lock again if it was lost."""
        with self._guard:
            if self._released or self._answers():
                return
            self.drop()
            self._connection = self._link.retry("claim the checkpoint", self._take)
        if self._connection is None:
            raise taken(self._where, said_by(self._holder()))

    def release(self) -> None:
        """Release the lock."""
        if not self._released:
            self._released = True
            with suppress(StoreError):  # the server is gone, and the lock with it
                self._store.delete([CLAIM_BLOB])
            if self._connection is not None:  # closing it frees the lock, too, but some moments later
                with suppress(psycopg.Error), answering(self._connection):
                    self._connection.execute("SELECT pg_advisory_unlock(%s)", [self._key])
            self.drop()

    def _answers(self) -> bool:
        with suppress(psycopg.Error):
            if self._connection is not None:
                with answering(self._connection):
                    self._connection.execute("SELECT 1")
                return True
        return False

    def _take(self) -> PostgresConnection | None:
        """A connection that has the lock; None if another session has it."""
        connection = self._link.connect()
        try:
            with answering(connection):
                found = connection.execute("SELECT pg_try_advisory_lock(%s)", [self._key]).fetchone()
            if found is not None and found[0]:
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _holder(self) -> bytes:
        with suppress(StoreError):
            return bytes(self._store.get(CLAIM_BLOB))
        return b""

    def drop(self) -> None:
        """Close the connection, which frees the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
