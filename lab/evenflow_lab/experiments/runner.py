"""Runs experiments side by side; judges their claims and draws their pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from queue import Empty
from typing import Any

from evenflow.errors import InvalidArgument, SimulationError, described
from evenflow.runtime.threads import BackgroundThread
from evenflow_lab.experiments import catalogue
from evenflow_lab.experiments.base import Data, Experiment, Setting
from evenflow_lab.experiments.results import kept, needed, run_and_store, stored

Watch = Callable[[str, float], None]
"""Called with the name of an experiment, and its share that is done."""
POLL_S = 0.2

_news: Any = None
"""In a process that runs experiments: the queue for its progress."""


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A row of claims.json."""

    id: str
    source: str
    paper: str
    ours: str
    criterion: str
    holds: bool
    why: str


def judged(folder: Path, experiments: Sequence[Experiment]) -> list[JudgedClaim]:
    """The claims of the experiments, judged by their data."""
    rows = []
    for experiment in experiments:
        for claim in experiment.claims:
            with _data(folder, experiment) as data:
                found = claim.judge(data)
            rows.append(
                JudgedClaim(claim.id, claim.source, claim.paper, found.ours, claim.criterion, found.holds, found.why)
            )
    return rows


@contextmanager
def _data(folder: Path, experiment: Experiment) -> Iterator[Data]:
    """The data of an experiment; an error of the block that uses it means that the data is damaged."""
    try:
        yield needed(folder, experiment).data
    except (LookupError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"the data of {experiment.name} in {folder / 'data'} is damaged or of another version "
            f"({described(error)}): delete its file, and run it again"
        ) from error


def with_data(folder: Path, names: Sequence[str]) -> tuple[list[Experiment], list[Experiment]]:
    """The chosen experiments with data, and those without; an error if none has data."""
    meant = catalogue.chosen(names)
    there = [each for each in meant if kept(folder, each) is not None]
    if not there:
        needed(folder, meant[0])
    return there, [each for each in meant if each not in there]


def write_claims(folder: Path, claims: Sequence[JudgedClaim]) -> Path:
    """claims.json."""
    file = folder / "claims.json"
    file.write_text(json.dumps([asdict(claim) for claim in claims], indent=2, ensure_ascii=False) + "\n")
    return file


def draw(folder: Path, experiments: Sequence[Experiment]) -> list[Path]:
    """Draw all pictures of the experiments, from their data."""
    from matplotlib.figure import Figure

    files = []
    for experiment in experiments:
        for picture in experiment.pictures:
            figure = Figure(figsize=(7.0, 4.2), layout="constrained")
            with _data(folder, experiment) as data:
                picture.draw(data, figure)
            files.append(folder / "figures" / f"{picture.name}.png")
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(files[-1], dpi=120)
    return files


def run_all(folder: Path, names: Sequence[str], setting: Setting, jobs: int, watch: Watch) -> list[Experiment]:
    """Run the chosen experiments that have no data yet, `jobs` at a time, in processes."""
    experiments = catalogue.chosen(names)
    missing = [each for each in experiments if stored(folder, each, setting) is None]
    for each in experiments:
        watch(each.name, 0.0 if each in missing else 1.0)
    if jobs == 1:
        for each in missing:
            run_and_store(folder, each, replace(setting, progress=partial(watch, each.name)))
            watch(each.name, 1.0)
    elif missing:
        _run_beside(folder, missing, setting, min(jobs, len(missing)), watch)
    return experiments


def _run_beside(folder: Path, missing: Sequence[Experiment], setting: Setting, jobs: int, watch: Watch) -> None:
    context = get_context("spawn")
    news, failures = context.Queue(), {}
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(news,)) as pool:
        waiting: dict[Future[None], str] = {
            pool.submit(_one, folder, each.name, setting.quick, setting.seed): each.name for each in missing
        }
        try:
            while waiting:
                done, _ = wait(waiting, POLL_S, FIRST_COMPLETED)
                _pass_on(news, watch)
                for future in done:
                    name, error = waiting.pop(future), future.exception()
                    if error is None:
                        watch(name, 1.0)
                    else:
                        failures[name] = error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
            raise
    if failures:
        told = "; ".join(f"{name}: {described(error)}" for name, error in failures.items())
        raise SimulationError(f"{len(failures)} of {len(missing)} experiments failed, the others are kept: {told}")


def _pass_on(news: Any, watch: Watch) -> None:
    while True:
        try:
            watch(*news.get_nowait())
        except Empty:
            return


def _begin(news: Any) -> None:
    global _news
    _news = news
    BackgroundThread("experiment parent", _end_with_parent, lambda error: os._exit(1)).begin()


def _end_with_parent() -> None:
    """End this process when the command has ended in any way; an experiment would go on for minutes."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _one(folder: Path, name: str, quick: bool, seed: int) -> None:
    """In a process of its own: run one experiment."""
    (experiment,) = (each for each in catalogue.chosen([name]) if each.name == name)
    setting = Setting(quick, seed, lambda part: _news.put((name, part)))
    run_and_store(folder, experiment, setting)
