"""Rows a second through the rule language on one core: the operator alone, without Spark, and a plain interpreter.

Each rule gets Arrow batches of 10,000 rows, first some that are not timed: they fill its windows. The least of three
passes counts, in seconds that the processor was busy, on one core. The interpreter is the one that the property tests
compare with: it looks through all rows so far for those in a window, so it is slower the more rows it gets. It gets the
first `--plain-rows` rows, and both must give their results for the same ones of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from tests.support import pattern_reference, rules_model
from tests.support import stories_reference as reference

from evenflow.cli.terminal import JsonFile, check_writable, console, write_figures
from evenflow.rules.language.parser import parse
from evenflow.rules.operator import RuleOperator
from evenflow.stories.lsh import Fingerprints
from evenflow.stories.similarity import Similarity
from evenflow.stories.vectors import Vectors
from evenflow.workloads.tweets import Tweets
from evenflow_lab.bench.measuring import checked, named, table_of

BATCH, PASSES, UNITS, KEYS = 10_000, 3, 1024, 100
SECOND = 1_000_000


@dataclass(frozen=True)
class Case:
    """A rule and its rows."""

    name: str
    rule: str
    rows: pa.RecordBatch
    key: str
    share: float = 1.0
    """Of the rows that are asked for, where a row takes longer than others'."""
    functions: dict[str, Callable[..., Any]] | None = None
    plain: dict[str, Callable[..., Any]] | None = None

    def operator(self) -> RuleOperator:
        """A new one, without state."""
        return RuleOperator(
            self.rule, self.functions, key=[self.key], time="t" if "t" in self.rows.schema.names else None
        )


@dataclass(frozen=True)
class Figure:
    """The figures of one rule."""

    rule: str
    rows: int
    rows_per_s: float
    found: int
    plain_rows: int
    plain_rows_per_s: float
    same: bool

    @property
    def ratio(self) -> float:
        """How many times as fast as the interpreter."""
        return self.rows_per_s / self.plain_rows_per_s


def ticks(count: int) -> pa.RecordBatch:
    """Prices of KEYS symbols, 100 rows a second."""
    random = np.random.default_rng(1)
    return pa.record_batch(
        {
            "k": pa.array(random.integers(0, KEYS, count)),
            "x": pa.array(random.random(count)),
            "g": pa.array(random.choice(["ask", "bid", "trade"], count)),
            "t": pa.array(np.arange(count) // 100),
        }
    )


def tweets(count: int) -> tuple[pa.RecordBatch, Vectors]:
    """Texts with their fingerprints, and what both were made of."""
    texts = Tweets(seed=1).rows(np.arange(count))["text"]
    vectors = Vectors.fit(texts.slice(0, 50_000))
    prints = Fingerprints(features=vectors.features).of(vectors.of(texts))
    return pa.record_batch({"fingerprint": pa.array(prints.astype(np.int64)), "text": texts}), vectors


def cases(count: int) -> list[Case]:
    """All rules."""
    rows = ticks(2 * count)
    texts, vectors = tweets(max(1, 2 * count // 5))
    return [
        Case("filter", "select k, x from T where x > 0.9 and g like 'a%'", rows, "k"),
        Case("window", "select k, avg(x), max(x) from T.win:length(100) having avg(x) > 0.55", rows, "k"),
        Case("groups", "select k, g, sum(x) from T.win:time(60 sec) group by g having sum(x) > 12", rows, "k"),
        Case(
            "join",
            """select * from Tweet.std:lastevent() LE, Tweet.std:groupwin(fingerprint).win:length(500) TW
               where LE.fingerprint = TW.fingerprint having max(similarity(LE.text, TW.text)) <= 0.2""",
            texts,
            "fingerprint",
            0.2,
            {"similarity": Similarity(vectors)},
            {"similarity": _Cosines(vectors)},
        ),
        Case("pattern", "every a=T(x > 0.9) -> b=T(g = a.g and x < a.x) where timer:within(10 sec)", rows, "k"),
    ]


class _Cosines:
    """The reference's cosine of two texts; each text is turned into a vector once."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: dict[str, reference.Vector] = {}

    def __call__(self, one: str, other: str) -> float | None:
        for text in (one, other):
            if text not in self._known:
                self._known[text] = reference.vector_of(text, self._vectors)
        both = self._known[one], self._known[other]
        return reference.cosine_of(*both) if all(both) else None


def through(operator: RuleOperator, rows: pa.RecordBatch, key: str) -> list[int]:
    """Push all rows, batch by batch; returns the places of the rows that gave results."""
    keys = rows.column(key).to_numpy()
    units = (keys % UNITS).astype(np.int32)
    origins = []
    for at in range(0, rows.num_rows, BATCH):
        part = slice(at, at + BATCH)
        _, origin = operator.process(rows.slice(at, BATCH), units[part], keys[part])
        origins.append(origin + at)
    return [int(place) for place in np.concatenate(origins)] if origins else []


def plainly(case: Case, rows: pa.RecordBatch) -> list[int]:
    """The same for the interpreter."""
    listed, keys = rows.to_pylist(), rows.column(case.key).to_pylist()
    rule = parse(case.rule)
    if rule.pattern is None:
        times = rows.column("t").to_pylist() if "t" in rows.schema.names else None
        found, _ = rules_model.run(case.rule, listed, keys, times, functions=case.plain)
        return [place for place, _ in found]
    places: list[int] = []
    for key in dict.fromkeys(keys):
        mine = [place for place, other in enumerate(keys) if other == key]
        own = [pattern_reference.Row("T", listed[place]["t"] * SECOND, listed[place]) for place in mine]
        places += [mine[n] for n, _ in pattern_reference.matches(rule.pattern, own)]
    return sorted(places)


def measured(case: Case, count: int, plain_count: int) -> Figure:
    """Measure one rule."""
    count, half = round(count * case.share), case.rows.num_rows // 2
    before, timed = case.rows.slice(0, half), case.rows.slice(half, count)
    seconds, found = [], 0
    for _ in range(PASSES):
        operator = case.operator()
        operator.warm_up(case.rows.schema)
        through(operator, before, case.key)
        started = time.process_time()
        found = len(through(operator, timed, case.key))
        seconds.append(time.process_time() - started)
    first = case.rows.slice(0, plain_count)
    started = time.process_time()
    expected = plainly(case, first)
    plain = time.process_time() - started
    same = through(case.operator(), first, case.key) == expected
    return Figure(case.name, count, count / min(seconds), found, first.num_rows, first.num_rows / plain, same)


def main(
    rows: Annotated[int, typer.Option(help="Rows that are timed.", min=1000)] = 300_000,
    plain_rows: Annotated[int, typer.Option(help="Rows that the interpreter gets.", min=100)] = 1_000,
    only: Annotated[str, typer.Option(help="Names of rules, separated by commas; empty: all.")] = "",
    json_file: JsonFile = None,
) -> None:
    """Rows a second of rules, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    check_writable(json_file)
    figures = [measured(case, rows, plain_rows) for case in cases(rows) if not only or case.name in named(only)]
    cells = (
        (
            figure.rule,
            f"{figure.rows_per_s:,.0f}",
            f"{figure.found:,}",
            f"{figure.plain_rows_per_s:,.0f}",
            f"{figure.ratio:,.0f}",
            checked(figure.same),
        )
        for figure in figures
    )
    heads = "rule", "rows/s", "results", "interpreter rows/s", "times as fast", "same rows"
    console.print(table_of(f"rules on one core; the interpreter on its first {plain_rows:,} rows", heads, cells))
    write_figures(json_file, [{**asdict(figure), "ratio": figure.ratio} for figure in figures])
    if not all(figure.same for figure in figures):
        raise typer.Exit(1)
