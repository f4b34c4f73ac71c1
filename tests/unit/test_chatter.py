"""Java's chatter at the start of Spark."""

import os
import threading

from evenflow.cli.chatter import less_chatter, wanted


def test_what_is_left_out():
    assert not wanted(b"WARNING: Using incubator modules: jdk.incubator.vector\n")
    assert wanted(b"WARNING: something else\n")


def test_lines_are_passed_on(capfd):
    with less_chatter():
        inherited = os.dup(2)  # as a process that is started here has it
    os.write(inherited, b"WARNING: Using incubator modules: x\nan error\n")
    os.close(inherited)
    os.write(2, b"ours\n")
    for thread in threading.enumerate():
        if thread.name == "evenflow stderr":
            thread.join(30)
    assert sorted(capfd.readouterr().err.splitlines()) == ["an error", "ours"]
