"""How fast the tree is beside an older commit of it: the same jobs in both, in turns, in one run.

Each tree has a driver process of its own, with its own Spark, which waits while the other one works. A ratio is the
median over all rounds of this tree's rows a second over the commit's; the order changes with each round. The jobs use
the public API only, and each checks its rows. Nothing is emulated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

import evenflow_lab
from evenflow.cli.terminal import JsonFile, check_writable, console, write_figures
from evenflow_lab.bench.cluster import jobs
from evenflow_lab.bench.measuring import Figures, in_turns, named, table_of, workplace

HERE = Path(evenflow_lab.__file__).parents[2]
LEAST = 0.97
"""The ratio that a change has to keep."""
WARM_ROUNDS = 3
"""Rounds that do not count: until then Java still compiles, and each run is faster than the one before."""


class Side:
    """One tree's driver process: Evenflow of that tree, and the jobs of this one."""

    def __init__(self, tree: Path, home: Path) -> None:
        paths = os.pathsep.join([str(tree / "src"), str(HERE / "lab")])
        home.mkdir()
        with (home / "stderr").open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", jobs.__name__, str(home)],
                cwd=home,
                env=os.environ | {"PYTHONPATH": paths},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._home = home
        if self._answer() != str(tree / "src" / "evenflow"):
            raise RuntimeError(f"the driver of {tree} runs the code of another tree")

    def run(self, job: str) -> float:
        """Rows a second of one run."""
        assert self._process.stdin is not None
        print(job, file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(60)
            raise SystemExit(f"a driver has ended:\n{(self._home / 'stderr').read_text()[-3000:]}")
        return json.loads(line)


def compared(then: Side, now: Side, job: str, rounds: int) -> Figures:
    """Rows a second of the commit and of this tree, and the median of the ratios of all rounds."""
    found = in_turns({"commit": partial(then.run, job), "tree": partial(now.run, job)}, rounds, WARM_ROUNDS)
    ratios = [new / old for old, new in zip(found["commit"], found["tree"], strict=True)]
    return {"commit": median(found["commit"]), "tree": median(found["tree"]), "ratio": median(ratios), "ratios": ratios}


def main(
    commit: Annotated[str, typer.Argument(help="The commit to compare with.")],
    rounds: Annotated[int, typer.Option(help="Rounds that count.")] = 5,
    only: Annotated[str, typer.Option(help="Jobs, with commas between them.")] = ",".join(jobs.JOBS),
    json_file: JsonFile = None,
) -> None:
    """Measure both, and print the table."""
    chosen = named(only, jobs.JOBS)
    check_writable(json_file)
    git = ["git", "-C", str(HERE)]
    with workplace() as folder, ExitStack() as stack:
        tree = folder.resolve() / "tree"
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), commit], check=True)
        stack.callback(subprocess.run, [*git, "worktree", "remove", "--force", str(tree)], check=True)
        sides = []
        for place, name in ((tree, "then"), (HERE, "now")):
            sides.append(Side(place, tree.parent / name))
            stack.callback(sides[-1].close)
        found = {}
        for job in chosen:
            with console.status(job):
                found[job] = compared(sides[0], sides[1], job, rounds)
    rows = [
        (jobs.JOBS[job][0], f"{each['commit']:,.0f}", f"{each['tree']:,.0f}", f"{each['ratio']:.3f}",
         "met" if each["ratio"] >= LEAST else "not met")
        for job, each in found.items()
    ]  # fmt: skip
    heads = "job", f"{commit}, rows/s", "this tree, rows/s", "ratio", f"bar {LEAST}"
    console.print(table_of(f"{rounds} rounds", heads, rows))
    write_figures(json_file, {"commit": commit, "rounds": rounds, "jobs": found})
