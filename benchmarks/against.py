"""How fast the tree is beside an older commit of it: the same jobs in both, in turns, in one run.

    .venv/bin/python -m benchmarks.against run 372d49b [--rounds 5] [--only durable,chain] [--json out/against.json]

Each tree has a driver process of its own, with its own Spark, which waits while the other one works. A ratio is the
median over all rounds of this tree's rows a second over the commit's; the order changes with each round. The jobs use
the public API only, and each checks its rows. Nothing is emulated.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import track
from rich.table import Table

import evenflow as ef

HERE = Path(__file__).resolve().parent.parent
LEAST = 0.97
"""The ratio that a change has to keep."""
WORKERS = 3
ROWS = 5_000_000
BATCHES, BATCH, KEYS = 7, 500_000, 16_384
WARM = 3
"""Micro-batches that do not count."""
WARM_ROUNDS = 3
"""Rounds that do not count: until then Java still compiles, and each run is faster than the one before."""


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they are."""
    return batch


def timed(out: DataFrame, rows: int) -> float:
    """Rows a second of evaluating a result, all of whose rows are counted."""
    began = time.perf_counter()
    found = out.selectExpr("count(id)", "sum(id)").collect()[0]
    seconds = time.perf_counter() - began
    assert tuple(found) == (rows, rows * (rows - 1) // 2), found
    return rows / seconds


def numbers(spark: SparkSession) -> DataFrame:
    """Numbered rows, one partition."""
    return spark.range(0, ROWS, 1, 1).selectExpr("id", "cast(id as double) value")


def ordered(spark: SparkSession, home: Path) -> float:
    """An identity `ordered_map`."""
    with ef.Cluster(spark, WORKERS) as cluster:
        out = cluster.ordered_map(numbers(spark), same, "id long, value double")
        timed(out, ROWS)
        return timed(out, ROWS)


def chain(spark: SparkSession, home: Path) -> float:
    """Ten identity maps in a graph."""
    graph = ef.Graph("chain")
    rows = graph.source("rows")
    for _ in range(10):
        rows = rows.map(same, "id long, value double")
    graph.endpoint("out", rows)
    with ef.Cluster(spark, WORKERS) as cluster:
        out = cluster.run(graph, {"rows": numbers(spark)})["out"]
        timed(out, ROWS)
        return timed(out, ROWS)


def keyed(spark: SparkSession, home: Path, checkpoint: bool = False, wide: bool = False) -> float:
    """A rolling mean over a stream; `wide` has columns that only pass through."""
    columns = "key long, value double" + (", name string, at timestamp, note string" if wide else "")
    source = home / ("wide" if wide else "narrow")
    if not source.exists():
        write(source, wide)
    own = Path(tempfile.mkdtemp(dir=home))
    try:
        with ef.Cluster(spark, WORKERS, checkpoint=own / "state" if checkpoint else None) as cluster:
            df = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(source))
            mean = ef.RollingMean("value", rows=100, into="mean")
            out = cluster.keyed(df, "key", mean, balance="hash", name="means")
            writer = out.writeStream.format("noop").option("checkpointLocation", str(own / "spark"))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            found = [each for each in query.recentProgress if each["numInputRows"]]
            assert [each["numInputRows"] for each in found] == [BATCH] * BATCHES
            return BATCH * 1000 / statistics.median(each["durationMs"]["addBatch"] for each in found[WARM:])
    finally:
        shutil.rmtree(own)


def write(folder: Path, wide: bool) -> None:
    """One file for each micro-batch."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(3)
    for number in range(BATCHES):
        table = {"key": random.integers(0, KEYS, BATCH), "value": random.normal(size=BATCH)}
        if wide:
            names = random.integers(0, 10_000, BATCH)
            table["name"] = np.char.add("name ", names.astype(str))
            table["at"] = names.astype("datetime64[us]")
            table["note"] = np.char.add("a note of some length on number ", names.astype(str))
        pq.write_table(pa.table(table), folder / f"{number:04}.parquet")


JOBS: dict[str, tuple[str, Callable[[SparkSession, Path], float]]] = {
    "ordered": ("identity ordered_map", ordered),
    "keyed": ("rolling mean, stream", keyed),
    "durable": ("rolling mean, stream with a checkpoint", lambda spark, home: keyed(spark, home, True)),
    "wide": ("the same, with three columns more", lambda spark, home: keyed(spark, home, True, True)),
    "chain": ("chain of ten maps", chain),
}


def serve(home: Path, answers: TextIO) -> None:
    """Run the jobs that standard input names, one a line; their rows a second go to `answers`."""
    spark = ef.local_session(WORKERS, slots=2)
    try:
        print(json.dumps(str(Path(ef.__file__).parent)), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(JOBS[line.strip()][1](spark, home)), file=answers, flush=True)
    finally:
        spark.stop()


class Side:
    """One tree's driver process."""

    def __init__(self, tree: Path, home: Path) -> None:
        paths = os.pathsep.join([str(tree / "src"), str(HERE)])
        command = [sys.executable, "-m", "benchmarks.against", "serve", "--home", str(home)]
        home.mkdir()
        with (home / "stderr").open("w") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=home,
                env=os.environ | {"PYTHONPATH": paths},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._home = home
        assert self._answer() == str(tree / "src" / "evenflow")

    def run(self, job: str) -> float:
        """Rows a second of one run."""
        assert self._process.stdin is not None
        print(job, file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
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


def compared(sides: tuple[Side, Side], jobs: list[str], rounds: int) -> dict[str, Any]:
    """By job, rows a second of the commit and of this tree, and the median of the ratios of all rounds."""
    found: dict[str, list[tuple[float, float]]] = {job: [] for job in jobs}
    turns = [(number, job) for number in range(rounds + WARM_ROUNDS) for job in jobs]
    for number, job in track(turns, "in turns", console=Console(stderr=True)):
        if number % 2:
            then, now = sides[0].run(job), sides[1].run(job)
        else:
            now, then = sides[1].run(job), sides[0].run(job)
        if number >= WARM_ROUNDS:
            found[job].append((then, now))
    return {
        job: {
            "commit": statistics.median(then for then, _ in pairs),
            "tree": statistics.median(now for _, now in pairs),
            "ratio": statistics.median(now / then for then, now in pairs),
            "ratios": [now / then for then, now in pairs],
        }
        for job, pairs in found.items()
    }


app = typer.Typer(add_completion=False, help=__doc__)


@app.command("serve", hidden=True)
def _serve(home: Annotated[Path, typer.Option()]) -> None:
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what Spark prints is no answer
        serve(home, answers)


@app.command("run")
def main(
    commit: Annotated[str, typer.Argument(help="The commit to compare with.")],
    rounds: Annotated[int, typer.Option(help="Rounds that count.")] = 5,
    only: Annotated[str, typer.Option(help="Jobs, with commas between them.")] = ",".join(JOBS),
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the figures go.")] = None,
) -> None:
    """Measure both, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        git = ["git", "-C", str(HERE)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(home / "tree"), commit], check=True)
        sides: list[Side] = []
        try:
            sides = [Side(home / "tree", home / "then"), Side(HERE, home / "now")]
            found = compared((sides[0], sides[1]), only.split(","), rounds)
        finally:
            for side in sides:
                side.close()
            subprocess.run([*git, "worktree", "remove", "--force", str(home / "tree")], check=True)
    table = Table("job", f"{commit}, rows/s", "this tree, rows/s", "ratio", f"bar {LEAST}", title=f"{rounds} rounds")
    for job, each in found.items():
        met = "met" if each["ratio"] >= LEAST else "not met"
        table.add_row(JOBS[job][0], f"{each['commit']:,.0f}", f"{each['tree']:,.0f}", f"{each['ratio']:.3f}", met)
    Console(width=110).print(table)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps({"commit": commit, "rounds": rounds, "jobs": found}, indent=2) + "\n")


if __name__ == "__main__":
    app()
