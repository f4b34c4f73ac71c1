"""The servers of stores, started when the first job needs one: an S3 bucket, a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evenflow_lab.torture.servers import bucket, database
from evenflow_lab.torture.servers.process import ServerProcess

SERVERS: dict[str, Callable[[], ServerProcess]] = {
    "s3": bucket.Server,
    "postgres": database.DatabaseProcess,
}
PORT = "{}.port"
"""A file beside the folders of the runs: the port of a server."""


class Servers:
    """Owns the servers of a run; a file for each tells its port to all processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, ServerProcess] = {}

    def need(self, store: str) -> None:
        """Start the server of a kind of store, if it has one that does not run yet."""
        if store in SERVERS and store not in self._running:
            self._running[store] = SERVERS[store]()
            (self._folder / PORT.format(store)).write_text(str(self._running[store].port))

    def close(self) -> None:
        for server in self._running.values():
            server.close()


def address(store: str, folder: Path) -> str:
    """The URI of the checkpoint of the job in a folder, in a store with a server."""
    port = int((folder.parent / PORT.format(store)).read_text())
    if store == "s3":
        return bucket.address(port, str(folder / "state").lstrip("/"))
    return database.address(port, folder.name)
