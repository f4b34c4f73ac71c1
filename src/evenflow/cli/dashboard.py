"""`evenflow dashboard LOG`: the live page over an event log, while it is written or afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.cli.terminal import console, guard
from evenflow.errors import EvenflowError, extra

if TYPE_CHECKING:
    from evenflow.dashboard.web.serving import DashboardServer

TOKEN_VARIABLE = "EVENFLOW_DASHBOARD_TOKEN"
LOOK_S = 0.2


def dashboard(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="An event log, as written by Cluster(event_log=...) or simulate.")
    ],
    host: Annotated[
        str, typer.Option(help=f"The address to listen on; any but loopback needs a token in {TOKEN_VARIABLE}.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="The port; 8899 if not given, or a free one if that is in use.", min=0, max=65535)
    ] = None,
) -> None:
    """Show an event log as a page: live while a cluster writes it, with a time slider at any time. Ctrl-C ends it."""

    def work() -> None:
        with extra("dashboard", "evenflow dashboard"):
            from evenflow.dashboard.web.serving import DashboardServer
        from evenflow.dashboard.web.sources import FileSource

        server = DashboardServer(FileSource(log), host, port, os.environ.get(TOKEN_VARIABLE) or None)
        try:
            console.print(f"dashboard: {server.link}", highlight=False, soft_wrap=True)
            show_reading(server)
            while server.alive:
                time.sleep(LOOK_S)
        finally:
            server.close()
        raise EvenflowError("the dashboard's server has ended")

    guard(work)


def show_reading(server: DashboardServer) -> None:
    """Say in a terminal how far the reading of a long log is, until it is read."""
    if not console.is_terminal:
        return
    with console.status("reading the log") as status:
        while server.alive and server.feed.reading:
            status.update(f"reading the log, {100 * server.feed.source.share:.0f} %")
            time.sleep(LOOK_S)
