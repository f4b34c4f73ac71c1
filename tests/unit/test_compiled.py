"""Functions that numba compiles: kept on disk, and compiled by one process for all."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from evenflow.model import compiled

SOURCE = """
import sys
import numpy as np
from evenflow.model.compiled import compiled


@compiled
def inner(values):
    return np.cumsum(values)


@compiled
def outer(values):
    return inner(values).sum() + inner(values[1:]).sum()


print("ready", flush=True)
sys.stdin.readline()
outer(np.arange(5.0))
print(*(sum(each.stats.cache_misses.values()) for each in (inner, outer)))
"""


def test_of_processes_that_need_a_function_one_compiles_it(tmp_path):
    """They begin at the same moment, and it takes a second to compile."""
    file = tmp_path / "sums.py"
    file.write_text(SOURCE)
    about = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    about["env"] = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen([sys.executable, str(file)], **about)) for _ in range(2)]
        assert [process.stdout.readline() for process in started] == ["ready\n"] * 2
        for process in started:
            process.stdin.write("\n")
            process.stdin.flush()
        missed = [process.stdout.read() for process in started]
    assert sorted(missed) == ["0 0\n", "1 1\n"]


def test_a_lock_that_cannot_be_had_is_done_without(tmp_path, monkeypatch):
    """Its file is in a folder that is not there, or somebody keeps it for longer than is waited."""
    pauses = []
    monkeypatch.setattr(compiled, "sleep", pauses.append)
    file = str(tmp_path / "f.lock")
    for place in (str(tmp_path / "none" / "f.lock"), file):
        with compiled._locked(place):
            assert not pauses
    with compiled._locked(file), compiled._locked(file):
        assert pauses == [compiled.PAUSE_S] * compiled.TRIES


def test_without_a_place_for_the_cache_functions_are_compiled_all_the_same(monkeypatch):
    asked = []

    def njit(function, cache, **_options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setattr(compiled, "njit", njit)
    assert compiled.compiled(len) is len
    assert asked == [True, False]


@pytest.mark.parametrize("moved", [False, True], ids=["another name", "another module"])
def test_code_on_disk_for_records_of_an_older_version_is_compiled_anew(tmp_path, moved):
    """The class of a record has another name or another module now, and the function is where it was."""
    record = """
from typing import NamedTuple


class {0}(NamedTuple):
    value: int
"""
    source = """
from {1} import {0}
from evenflow.model.compiled import compiled


@compiled
def value_of(record):
    return record.value


print(value_of({0}(7)))
"""
    file = tmp_path / "records.py"
    about = {"capture_output": True, "text": True, "check": True}
    about["env"] = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])}
    for name, home in (("Before", "first"), ("Before", "another") if moved else ("Afterwards", "first")):
        (tmp_path / "first.py").unlink(missing_ok=True)
        (tmp_path / f"{home}.py").write_text(record.format(name))
        file.write_text(source.format(name, home))
        assert subprocess.run([sys.executable, "-c", "import records"], **about).stdout == "7\n"
