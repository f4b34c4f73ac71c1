"""What tells keyed operators apart whose state is stored."""

import os
import subprocess
import sys


def test_the_identity_of_an_operator_with_sets_is_the_same_in_every_process():
    source = (
        "from evenflow.operators.keyed import identity\n"
        "class W:\n"
        "    def __init__(self):\n"
        "        self.words = {'alpha', 'beta', 'gamma', 'delta'}\n"
        "        self.more = [(frozenset(self.words),), {'x': self.words}]\n"
        "print(identity(W()))"
    )
    run = [sys.executable, "-c", source]
    said = {
        subprocess.run(run, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in "12"
    }
    words = "{'alpha', 'beta', 'delta', 'gamma'}"
    assert said == {f"W(more=[(frozenset({words}),), {{'x': {words}}}], words={words})\n".encode()}
