"""The guards of tests/conftest.py bite."""

import socket
import time

import pytest

import evenflow as ef


def test_no_sleep():
    with pytest.raises(AssertionError, match="must not sleep"):
        time.sleep(0)


@pytest.mark.parametrize("call", ["connect", "connect_ex", "bind"])
def test_no_connection(call):
    with socket.socket() as sock, pytest.raises(AssertionError, match="must not open a connection"):
        getattr(sock, call)(("127.0.0.1", 1))


def test_no_spark():
    with pytest.raises(AssertionError, match="must not start Spark"):
        ef.local_session(workers=1)
