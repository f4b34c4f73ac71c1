"""An S3 server for tests, that of the torture runs."""

from evenflow_lab.torture.servers.bucket import Server

__all__ = ["Server"]
