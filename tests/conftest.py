"""Pure tests (unit, property) start no Spark, open no connection and never sleep: whoever tries fails."""

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

PURE = {"unit", "property"}
WITH_SPARK = {"spark", "drivers"}

# Two busy cores: an example may take its time. The same examples each time, so that a failure is the change's;
# `HYPOTHESIS_PROFILE=explore make test` draws new ones. No explain phase: it traces every line, for minutes.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
QUIET = [HealthCheck.too_slow]
settings.register_profile("explore", deadline=None, suppress_health_check=QUIET, phases=PHASES)
settings.register_profile("same", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# scripts/test.sh runs parts in the background, where a shell has Ctrl-C ignored, and what tests start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run those on Spark last: py4j's threads go on sleeping, and tests that must not sleep would be blamed for it."""
    for item in items:
        if _needs_spark(item):
            item.add_marker("spark")
    items.sort(key=_needs_spark)


def _needs_spark(item: pytest.Item) -> bool:
    return item.path.parent.name in WITH_SPARK


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


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Wait for a condition; its value. Generous, since two cores may be busy."""

    def wait(condition: Callable[[], Any], seconds: float = 90.0, what: str = "") -> Any:
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what or condition}"
            time.sleep(0.02)
        return value

    return wait
