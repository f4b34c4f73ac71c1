"""What is done with a result: everything at once, in parts, twice, as a stream, with a restart in between."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tests.differential.cases import Case

WAIT_S = 120
ERROR = re.compile(r"evenflow\.(?:\w+\.)*(\w+): ([^\n]+)")
CANCELLED = re.compile(r"Job \d+ (cancelled) because (region [^\n]*)")
"""Where nothing that is tried again can help, the stage is given up, with the reason."""


@dataclass(frozen=True)
class Seen:
    """Rows that an action gave; or why it gave none."""

    what: str
    rows: list[Any] | None
    partial: bool = False
    """Whether fewer than all are right."""
    count: int | None = None
    """How many there should be, if that is known."""
    refused: str = ""


def refusal_of(error: BaseException) -> str:
    """What Evenflow said, if it was Evenflow that said it."""
    text = f"{type(error).__module__}.{type(error).__name__}: {error}\n{error.__cause__ or ''}"
    found = ERROR.findall(text) or CANCELLED.findall(text)
    return f"{found[-1][0]}: {found[-1][1]}" if found else ""


def _try(what: str, act: Callable[[], Any], **options: Any) -> Seen:
    """Let an action be refused: some may, as long as they say so."""
    try:
        return Seen(what, act(), **options)
    except Exception as error:
        if said := refusal_of(error):
            return Seen(what, None, refused=said)
        raise


def _quietly(act: Callable[..., Any], *arguments: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        act(*arguments)


def batch(out: DataFrame, case: Case, total: int, folder: Path) -> Iterator[Seen]:
    """What a batch DataFrame gives; `total` is how many rows it should."""
    few = min(total, 1 + case.seed % 7)
    match case.action:
        case "collect":
            yield Seen("collect", out.collect())
        case "twice":
            yield Seen("collect", out.collect())
            yield Seen("collect again", out.collect())
        case "write":
            out.write.parquet(str(folder / "written"))
            yield Seen("written", out.sparkSession.read.schema(out.schema).parquet(str(folder / "written")).collect())
        case "select":
            yield Seen("count", [None] * out.count(), True, total)
            even = F.col(out.columns[0]) % 2 == 0
            yield Seen("where", out.where(even).collect() + out.where(~even).collect())
            yield _try("union with itself", out.where(even).union(out.where(~even)).collect)
        case "take":
            yield _try("take", lambda: out.take(few), partial=True, count=few)
            yield _try("first", lambda: out.head(1), partial=True, count=min(1, total))
        case "limit":
            yield _try("limit", lambda: out.limit(few).collect(), partial=True, count=few)
        case "tail":
            yield _try("tail", lambda: out.tail(few), partial=True, count=few)
        case "show":
            yield _try("show", lambda: _quietly(out.show, few), partial=True)
            yield Seen("collect after show", out.collect())
        case "iterator":
            yield _try("toLocalIterator", lambda: list(out.toLocalIterator()))
        case "empty":
            yield _try("isEmpty", lambda: [None] * (not out.isEmpty()), partial=True, count=min(1, total))
            yield Seen("collect after isEmpty", out.collect())
        case "persist":
            yield from _persisted(out, few, total)


def _persisted(out: DataFrame, few: int, total: int) -> Iterator[Seen]:
    kept = out.persist()
    try:
        yield _try("show of what is persisted", lambda: _quietly(kept.show, few), partial=True)
        yield _try("count", lambda: [None] * kept.count(), partial=True, count=total)
        yield _try("collect", kept.collect)
    finally:
        kept.unpersist(blocking=True)


def _run(query: StreamingQuery) -> None:
    """Until it ends; one that does not is stopped."""
    try:
        if not query.awaitTermination(WAIT_S):
            raise TimeoutError(f"the query did not end within {WAIT_S} s")
    finally:
        query.stop()


class Stream:
    """One streaming query, as often as it is started."""

    def __init__(self, spark: SparkSession, folder: Path, case: Case) -> None:
        self._spark, self._folder, self._case = spark, folder, case
        self._seen: dict[int, list[Any]] = {}

    def run(self, out: DataFrame, all_there: bool = True) -> None:
        """To the end of what is there now; or a part of it."""
        writer = out.writeStream.option("checkpointLocation", str(self._folder / "spark"))
        match self._case.action:
            case "memory":
                writer = writer.format("memory").queryName(self._table)
            case "foreach":
                writer = writer.foreachBatch(self._collect)
            case "foreach-persist":
                writer = writer.foreachBatch(self._peek)
            case "foreach-empty":
                writer = writer.foreachBatch(self._look)
            case _:
                writer = writer.format("parquet").option("path", str(self._folder / "out"))
        if self._case.action == "stopped" and not all_there:
            self._stop_halfway(writer.start())
        else:
            _run(writer.trigger(availableNow=True).start())

    def rows(self, out: DataFrame) -> Seen:
        """All that came out."""
        if self._case.action.startswith("foreach"):
            return Seen(self._case.action, [row for number in sorted(self._seen) for row in self._seen[number]])
        if self._case.action == "memory":
            try:
                return Seen("memory sink", self._spark.table(self._table).collect())
            finally:
                self._spark.catalog.dropTempView(self._table)
        read = self._spark.read.schema(out.schema).parquet(str(self._folder / "out"))
        return Seen(self._case.action, read.collect())

    @property
    def _table(self) -> str:
        return f"differential_{self._case.seed}"

    def _stop_halfway(self, query: StreamingQuery) -> None:
        """Once a micro-batch is through; where the next one is then, is anybody's guess."""
        commits = self._folder / "spark" / "commits"
        for _ in range(WAIT_S * 50):
            if query.awaitTermination(0.02) or (commits.is_dir() and any(p.name.isdigit() for p in commits.iterdir())):
                break
        query.stop()
        if error := query.exception():
            raise error

    def _collect(self, rows: DataFrame, number: int) -> None:
        self._seen[number] = rows.collect()

    def _peek(self, rows: DataFrame, number: int) -> None:
        rows.persist()
        try:
            _quietly(rows.show, 1)
            self._seen[number] = rows.collect()
        finally:
            rows.unpersist()

    def _look(self, rows: DataFrame, number: int) -> None:
        self._seen[number] = [] if rows.isEmpty() else rows.collect()
