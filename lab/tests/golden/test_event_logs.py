"""The same scenario and seed give the same bytes of event log: in any process, and on any processor.

After a change that is meant to change what simulations do: `python -m tests.support.golden_logs --write`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.golden_logs import FILE, event_logs

ROOT = Path(__file__).parents[3]
WITHIN_S = 300.0


def on_a_plain_processor():
    """The environment of a process that makes no use of what this processor has beyond the oldest ones."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return os.environ | {
        "PYTHONHASHSEED": "7",
        "NPY_DISABLE_CPU_FEATURES": " ".join(extensions),
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    }


def by_another_process(environment):
    command = [sys.executable, "-m", "tests.support.golden_logs"]
    told = {"cwd": ROOT, "env": environment, "timeout": WITHIN_S, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **told)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("where", ["here", "on a plain processor"])
def test_event_logs_are_those_that_are_kept(where):
    kept = json.loads(FILE.read_text())
    found = event_logs() if where == "here" else by_another_process(on_a_plain_processor())
    assert found == kept, "if simulations were meant to change: python -m tests.support.golden_logs --write"


def test_what_is_kept_has_weights_moves_and_placements():
    kept = json.loads(FILE.read_text())
    assert all(log["decisions"] >= 3 for log in kept.values())
    assert all(log["units_moved"] >= 5 for name, log in kept.items() if not name.startswith("ordered"))
