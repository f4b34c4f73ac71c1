"""An S3 server for tests (moto's): in a process of its own, on loopback, with one bucket."""

import subprocess
import sys

from pyarrow.fs import FileSystem

PATIENCE_S = 60.0
_SERVE = """
import sys, time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class Server:
    """Owns a process, which ends when its input does."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.port = int(self._process.stdout.readline())
            filesystem, bucket = FileSystem.from_uri(f"{self.uri('')}&allow_bucket_creation=true")
            filesystem.create_dir(bucket)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def uri(self, path):
        endpoint = f"endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"
        return f"s3://somebody:hunter22@bucket/{path}?{endpoint}"

    def close(self):
        """End the process."""
        self._process.communicate(timeout=PATIENCE_S)
