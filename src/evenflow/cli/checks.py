"""What `evenflow doctor` looks at: one function a check, each with what it looks at as arguments.

A check never raises: it says what it found, and, if that will not do, what to do about it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from evenflow.errors import EvenflowError, first_line
from evenflow.state.store.base import OWN, Store, shown
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import placed

LEAST_JAVA, LEAST_PYTHON = 17, (3, 11)
SPARK = "4.3."
JAVA_S = 30.0
"""How long a Java may take to say its version."""
LITTLE, SCARCE = 100 * 1000**2, 2 * 1000**3
"""Free bytes below which a disk is too full, and below which it is soon."""
WORKER_BYTES, DRIVER_BYTES = 300 * 1000**2, 1500 * 1000**2
"""What a worker without state, and Spark with its driver, take of memory."""
SKEW_S = 2.0
"""Clocks that differ by more make latencies and the times in logs wrong."""
GET_JAVA = (
    "install Java 17 or 21 (apt-get install openjdk-17-jre-headless; dnf install java-17-openjdk-headless; "
    "brew install openjdk@17), or set JAVA_HOME to the home of one"
)
RunProgram = Callable[[list[str]], str]


@dataclass(frozen=True)
class Diagnosis:
    """What a check found. `bad` has to be mended before anything runs; `poor` may do."""

    check: str
    state: Literal["good", "poor", "bad"]
    found: str
    remedy: str = ""


def check_python(found: tuple[int, ...] = sys.version_info[:3], environ: Mapping[str, str] = os.environ) -> Diagnosis:
    """The interpreter of the driver, and the one that Spark is told to take."""
    text = f"{'.'.join(map(str, found))}, {sys.executable}"
    if found < LEAST_PYTHON:
        return Diagnosis("Python", "bad", text, "install Python 3.11 or newer")
    other = environ.get("PYSPARK_PYTHON", "")
    if other and shutil.which(other) is None:
        return Diagnosis(
            "Python", "bad", f"{text}; PYSPARK_PYTHON={other}", "PYSPARK_PYTHON names no program: unset it"
        )
    return Diagnosis("Python", "good", text)


def run_java(command: list[str]) -> str:
    """What a program says, on both its outputs."""
    return subprocess.run(command, capture_output=True, text=True, timeout=JAVA_S, check=True, errors="replace").stderr


def check_java(environ: Mapping[str, str] = os.environ, run: RunProgram = run_java) -> Diagnosis:
    """The Java that Spark would start: that of JAVA_HOME, else the first on the PATH."""
    home = environ.get("JAVA_HOME", "")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH", "")) or ""
    if not java or not os.access(java, os.X_OK):
        return Diagnosis("Java", "bad", f"no java in JAVA_HOME={home}" if home else "none on the PATH", GET_JAVA)
    try:
        said = run([java, "-version"])
    except (OSError, subprocess.SubprocessError) as error:
        return Diagnosis("Java", "bad", f"{java} does not run: {first_line(error)}", GET_JAVA)
    match = re.search(r'version "(?:1\.)?([0-9]+)[^"]*"', said)
    if match is None:
        return Diagnosis("Java", "poor", f"{java} does not say its version: {said.strip()[:60]!r}", GET_JAVA)
    text = f"{match[0].removeprefix('version ').strip(chr(34))}, {java}"
    if int(match[1]) < LEAST_JAVA:
        return Diagnosis("Java", "bad", text, f"Spark 4 needs {LEAST_JAVA} or newer: {GET_JAVA}")
    return Diagnosis("Java", "good", text)


def check_packages(environ: Mapping[str, str] = os.environ, found: Callable[[str], str] = version) -> Diagnosis:
    """PySpark and pyarrow, and no other Spark in the way."""
    versions = {}
    for name in ("pyspark", "pyarrow"):
        try:
            versions[name] = found(name)
        except PackageNotFoundError:
            return Diagnosis("packages", "bad", f"no {name}", f"pip install evenflow brings {name} along")
    text = ", ".join(f"{name} {each}" for name, each in versions.items())
    if not versions["pyspark"].startswith(SPARK):
        return Diagnosis("packages", "bad", text, f"evenflow runs on Spark {SPARK}x: pip install 'pyspark>=4.3,<4.4'")
    home = environ.get("SPARK_HOME", "")
    return _check_home(Path(home), f"{text}; SPARK_HOME={home}") if home else Diagnosis("packages", "good", text)


def _check_home(home: Path, text: str) -> Diagnosis:
    """The Spark that PySpark would start instead of its own."""
    remedy = f"unset SPARK_HOME, or set it to the home of a Spark {SPARK}x"
    if not os.access(home / "bin" / "spark-submit", os.X_OK):
        return Diagnosis("packages", "bad", f"{text}, which has no bin/spark-submit", remedy)
    jars = [jar.name for jar in sorted(home.glob("jars/spark-core_*.jar"))]
    match = re.search(r"spark-core_[^-]+-([0-9][^ ]*)\.jar", " ".join(jars))
    if match is None:
        return Diagnosis("packages", "poor", text, f"make sure that it is Spark {SPARK}x, too")
    text = f"{text}, Spark {match[1]}"
    if not match[1].startswith(SPARK):
        return Diagnosis("packages", "bad", text, remedy)
    return Diagnosis("packages", "good", text)


def check_slots(workers: int, cores: int, memory: int) -> Diagnosis:
    """Cores and memory for this many workers, beside Spark; `memory` is what is free, 0 if that is not known."""
    text = f"{cores} cores" + (f", {memory / 1e9:.1f} GB of memory free" if memory else "")
    needed = DRIVER_BYTES + workers * WORKER_BYTES
    if memory and memory < needed:
        return Diagnosis("slots", "bad", text, f"{workers} workers need about {needed / 1e9:.1f} GB: start fewer")
    if workers > 2 * cores:
        return Diagnosis("slots", "poor", text, f"{workers} workers share the cores: for speed, start {cores} or fewer")
    return Diagnosis("slots", "good", f"{text}, enough for {workers} workers")


def free_memory(path: Path = Path("/proc/meminfo")) -> int:
    """Bytes of memory that may be taken; 0 where that is not known."""
    try:
        match = re.search(r"MemAvailable: *([0-9]+) kB", path.read_text())
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0


def check_loopback(host: str = "127.0.0.1") -> Diagnosis:
    """Whether a process can listen on a free port, and be reached there."""
    try:
        with Listener((host, 0)) as listener, Client(listener.address) as one, listener.accept() as other:
            one.send(b"?")
            if not other.poll(5.0):
                raise OSError("nothing came within 5 s")
            port = listener.address[1]
    except OSError as error:
        remedy = f"let processes connect to {host}: look at firewalls, at SPARK_LOCAL_IP, and at limits of open files"
        return Diagnosis("ports", "bad", f"{host}: {first_line(error)}", remedy)
    return Diagnosis("ports", "good", f"{host}:{port} can be listened on and reached")


def check_disk(folder: Path, what: str = "disk") -> Diagnosis:
    """Whether a folder can be written to, and has room."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".evenflow-doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        remedy = f"make {folder} a directory that this user can write to, or set TMPDIR and SPARK_LOCAL_DIRS to one"
        return Diagnosis(what, "bad", f"{folder}: {error.strerror or error}", remedy)
    text = f"{folder}: {free / 1e9:.1f} GB free"
    if free < LITTLE:
        return Diagnosis(what, "bad", text, "free some: Spark's files, and state that does not fit in memory, go there")
    if free < SCARCE:
        return Diagnosis(what, "poor", text, "free some soon: Spark's files, and state beyond memory, go there")
    return Diagnosis(what, "good", text)


def check_clock(folder: Path, now: Callable[[], float] = time.time) -> Diagnosis:
    """Whether the clock is set, and that of the disk (of another host, perhaps) says the same."""
    wall = now()
    if time.gmtime(wall).tm_year < 2024:
        return Diagnosis("clock", "bad", time.strftime("%Y-%m-%d", time.gmtime(wall)), "set the clock (ntp, chrony)")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".evenflow-doctor-") as file:
            skew = os.fstat(file.fileno()).st_mtime - now()
    except OSError:
        skew = 0.0  # told of by the check of the disk
    text = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(wall))} UTC, {abs(skew):.1f} s from that of {folder}"
    if abs(skew) > SKEW_S:
        return Diagnosis("clock", "poor", text, "let both hosts take their time from the same source (ntp, chrony)")
    return Diagnosis("clock", "good", text)


def check_checkpoint(where: str, key: bytes = b"", opened: Callable[..., Store] = open_store) -> Diagnosis:
    """Whether a checkpoint can be reached, listed, written to, read and deleted from; nothing is left behind in it."""
    folder = Path(where)
    if "://" not in where and not _holds_files(folder):
        above = next(each for each in (folder, *folder.absolute().parents) if os.path.exists(each))
        room = check_disk(above, "checkpoint")
        text = f"{where} is made by the first cluster, and can be" if room.state != "bad" else room.found
        return Diagnosis("checkpoint", room.state, text, _store_remedy(where) if room.state == "bad" else room.remedy)
    probe = f"{OWN}doctor-{uuid.uuid4().hex}"
    try:
        with opened(placed(where, key)) as store:
            names = len(store.names())
            store.put(probe, [b"evenflow doctor"])
            try:
                same = bytes(store.get(probe)) == b"evenflow doctor"
            finally:
                store.delete([probe])
    except (EvenflowError, OSError) as error:
        return _store_refused(where, first_line(error))
    if not same:
        return Diagnosis("checkpoint", "bad", f"{shown(where)} gives back other bytes", "use another store")
    return Diagnosis("checkpoint", "good", f"{shown(where)}: {names} blobs; written to, read and deleted from")


def _store_refused(where: str, text: str) -> Diagnosis:
    """What an error says of a checkpoint, and the remedy that it has itself, if it has one."""
    told, *remedy = re.split("[;:] (?=give )", text, maxsplit=1)
    told = told if shown(where) in told else f"{shown(where)}: {told}"
    return Diagnosis("checkpoint", "bad", told, remedy[0] if remedy else _store_remedy(where))


def _holds_files(folder: Path) -> bool:
    """Whether it is a directory with something in it; `os.path` says no, where `Path` raises, if it may not be seen."""
    return os.path.isdir(folder) and any(folder.iterdir() if os.access(folder, os.R_OK) else ["?"])


def _store_remedy(where: str) -> str:
    scheme = urlsplit(where).scheme if "://" in where else ""
    if scheme in ("postgresql", "postgres"):
        return "check that the server runs and lets this host in, user, password, and that the user owns the schema"
    if scheme in ("", "file"):
        return "check the path, and that this user, on every host, may write there"
    return "check the address, the credentials in the environment, and that they may list, write, read and delete"
