"""A PostgreSQL server for tests, that of the torture runs."""

from evenflow_lab.torture.servers.database import DatabaseServer as Server

__all__ = ["Server"]
