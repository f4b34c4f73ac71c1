"""Where a store is: addresses of databases, what of them may be shown, and what is said if they cannot be used."""

import sys

import pytest

from evenflow.errors import InvalidArgument, MissingPackage
from evenflow.runtime.cluster.arguments.verbs import where_of
from evenflow.state.store.base import shown
from evenflow.state.store.opening import open_store

ADDRESSES = {
    "/tmp/state": "/tmp/state",
    "file:///tmp/a@b?c": "file:///tmp/a@b?c",
    "s3://key:secret@bucket/dir?region=x": "s3://bucket/dir",
    "postgresql://user:secret@host:5432/db?schema=s&password=secret": "postgresql://host:5432/db?schema=s",
    "postgresql://user:sec?ret@host/db": "postgresql://host/db",
    "postgresql:///db?host=/run/pg&schema=a%20b": "postgresql:///db?schema=a%20b",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_secret_is_shown(address):
    assert shown(address) == ADDRESSES[address]


@pytest.mark.parametrize("address", ["hdfs://me@namenode:8020/state", "viewfs://cluster/state", "HDFS://x/y"])
def test_hdfs_is_refused_before_anything_is_asked(address):
    shorter = address.replace("me@", "")
    for refuse in (open_store, where_of):
        with pytest.raises(
            InvalidArgument, match=r"HDFS is not supported for checkpoints: give .*s3://.*postgresql"
        ) as said:
            refuse(address)
        assert str(said.value).startswith(shorter)


def test_a_file_system_that_is_hdfs_is_refused():
    class Hadoop:
        type_name = "hdfs"

    with pytest.raises(InvalidArgument, match="HDFS is not supported"):
        open_store((Hadoop(), "/state"))


def test_without_psycopg(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("evenflow.state.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        MissingPackage, match=r"postgresql://host/db: .*psycopg.*pip install 'evenflow\[postgres\]'"
    ) as said:
        open_store("postgresql://me:hunter2@host/db")
    assert "hunter2" not in str(said.value)
