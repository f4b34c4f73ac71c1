"""Pure tests (unit, property) start no Spark, open no connection and never sleep: whoever tries fails."""

import socket
import time

import pytest
from hypothesis import HealthCheck, settings

PURE = {"unit", "property"}

# Two busy cores: an example may take its time. What hypothesis finds is what matters here.
settings.register_profile("evenflow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evenflow")


def _refuse(what):
    def refuse(*_args, **_kwargs):
        raise AssertionError(f"a test under {' or '.join(sorted(PURE))} must not {what}")

    return refuse


@pytest.fixture(autouse=True)
def _pure(request, monkeypatch):
    if request.path.parent.name not in PURE:
        return
    monkeypatch.setattr(time, "sleep", _refuse("sleep"))
    monkeypatch.setattr("pyspark.core.context.SparkContext._ensure_initialized", _refuse("start Spark"))
    for name in ("bind", "connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, _refuse("open a connection"))
