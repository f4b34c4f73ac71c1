"""An S3 server (moto's) with one bucket, in a process of its own on the loopback address."""

from __future__ import annotations

import subprocess
import sys
from typing import Self

from pyarrow.fs import FileSystem

from evenflow.errors import EvenflowError

PATIENCE_S = 60.0
_SERVE = """
import sys, time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def address(port: int, path: str) -> str:
    """The URI of a path in the bucket of the server on a port."""
    endpoint = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    return f"s3://somebody:hunter22@bucket/{path}?{endpoint}"


class Server:
    """Owns the server's process, which ends when its standard input is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            said = self._process.stdout.readline() if self._process.stdout is not None else b""
            if not said:
                raise EvenflowError("the S3 server did not start: pip install 'moto[s3]' 'flask-cors'")
            self.port = int(said)
            filesystem, bucket = FileSystem.from_uri(f"{self.uri('')}&allow_bucket_creation=true")
            filesystem.create_dir(bucket)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def uri(self, path: str) -> str:
        """The URI of a path in the bucket."""
        return address(self.port, path)

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)
