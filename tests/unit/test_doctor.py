"""`evenflow doctor` on broken machines: what it finds, what it says to do, and its exit code."""

import errno
import json
import os
import shutil
import subprocess
from collections import namedtuple
from importlib.metadata import PackageNotFoundError

import pytest
from typer.testing import CliRunner

from evenflow.cli import checks
from evenflow.cli.app import app
from evenflow.errors import StoreError

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment\n'
JAVA_8 = 'openjdk version "1.8.0_402"\n'


@pytest.fixture
def java(tmp_path):
    """A home with a java that can be executed."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}


def failing(error):
    def run(*_args, **_kwargs):
        raise error

    return run


def test_a_java_that_will_do(java):
    found = checks.check_java(java, lambda command: JAVA_17)
    assert (found.state, found.remedy) == ("good", "")
    assert found.found.startswith("17.0.15, ")


@pytest.mark.parametrize(
    ("environ", "run", "said"),
    [
        ({"PATH": ""}, None, "none on the PATH"),
        ({"JAVA_HOME": "/nowhere", "PATH": ""}, None, "no java in JAVA_HOME=/nowhere"),
        (None, lambda command: JAVA_8, "1.8.0_402"),
        (None, failing(OSError(errno.ENOEXEC, "Exec format error")), "does not run: "),
        (None, failing(subprocess.TimeoutExpired("java", 30)), "does not run: "),
    ],
)
def test_no_java_or_an_old_one(java, environ, run, said):
    found = checks.check_java(java if environ is None else environ, run)
    assert found.state == "bad"
    assert said in found.found
    assert "install Java 17 or 21" in found.remedy


def test_a_java_that_says_nothing(java):
    assert checks.check_java(java, lambda command: "?").state == "poor"


@pytest.mark.parametrize(
    ("found", "environ", "state"),
    [
        ((3, 12, 1), {}, "good"),
        ((3, 10, 9), {}, "bad"),
        ((3, 12, 1), {"PYSPARK_PYTHON": "/no/such/python"}, "bad"),
    ],
)
def test_python(found, environ, state):
    assert checks.check_python(found, environ).state == state


def versions(**known):
    def found(name):
        if name not in known:
            raise PackageNotFoundError(name)
        return known[name]

    return found


@pytest.mark.parametrize(
    ("known", "environ", "state", "said"),
    [
        ({"pyspark": "4.3.0", "pyarrow": "20"}, {}, "good", ""),
        ({"pyspark": "3.5.1", "pyarrow": "20"}, {}, "bad", "pip install 'pyspark>=4.3,<4.4'"),
        ({"pyarrow": "20"}, {}, "bad", "pip install evenflow"),
        ({"pyspark": "4.3.0", "pyarrow": "20"}, {"SPARK_HOME": "/no/such/spark"}, "bad", "unset SPARK_HOME"),
    ],
)
def test_packages(known, environ, state, said):
    found = checks.check_packages(environ, versions(**known))
    assert found.state == state
    assert said in found.remedy


@pytest.mark.parametrize(
    ("jar", "state", "said"),
    [
        ("spark-core_2.13-4.3.1.jar", "good", "Spark 4.3.1"),
        ("spark-core_2.12-3.5.1.jar", "bad", "Spark 3.5.1"),
        ("other.jar", "poor", "SPARK_HOME="),
        ("", "bad", "no bin/spark-submit"),
    ],
)
def test_another_spark_in_the_way(tmp_path, jar, state, said):
    if jar:
        submit = tmp_path / "bin" / "spark-submit"
        for file in (submit, tmp_path / "jars" / jar):
            file.parent.mkdir()
            file.write_text("")
        submit.chmod(0o755)
    environ = {"SPARK_HOME": str(tmp_path)}
    found = checks.check_packages(environ, versions(pyspark="4.3.0", pyarrow="20"))
    assert found.state == state
    assert said in found.found


@pytest.mark.parametrize(
    ("workers", "cores", "memory", "state"),
    [(4, 2, 8e9, "good"), (4, 2, 0, "good"), (5, 2, 8e9, "poor"), (4, 4, 1e9, "bad")],
)
def test_slots(workers, cores, memory, state):
    assert checks.check_slots(workers, cores, int(memory)).state == state


def test_free_memory(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2000 kB\n")
    assert checks.free_memory(tmp_path / "meminfo") == 2_048_000
    assert checks.free_memory(tmp_path / "none") == 0


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("free", "state"), [(5e9, "good"), (1e9, "poor"), (1e6, "bad")])
def test_how_full_a_disk_is(tmp_path, monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(9e9, 9e9 - free, free))
    assert checks.check_disk(tmp_path).state == state
    assert not list(tmp_path.iterdir())


def test_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing(OSError(errno.ENOSPC, "No space left on device")))
    found = checks.check_disk(tmp_path)
    assert (found.state, found.found) == ("bad", f"{tmp_path}: No space left on device")


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS])
def test_a_directory_that_cannot_be_written_to(tmp_path, monkeypatch, error):
    monkeypatch.setattr(checks.tempfile, "NamedTemporaryFile", failing(OSError(error, os.strerror(error))))
    found = checks.check_disk(tmp_path)
    assert found.state == "bad"
    assert os.strerror(error) in found.found
    assert "can write to" in found.remedy


def test_no_directory(tmp_path):
    assert checks.check_disk(tmp_path / "none").state == "bad"


@pytest.mark.parametrize(("now", "state"), [(None, "good"), (1.0, "bad"), (1.9e9, "poor")])
def test_clocks(tmp_path, now, state):
    assert checks.check_clock(tmp_path, *([lambda: now] if now else [])).state == state


def test_a_checkpoint(tmp_path):
    where = tmp_path / "state"
    assert checks.check_checkpoint(str(where)).state == "good"
    assert not where.exists()
    checks.open_store(where).close()
    before = sorted(tmp_path.rglob("*"))
    found = checks.check_checkpoint(str(where))
    assert found.state == "good"
    assert "0 blobs; written to, read and deleted from" in found.found
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]


def test_a_checkpoint_below_a_directory_that_may_not_be_entered(tmp_path, monkeypatch):
    plain = os.stat

    def stat(path, **given):
        if str(path).startswith(f"{tmp_path}/"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, **given)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(checks, "check_disk", lambda folder, what: checks.Diagnosis(what, "bad", f"{folder}: denied"))
    found = checks.check_checkpoint(str(tmp_path / "state" / "here"))
    assert (found.state, found.found) == ("bad", f"{tmp_path}: denied")


@pytest.mark.parametrize(
    ("where", "found", "remedy"),
    [
        ("hdfs://host/x", "hdfs://host/x: HDFS is not supported for checkpoints", "give a directory that all hosts"),
        ("ftp://host/x", "cannot open ftp://host/x: Unrecognized filesystem type", "give a path, a URI"),
    ],
)
def test_an_address_of_no_checkpoint(where, found, remedy):
    told = checks.check_checkpoint(where)
    assert told.state == "bad"
    assert told.found.startswith(found)
    assert told.remedy.startswith(remedy)


def test_a_directory_that_is_no_checkpoint(tmp_path):
    (tmp_path / "photo.jpg").write_text("x")
    found = checks.check_checkpoint(str(tmp_path))
    assert found.state == "bad"
    assert "not a checkpoint of Evenflow" in found.found


def test_a_checkpoint_that_refuses(tmp_path):
    (tmp_path / "evenflow.json").write_text("{}")
    found = checks.check_checkpoint(str(tmp_path), opened=failing(StoreError("permission denied")))
    assert (found.state, found.found) == ("bad", f"{tmp_path}: permission denied")
    found = checks.check_checkpoint("s3://bucket/x", opened=failing(StoreError("access denied")))
    assert "credentials" in found.remedy


@pytest.fixture
def _healthy(monkeypatch):
    fine = checks.Diagnosis("ports", "good", "127.0.0.1:1")
    monkeypatch.setattr(checks, "check_loopback", lambda: fine)
    monkeypatch.setattr(checks, "check_java", lambda: checks.Diagnosis("Java", "good", "17"))


@pytest.mark.usefixtures("_healthy")
def test_the_command():
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "this machine can run Evenflow" in result.output


@pytest.mark.usefixtures("_healthy")
def test_the_command_for_programs(monkeypatch, tmp_path):
    (tmp_path / "x").write_text("")
    monkeypatch.setattr(checks, "check_java", lambda: checks.Diagnosis("Java", "bad", "[bold]none", "install [it]"))
    result = CliRunner().invoke(app, ["doctor", "--json", "-", "--checkpoint", str(tmp_path)])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["good"] is False
    states = {each["check"]: each["state"] for each in told["findings"]}
    assert states == {
        "Python": "good",
        "Java": "bad",
        "packages": "good",
        "slots": states["slots"],
        "ports": "good",
        "disk": states["disk"],
        "clock": "good",
        "checkpoint": "bad",
    }
    assert "to be mended: Java, " in result.stderr
    assert "[bold]none" in result.stderr
