"""The live page that a demo has."""

import urllib.request

from evenflow.cli.demo import show as demo
from evenflow.errors import EvenflowError


def test_the_page_is_there_as_long_as_the_demo(tmp_path):
    log = tmp_path / "events.jsonl"
    with demo.live_page(log) as address:
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"<title>" in answer.read()


def test_a_page_that_fails_does_not_make_the_demo_fail(tmp_path, monkeypatch):
    class Failed(demo.DashboardServer):
        def close(self):
            super().close()
            raise EvenflowError("the dashboard has failed: no more entries")

    monkeypatch.setattr(demo, "DashboardServer", Failed)
    with demo.live_page(tmp_path / "events.jsonl") as address:
        assert address
