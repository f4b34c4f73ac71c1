"""The data of experiments on disk: one file each, with what it was made by, so that a run can be gone on with."""

from __future__ import annotations

import hashlib
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from evenflow._version import __version__
from evenflow.experiments.base import Data, Experiment, Setting

ENGINE = ("model", "policy", "control", "graph", "stories", "workloads", "sim")
"""The packages that decide what an experiment gives, beside the experiment itself (`Experiment.version`)."""


@cache
def fingerprint() -> str:
    """A hash of the engine's source: data that another engine gave is not used again."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for name in ENGINE:
        for file in sorted((root / name).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


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


def stored(folder: Path, experiment: Experiment, setting: Setting | None) -> Data | None:
    """The data that there is, if it was made by this engine in this setting; whatever there is if `setting` is None."""
    file = _path(folder, experiment)
    if not file.exists():
        return None
    kept = json.loads(file.read_text())
    if setting is not None and any(kept[name] != value for name, value in _made_by(experiment, setting).items()):
        return None
    data: Data = kept["data"]
    return data


def run_and_store(folder: Path, experiment: Experiment, setting: Setting) -> None:
    """Run an experiment and keep its data; a run that is ended in the middle leaves nothing."""
    file, began = _path(folder, experiment), time.perf_counter()
    data = experiment.run(setting)
    about = _made_by(experiment, setting) | {
        "evenflow": __version__,
        "seconds": round(time.perf_counter() - began, 1),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(about | {"data": data}, allow_nan=False) + "\n")
    beside.replace(file)


def seconds_of(folder: Path, experiment: Experiment) -> float:
    """How long it took to run."""
    return float(json.loads(_path(folder, experiment).read_text())["seconds"])
