"""An S3 server (moto's) with one bucket, in a process of its own on the loopback address."""

from __future__ import annotations

import sys

from pyarrow.fs import FileSystem

from evenflow_lab.torture.servers.process import ServerProcess

_SERVE = """
import os, sys, time
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
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


class Server(ServerProcess):
    """An S3 server with its bucket."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-c", _SERVE], "'moto[s3]' 'flask-cors'")
        try:
            filesystem, bucket = FileSystem.from_uri(f"{self.uri('')}&allow_bucket_creation=true")
            filesystem.create_dir(bucket)
        except BaseException:
            self.close()
            raise

    def uri(self, path: str) -> str:
        """The URI of a path in the bucket."""
        return address(self.port, path)
