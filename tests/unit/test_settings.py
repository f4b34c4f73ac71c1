"""Settings travel in closures and show up in tracebacks; the secret must not."""

import pickle

import pytest

from evenflow.policy import RoundRobin
from evenflow.runtime.feeder.ordered.feeder import OrderedTask
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.loop import WorkerTask
from evenflow.testing import Emulate

SETTINGS = Settings("c1", "127.0.0.1", 4242, b"hunter2hunter2", 1.0, 60.0, Emulate(20, {0: 10}))
CARRIERS = [SETTINGS, WorkerTask(SETTINGS, 3), OrderedTask(SETTINGS, "r", "op", b"", RoundRobin.splitting)]


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: type(carrier).__name__)
@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, "%s".__mod__])
def test_the_secret_is_never_shown(carrier, show):
    assert "hunter2" not in show(carrier)
    assert "c1" in show(carrier)


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: type(carrier).__name__)
def test_everything_survives_the_closure(carrier):
    assert pickle.loads(pickle.dumps(carrier)) == carrier
