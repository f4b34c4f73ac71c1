"""First Story Detection on one core, nothing emulated: texts a second of each step, of all of them, and with Spark.

All processes, those of Spark too, are kept on one core. Seconds are those of the wall, and those the processor was busy
with this program: on a machine with other work to do only the second tells what a core can do. Rows before those that
are timed fill the histories: those of their own keys (`as_they_come`), or one key's, so that each row is compared with
500 (`full`; with Spark, 64 keys, and full after a sixth of 200,000 rows). The first alarms are checked against the
plain reference.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import psutil
import pyarrow as pa
import typer
from tests.support import stories_reference as reference

import evenflow as ef
from evenflow.cli.terminal import JsonFile, embedded_spark
from evenflow.errors import InvalidArgument
from evenflow.stories.lsh import Fingerprints
from evenflow.stories.operator import FirstStory
from evenflow.stories.vectors import Vectors
from evenflow.workloads.tweets import Tweets
from evenflow_lab.bench.identity import identity
from evenflow_lab.bench.measuring import Figures, run_parts
from evenflow_lab.bench.processes import children, cpu_s
from evenflow_lab.workloads.newswire import stories

BATCH = 10_000
CHECKED = 5_000
TAU = 0.2


class Pipeline:
    """All steps in one process."""

    def __init__(self, vectors: Vectors, one_key: bool = False) -> None:
        self.vectors, self.prints, self.one_key = vectors, Fingerprints(features=vectors.features), one_key
        self.operator = FirstStory()
        self.seconds: dict[str, float] = {"vectors": 0.0, "fingerprints": 0.0, "nearest": 0.0}

    def run(self, texts: pa.Array) -> pa.Array:
        """The similarity of each text to its nearest earlier text."""
        started = time.process_time()
        found = self.vectors.of(texts)
        made = time.process_time()
        prints = self.prints.of(found)
        keyed = time.process_time()
        keys = np.zeros(len(prints), np.int64) if self.one_key else prints.astype(np.int64)
        rows = pa.record_batch({"vector": found.to_arrow()})
        result = self.operator.process(rows, keys.astype(np.int32), keys)["similarity"]
        steps = (made - started, keyed - made, time.process_time() - keyed)
        for name, seconds in zip(self.seconds, steps, strict=True):
            self.seconds[name] += seconds
        return result

    def through(self, texts: pa.Array) -> pa.Array:
        """The same, batch by batch."""
        return pa.concat_arrays([self.run(texts.slice(at, BATCH)) for at in range(0, len(texts), BATCH)])


def timed(pipeline: Pipeline, before: pa.Array, texts: pa.Array) -> Figures:
    """Texts a second, after some that are not timed."""
    pipeline.through(before)
    pipeline.seconds = dict.fromkeys(pipeline.seconds, 0.0)
    wall, busy = time.perf_counter(), time.process_time()
    near = pipeline.through(texts)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    return {
        "texts": len(texts),
        "texts_per_s_of_core": len(texts) / busy,
        "texts_per_s_of_wall": len(texts) / wall,
        "us_per_text": {name: 1e6 * seconds / len(texts) for name, seconds in pipeline.seconds.items()},
        "alarms": int(np.count_nonzero(near.to_numpy(zero_copy_only=False) <= TAU)),
        "state_mb": float(pipeline.operator.sizes(np.arange(4096, dtype=np.int32)).sum() / 1e6),
    }


def correct(vectors: Vectors, texts: pa.Array) -> bool:
    """Whether the first alarms are those of the reference."""
    some = texts.slice(0, CHECKED)
    near = Pipeline(vectors).through(some).to_numpy(zero_copy_only=False)
    return np.flatnonzero(near <= TAU).tolist() == list(reference.alarms(some.to_pylist(), vectors, Fingerprints()))


def plain(rows: int) -> Figures:
    """Tweet-like texts: their own keys, and one key whose history is full."""
    texts = Tweets(seed=1).rows(np.arange(2 * rows))["text"]
    vectors = Vectors.fit(texts.slice(0, 50_000))
    warm(vectors)
    before, after = texts.slice(0, rows), texts.slice(rows)
    return {
        "as_they_come": timed(Pipeline(vectors), before, after),
        "full": timed(Pipeline(vectors, one_key=True), before.slice(0, 1000), after),
        "alarms_as_reference": correct(vectors, texts),
    }


def news(path: Path | None) -> Figures:
    """The newswire stories, title and body."""
    if path is None:
        raise InvalidArgument("the part newswire needs a file of stories: give --newswire")
    texts = pa.Table.from_batches(stories(path))["text"].combine_chunks()
    vectors = Vectors.fit(texts)
    warm(vectors)
    half = len(texts) // 2
    return {
        "as_they_come": timed(Pipeline(vectors), texts.slice(0, half), texts.slice(half)),
        "full": timed(Pipeline(vectors, one_key=True), texts.slice(0, half), texts.slice(half)),
    }


def warm(vectors: Vectors) -> None:
    """Compile the code, and load the models."""
    Pipeline(vectors).run(pa.array(["a b", None]))
    FirstStory().warm_up(pa.schema({"vector": pa.binary()}))


def with_spark(rows: int) -> Figures:
    """`first_story` in local mode with one worker: JVM, its Python processes and the worker on the same core."""
    vectors = Vectors.fit(Tweets(seed=1).rows(np.arange(50_000))["text"])
    with embedded_spark(1, 1) as spark, ef.Cluster(spark, 1) as cluster:
        made = spark.range(0, rows, 1, 1).mapInArrow(
            Tweets(seed=1).over, "id long, time timestamp, topic int, text string"
        )
        made.persist().count()
        jobs = {"identity": made.mapInArrow(identity, made.schema)}
        for name, bits in (("as_they_come", 12), ("full", 6)):
            jobs[name] = ef.first_story(made, cluster=cluster, corpus=vectors, balance="dlb-h", bits=bits)
        out: Figures = {"texts": rows}
        for name, job in jobs.items():
            job.count()
            with measured() as cost:
                count = job.count()
            out[name] = {"rows": count, **{f"texts_per_s_of_{what}": rows / s for what, s in cost.items()}}
        near = Pipeline(vectors).through(Tweets(seed=1).rows(np.arange(rows))["text"])
    plain_alarms = np.count_nonzero(near.to_numpy(zero_copy_only=False) <= TAU)
    return out | {"alarms_as_plain": bool(plain_alarms == out["as_they_come"]["rows"])}


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Seconds of the wall, and of the processor for this program and all it has started."""
    cost: dict[str, float] = {}
    wall, busy = time.perf_counter(), _busy()
    yield cost
    cost.update(wall=time.perf_counter() - wall, core=_busy() - busy)


def _busy() -> float:
    return cpu_s([psutil.Process(), *children()])


def main(
    rows: Annotated[int, typer.Option(help="Texts that are timed.")] = 200_000,
    only: Annotated[str, typer.Option(help="Parts to run: plain, spark, newswire.")] = "plain,spark",
    newswire: Annotated[Path | None, typer.Option(help="The file of stories, for part newswire.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run the parts, and print the figures of each."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    parts = {"plain": partial(plain, rows), "spark": partial(with_spark, rows), "newswire": partial(news, newswire)}
    run_parts(parts, only, json_file)
