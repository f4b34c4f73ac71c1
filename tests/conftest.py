"""Pure tests (unit, property) start no Spark, open no connection and never sleep: whoever tries fails."""

import os
import socket
import time

import pytest
from hypothesis import HealthCheck, Phase, settings

PURE = {"unit", "property"}

# Two busy cores: an example may take its time. The same examples each time, so that a failure is the change's;
# `HYPOTHESIS_PROFILE=explore make test` draws new ones. No explain phase: it traces every line, for minutes.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
QUIET = [HealthCheck.too_slow]
settings.register_profile("explore", deadline=None, suppress_health_check=QUIET, phases=PHASES)
settings.register_profile("same", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


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
