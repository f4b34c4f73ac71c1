"""The data of experiments on disk: one file each, with what it was made by, so that a run can be gone on with."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import evenflow
import evenflow_lab
from evenflow._version import __version__
from evenflow.errors import InvalidArgument, described
from evenflow_lab.experiments.base import Data, Experiment, Setting

ENGINE = ("model", "policy", "control", "graph", "stories", "workloads", "sim")
LAB = ("workloads",)
"""The packages of Evenflow and of its lab that decide the data, beside the experiment itself (its `version`)."""


@cache
def fingerprint() -> str:
    """A hash of the engine's source: data that another engine gave is not used again."""
    engine, lab, digest = Path(evenflow.__file__).parent, Path(evenflow_lab.__file__).parent, hashlib.sha256()
    for root, name in (*((engine, name) for name in ENGINE), *((lab, name) for name in LAB)):
        for file in sorted((root / name).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class StoredData:
    """A file of data, as it lies there."""

    data: Data
    about: dict[str, Any]
    """The experiment, its setting and the engine, see `_made_by`."""
    evenflow: str
    """The version of Evenflow that made it."""
    seconds: float
    """How long it took to run."""
    cpu_s: float | None
    """How much processor time that was, which says more where others use the cores; None if it was not written down."""
    peak_mb: float | None
    """The most memory that its process had by then."""


def _made_by(experiment: Experiment, setting: Setting) -> dict[str, Any]:
    """What data depends on."""
    return {
        "experiment": experiment.name,
        "version": experiment.version,
        "quick": setting.quick,
        "seed": setting.seed,
        "engine": fingerprint(),
    }


def _path(folder: Path, experiment: Experiment) -> Path:
    return folder / "data" / f"{experiment.name}.json"


def kept(folder: Path, experiment: Experiment) -> StoredData | None:
    """The data in the folder, of any version; a damaged file is refused."""
    file = _path(folder, experiment)
    if not file.exists():
        return None
    try:
        found = json.loads(file.read_text())
        about = {name: found[name] for name in _made_by(experiment, Setting())}
        return StoredData(
            data=dict(found["data"]),
            about=about,
            evenflow=str(found["evenflow"]),
            seconds=float(found["seconds"]),
            cpu_s=found.get("cpu_s"),
            peak_mb=found.get("peak_mb"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{file} is damaged ({described(error)}): delete it, and run {experiment.name} again"
        ) from error


def needed(folder: Path, experiment: Experiment) -> StoredData:
    """The data in the folder; an error if there is none."""
    found = kept(folder, experiment)
    if found is None:
        raise InvalidArgument(f"{folder} has no data of {experiment.name}: run it without --redraw first")
    return found


def is_ours(found: StoredData, experiment: Experiment) -> bool:
    """Whether the engine and the experiment of this source made the data."""
    return (found.about["engine"], found.about["version"]) == (fingerprint(), experiment.version)


def stored(folder: Path, experiment: Experiment, setting: Setting) -> Data | None:
    """The data in the folder, if this engine made it in this setting."""
    found = kept(folder, experiment)
    return found.data if found is not None and found.about == _made_by(experiment, setting) else None


def run_and_store(folder: Path, experiment: Experiment, setting: Setting) -> None:
    """Run an experiment and keep its data; a run that is ended in the middle leaves nothing."""
    file, began, cpu = _path(folder, experiment), time.perf_counter(), time.process_time()
    data = experiment.run(setting)
    about = _made_by(experiment, setting) | {
        "evenflow": __version__,
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "peak_mb": round(getrusage(RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(about | {"data": data}, allow_nan=False) + "\n")
    beside.replace(file)
