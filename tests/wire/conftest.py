"""Every test here leaves as many descriptors and threads as it found."""

import os
import threading

import pytest

from evenflow.runtime.wire import poller
from tests.support.rig import PATIENCE_S, Rig, until


def _open():
    """Sockets, pipes and pollers of this process, by descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that lists them
            continue
        if target.startswith(("socket:", "pipe:", "anon_inode:")):
            found[name] = target
    return found


@pytest.fixture(autouse=True)
def _no_leaks():
    descriptors, threads = _open(), set(threading.enumerate())
    yield
    until(lambda: set(threading.enumerate()) <= threads, "the end of all threads")
    assert _open() == descriptors


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Our own get to shake hands on a busy machine; tests of strangers have less patience."""
    monkeypatch.setattr(poller, "HANDSHAKE_S", PATIENCE_S)


@pytest.fixture
def rig(_no_leaks):
    """Makes rigs; all of them are closed in the end."""
    made = []

    def make(*args, **kwargs):
        made.append(Rig(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.close()
