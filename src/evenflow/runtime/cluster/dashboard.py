"""The live page of a cluster in this process: `Cluster(..., dashboard=True)`."""

from __future__ import annotations

import html
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError, InvalidArgument, extra
from evenflow.runtime.driver.controller_thread import ControllerThread

if TYPE_CHECKING:  # starlette and uvicorn are imported when there is a page
    from evenflow.dashboard.web.serving import DashboardServer

logger = logging.getLogger("evenflow")


def page_asked(dashboard: Any, token: str | None = None) -> bool | str:
    """Whether there is to be a page, or at which `host:port`; a page that cannot be served is refused."""
    if dashboard is False and token is not None:
        raise InvalidArgument('dashboard_token is given, but no dashboard: give dashboard=True or "host:port" as well')
    if dashboard is False:
        return False
    address = isinstance(dashboard, str) and ":" in dashboard and dashboard.rpartition(":")[2].isdecimal()
    if dashboard is not True and not address:
        raise InvalidArgument(f'dashboard is {dashboard!r:.100}: give True, or an address such as "127.0.0.1:8899"')
    with extra("dashboard", "Cluster(dashboard=...)"):
        from evenflow.dashboard.web import serving  # noqa: F401 - before anything of the cluster is started
    asked: bool | str = dashboard
    return asked


class LivePage:
    """Serves the event log that the controller thread keeps; closed with the cluster."""

    def __init__(self, title: str, driver: ControllerThread, asked: bool | str, token: str | None) -> None:
        from evenflow.dashboard.web.serving import HOST, DashboardServer
        from evenflow.dashboard.web.sources import MemorySource

        host, port = HOST, None
        if isinstance(asked, str):
            host, _, number = asked.rpartition(":")
            port = int(number)
        source = MemorySource(title, driver.events_since)
        self._server: DashboardServer = DashboardServer(source, host, port, token)

    @property
    def link(self) -> str:
        """The address of the page."""
        return self._server.link

    def close(self) -> None:
        """Close the page; that it had failed has been logged, and does not keep the cluster from stopping."""
        with suppress(EvenflowError):
            self._server.close()


def shown_as_html(title: str, facts: dict[str, str], link: str) -> str:
    """A cluster in a notebook: some facts in a table, and the link to its page."""
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    if link:
        safe = html.escape(link, quote=True)
        rows += f'<tr><th style="text-align:left">dashboard</th><td><a href="{safe}">{safe}</a></td></tr>'
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table></div>"
