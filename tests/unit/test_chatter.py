"""Java's chatter at the start of Spark."""

import os
import threading

from evenflow.cli import chatter
from evenflow.cli.chatter import less_chatter, wanted


def wait_for_the_thread():
    for thread in threading.enumerate():
        if thread.name == "evenflow-stderr":
            thread.join(30)


def test_what_is_left_out():
    assert not wanted(b"WARNING: Using incubator modules: jdk.incubator.vector\n")
    assert wanted(b"WARNING: something else\n")


def test_lines_are_passed_on(capfd):
    with less_chatter():
        inherited = os.dup(2)  # as a process that is started here has it
    os.write(inherited, b"WARNING: Using incubator modules: x\nan error\n")
    os.close(inherited)
    os.write(2, b"ours\n")
    wait_for_the_thread()
    assert sorted(capfd.readouterr().err.splitlines()) == ["an error", "ours"]


def test_that_nothing_is_passed_on_any_more_is_told(monkeypatch, caplog):
    monkeypatch.setattr(chatter, "wanted", lambda line: 1 / 0)
    with less_chatter():
        inherited = os.dup(2)
    os.write(inherited, b"a line\n")
    os.close(inherited)
    wait_for_the_thread()
    assert "not passed on any more: ZeroDivisionError" in caplog.text
