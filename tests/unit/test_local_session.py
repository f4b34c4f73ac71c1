"""What an embedded session is started with."""

import site
import sys

from evenflow.runtime.cluster.spark.session import has_evenflow


def test_only_an_interpreter_for_which_it_is_installed_surely_has_the_package(monkeypatch, tmp_path):
    """Processes that it starts do not have the driver's `sys.path`, and another interpreter may have anything."""
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path)])
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(tmp_path / "user"))
    assert not has_evenflow(sys.executable), "it was imported from elsewhere"
    (tmp_path / "evenflow-0.1.0.dist-info").mkdir()
    (tmp_path / "evenflow-0.1.0.dist-info" / "METADATA").write_text("Name: evenflow\nVersion: 0.1.0\n")
    assert has_evenflow(sys.executable)
    assert not has_evenflow("/usr/bin/another-python")
