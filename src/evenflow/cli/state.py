"""`evenflow state`: what a checkpoint holds, and whether it is sound."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.terminal import FAILED, JsonFile, check_writable, console, guard, write_figures
from evenflow.cli.verbs import Verbs
from evenflow.errors import InvalidArgument

state = Verbs(help="What a checkpoint holds, and whether it is sound.")

Where = Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint: a path or a URI.")]
KEY_VARIABLE = "EVENFLOW_CHECKPOINT_KEY"
KeyFile = Annotated[
    Path | None,
    typer.Option(help=f"A file with the checkpoint_key, if there is one; else it is taken from {KEY_VARIABLE}."),
]


def checkpoint_key(file: Path | None) -> bytes:
    """The checkpoint_key; a newline at the end of the file is not part of it."""
    from evenflow.state.store.sealed import key_of

    if file is None:
        return key_of(os.environ.get(KEY_VARIABLE) or None)
    try:
        return key_of(file.read_bytes().rstrip(b"\r\n"))
    except FileNotFoundError:
        raise InvalidArgument(f"there is no key file {file}: give the path of one to --key-file") from None
    except OSError as error:
        raise InvalidArgument(f"cannot read the key file {file}: {error.strerror}") from None


@state.command("ls")
def state_ls(
    where: Where,
    key_file: KeyFile = None,
    json_file: JsonFile = None,
) -> None:
    """List the operators and queries that have state here."""

    def work() -> None:
        from evenflow.cli import state_view

        check_writable(json_file)
        write_figures(json_file, state_view.show_queries(console, where, checkpoint_key(key_file)))

    guard(work)


@state.command("show")
def state_show(
    where: Where,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The operator; its query, if it has several.")],
    key_file: KeyFile = None,
    json_file: JsonFile = None,
) -> None:
    """Show the latest manifest of an operator and query, its snapshots and its log."""

    def work() -> None:
        from evenflow.cli import state_view

        check_writable(json_file)
        write_figures(json_file, state_view.show_query(console, where, names, checkpoint_key(key_file)))

    guard(work)


@state.command("verify")
def state_verify(
    where: Where,
    spark: Annotated[
        list[str] | None,
        typer.Option(help="A query's checkpointLocation, to compare with; may be given several times."),
    ] = None,
    key_file: KeyFile = None,
    json_file: JsonFile = None,
) -> None:
    """Read everything and check every checksum; exit code 1 if a blob is bad, or belongs to another time than Spark's.

    Whether a checkpoint is an older copy than Spark's is known only by comparison: give --spark.
    """

    def work() -> None:
        from evenflow.cli import state_view

        check_writable(json_file)
        found = state_view.verify_all(console, where, checkpoint_key(key_file), spark or [])
        write_figures(json_file, found)
        if found["bad"] or found["apart"]:
            raise typer.Exit(FAILED)

    guard(work)


@state.command("absent")
def state_absent(
    where: Where,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The id of the query.")],
    batch: Annotated[int, typer.Argument(metavar="BATCH", help="The last batch that was run so.")],
    operator: Annotated[
        str, typer.Option(metavar="NAME", help="Only this operator was left out; without it, all were.")
    ] = "",
    spark: Annotated[
        str, typer.Option(metavar="LOCATION", help="The query's own checkpointLocation, to check BATCH by.")
    ] = "",
    key_file: KeyFile = None,
) -> None:
    """Note that a query was run without any operator of this checkpoint, up to a batch; its operators then go on.

    A note of a wrong batch is corrected by another one.

    Do this only if you know it: if they had rows in those batches, these are missing in their state for ever.
    """

    def work() -> None:
        from evenflow.cli import state_view

        state_view.note_absent(console, where, query, batch, checkpoint_key(key_file), spark, operator)

    guard(work)
