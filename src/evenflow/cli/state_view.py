"""The content of a checkpoint as tables in the terminal; what they show is also returned, for --json."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from evenflow.cli.spark_checkpoint import SparkCheckpoint, read_spark_checkpoint
from evenflow.errors import InvalidArgument, nearest
from evenflow.state.checkpoint.chain import note_operators, query_record
from evenflow.state.checkpoint.manifest import Manifest
from evenflow.state.checkpoint.progress import progress
from evenflow.state.checkpoint.survey import (
    Bad,
    Query,
    count_rows,
    snapshots,
    survey,
    unfinished_batches,
    verify,
    verify_claims,
)
from evenflow.state.store.base import Store, shown
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.claims.fence import FencedView
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import placed


def show_queries(console: Console, where: str, key: bytes = b"") -> list[dict[str, object]]:
    """Print a line for each operator and query."""
    with FencedView(open_store(placed(where, key), create=False)) as store:
        queries = survey(store)
    table = _table(shown(where), "operator", "query", "epochs", "units", "size", "last write")
    for query in queries:
        newest = query.newest
        table.add_row(
            query.region,
            query.query,
            _ranges(list(query.manifests)),
            f"{newest.units - 1:,}" if newest else "-",  # without the unit of null keys, which no user asked for
            _size(query.nbytes),
            _time(newest.written) if newest else "-",
        )
    console.print(table if queries else f"{shown(where)} holds no state yet")
    return [_figures(query) for query in queries]


def show_query(console: Console, where: str, names: list[str], key: bytes = b"") -> dict[str, object]:
    """Print the newest manifest of one query, its snapshots and its log."""
    with FencedView(open_store(placed(where, key), create=False)) as store:
        query = _chosen(survey(store), names)
        newest = query.newest
        console.print(f"operator {query.region}, query {query.query}", highlight=False, markup=False)
        if newest is None:
            console.print(f"no epoch is complete; {len(query.blobs)} blobs, {_size(query.nbytes)}", highlight=False)
            return _figures(query)
        _show_manifest(console, query, newest)
        return _figures(query) | _show_blobs(console, store, newest)


def _figures(query: Query) -> dict[str, object]:
    """One query, for programs."""
    newest = query.newest
    return {
        "operator": query.region,
        "query": query.query,
        "epochs": sorted(query.manifests),
        "units": newest.units - 1 if newest else None,
        "blobs": len(query.blobs),
        "bytes": query.nbytes,
        "written": newest.written if newest else None,
    }


def verify_all(console: Console, where: str, key: bytes = b"", spark: Sequence[str] = ()) -> dict[str, object]:
    """Check every blob, and print a line for each bad one, and for each batch that is not whole.

    `spark` has Spark's own checkpoints, to compare with.
    """
    others = [read_spark_checkpoint(each) for each in spark]
    with open_store(placed(where, key), create=False) as store:
        names = store.names()
        nbytes = sum(nbytes for _, nbytes in names)
        view, bad = _checked(console, store, nbytes)
        begun = [] if bad else unfinished_batches(view)
        compared = [] if bad else [_apart(view, location) for location in others]
    apart = [why for found, _ in compared for why in found]
    committed = [each for each in begun if _has_committed(others, *each)]
    apart += [_lost(query, name) for query, name in committed]
    for each in bad:
        _say(console, _line(each))
    for why in apart:
        _say(console, f"APART {why}")
    if not bad and not apart:
        console.print(f"{len(names)} blobs, {_size(nbytes)}: all sound", highlight=False)
    unsure = [doubt for _, found in compared for doubt in found]
    for doubt in [*(_begun(query, name) for query, name in begun if (query, name) not in committed), *unsure]:
        _say(console, doubt)
    if not bad and not others:
        _say(console, "not known from here: whether it is of the same time as Spark's checkpoint (give --spark DIR)")
    return {
        "blobs": len(names),
        "bytes": nbytes,
        "bad": [{"name": each.name, "epoch": each.epoch, "why": each.why} for each in bad],
        "apart": apart,
        "unsure": unsure,
        "unfinished": [{"operator": query.region, "query": query.query, "missing": name} for query, name in begun],
    }


def _checked(console: Console, store: Store, nbytes: int) -> tuple[Store, list[Bad]]:
    """The store within its fence, and what is bad in it; a bar shows how much of its `nbytes` has been read."""
    bad = verify_claims(store)
    if bad:
        return store, bad
    text = TextColumn("verifying")
    with Progress(text, BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        for _ in range(2):  # a cluster at work may have put something anew since the view was made
            view, task = FencedView(store), bar.add_task("", total=nbytes)
            bad = verify(view, partial(bar.advance, task))
            if not bad:
                break
    return view, bad


def _batch(name: str) -> int:
    """The batch of a manifest, by its name."""
    return int(name.rpartition("/")[2].partition(".")[0])


def _has_committed(others: list[SparkCheckpoint], query: Query, name: str) -> bool:
    """Whether one of Spark's checkpoints says that the batch of this manifest is over."""
    return any(each.query == query.query and each.batch > _batch(name) for each in others)


def _lost(query: Query, name: str) -> str:
    return (
        f"Spark has committed batch {_batch(name)} of query {query.query}, and {name} of operator {query.region} is "
        'missing: restore it from a copy, under this name, without any "~..." suffix'
    )


def _begun(query: Query, name: str) -> str:
    batch = _batch(name)
    return (
        f"batch {batch} of operator {query.region}, query {query.query} has begun and is not whole. If Spark has "
        f"committed it (commits/{batch} in the query's checkpointLocation), {name} is missing; else Spark runs it again"
    )


def _apart(store: Store, spark: SparkCheckpoint) -> tuple[list[str], list[str]]:
    """Why a checkpoint and Spark's do not belong together, by operator; and what cannot be told of others from here.

    Spark's files do not tell which sources feed which operator.
    """
    found = progress(store, spark.query)
    if found is None:
        return [f"query {spark.query} is not known in this checkpoint"], []
    apart, unsure = [], []
    for operator in sorted(found.record.expected & found.operators.keys()):
        why = found.apart(operator, spark.batch, lambda first, last: spark.reads(first, last) in ("none", "some"))
        if why:
            apart += [why] if why not in apart else []
        elif any(spark.reads(*gap) == "some" for gap in found.gaps(operator, spark.batch)):
            unsure.append(
                f"cannot be told from here: whether operator {operator} of query {spark.query} lacks rows. It has "
                f"nothing after batch {found.operators[operator]}, Spark is at batch {spark.batch}, and some of the "
                "query's sources were read in between: if none of these feeds the operator all is well. The cluster "
                "tells when the query is started"
            )
    return apart, unsure


def note_absent(
    console: Console, where: str, query: str, batch: int, key: bytes = b"", spark: str = "", operator: str = ""
) -> None:
    """Note that a query was run without any operator of this checkpoint, or without one of them, up to a batch."""
    there = read_spark_checkpoint(spark) if spark else None
    if there is not None and there.query != query:
        raise InvalidArgument(f"{spark} is the checkpointLocation of query {there.query}, not of {query}")
    if there is not None and batch >= there.batch:
        raise InvalidArgument(f"batch {batch} of query {query}: Spark is at batch {there.batch}, give one before it")
    with open_store(placed(where, key), create=False) as store:
        held = claim(store, "evenflow state absent")
        try:
            listed, found = query_record(held.store, query), progress(held.store, query)
            if listed is None or found is None:
                known = ", ".join(sorted({each.query for each in survey(held.store)})) or "none"
                raise InvalidArgument(f"query {query} is not known in this checkpoint; there are: {known}")
            if operator and operator not in found.operators:
                raise InvalidArgument(
                    f"query {query} has no operator {operator!r}; {nearest(operator, listed.operators)}"
                )
            last = found.operators[operator] if operator else found.known
            if batch > last:
                now = listed.left_out(operator, last + 1, batch) if operator else listed.unattended(last + 1, batch)
            else:
                now = listed.withdrawn(batch, operator)
            if now == listed and batch <= last:
                raise InvalidArgument(f"batch {batch} of query {query} is known here, up to {last}: nothing to do")
            note_operators(held.store, query, now)
        finally:
            held.release()
    what = f"operator {operator}" if operator else "operators of this checkpoint"
    if batch > last:
        _say(console, f"noted: batches {last + 1} to {batch} of query {query} were run without {what}")
    else:
        _say(console, f"taken back: that batches of query {query} after {batch} were run without {what}")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _chosen(queries: list[Query], names: list[str]) -> Query:
    region, query = names[0], names[1] if len(names) > 1 else None
    found = [each for each in queries if each.region == region and query in (None, each.query)]
    if len(found) == 1 and len(names) <= 2:
        return found[0]
    there = ", ".join(f"{each.region!r} {each.query!r}" for each in found or queries) or "nothing"
    what = "several queries" if found else "no state"
    raise InvalidArgument(f"there is {what} for {' '.join(names)}: give operator and query; there are {there}")


def _show_manifest(console: Console, query: Query, newest: Manifest) -> None:
    console.print(
        f"epochs {_ranges(list(query.manifests))}, the newest attempt {newest.attempt} of {newest.epoch}, "
        f"{_time(newest.written)}\n"
        f"{newest.units - 1:,} units of {newest.operator}, {len(newest.partitions)} partitions of input, "
        f"{len(query.blobs)} blobs, {_size(query.nbytes)}",
        highlight=False,
        markup=False,
    )


def _show_blobs(console: Console, store: Store, newest: Manifest) -> dict[str, list[dict[str, object]]]:
    kept: dict[str, list[dict[str, object]]] = {"snapshots": [], "segments": []}
    table = _table("snapshots", "blob", "epoch", "units", "size")
    for snapshot in snapshots(store, newest):
        name, units = snapshot.name.removeprefix(newest.prefix), min(snapshot.units, newest.units - 1)
        table.add_row(name, f"{snapshot.epoch}", f"{units:,}", _size(snapshot.nbytes))
        kept["snapshots"].append({"name": name, "epoch": snapshot.epoch, "units": units, "bytes": snapshot.nbytes})
    console.print(table)
    table = _table("log", "segment", "epoch", "attempt", "rows", "size")
    for log in newest.logs:
        for name, nbytes, rows in count_rows(store, log, newest.prefix):
            short = name.removeprefix(newest.prefix)
            table.add_row(short, f"{log.epoch}", f"{log.attempt}", f"{rows:,}", _size(nbytes))
            kept["segments"].append({"name": short, "epoch": log.epoch, "rows": rows, "bytes": nbytes})
    console.print(table)
    return kept


def _line(bad: Bad) -> str:
    sound = _ranges(list(bad.restorable))
    rest = f"epochs {sound} can still be restored" if bad.restorable else "no epoch can be restored"
    return f"BAD {bad.name} (epoch {bad.epoch}): {bad.why.partition('; `evenflow state verify`')[0]}; {rest}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("units", "size", "rows", "attempt") else "left")
    return table


def _ranges(numbers: list[int]) -> str:
    """Numbers as ranges, such as `3-5, 9`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs) or "-"


def _size(nbytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} GB"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else "-"
