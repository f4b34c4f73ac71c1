"""The thread that serves the page: whoever starts it closes it, and hears of its errors."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from urllib.parse import quote

import uvicorn
from starlette.routing import BaseRoute

from evenflow.dashboard.web.app import make_app
from evenflow.dashboard.web.feed import Feed
from evenflow.dashboard.web.guard import check_access
from evenflow.dashboard.web.sources import EntrySource
from evenflow.errors import EvenflowError, InvalidArgument
from evenflow.runtime.threads import BackgroundThread

logger = logging.getLogger("evenflow")

PORT = 8899
"""The port that is taken if none is asked for; if it is in use, any other."""
CLOSE_S = 10.0
"""How long the server may take to end."""
HOST = "127.0.0.1"
ANYWHERE = ("", "0.0.0.0", "::")
"""Addresses to listen on that nobody can open: the link has this machine's name in their place."""


def listening(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port, on PORT or, if that is in use, on a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for each in (PORT, 0) if port is None else (port,):
        try:
            return socket.create_server((host.strip("[]"), each), family=family, backlog=64)
        except (OSError, OverflowError) as error:
            last = error if isinstance(error, OSError) else OSError(str(error))
    raise InvalidArgument(
        f"the dashboard cannot listen on {host}, port {port or PORT}: {last}; give another host or port, or port 0"
    ) from last


def link_to(host: str, port: int, token: str | None) -> str:
    """The address of a page that listens on a host."""
    shown = socket.gethostname() if host.strip("[]") in ANYWHERE else host
    shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    return f"http://{shown}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


class DashboardServer(BackgroundThread):
    """Serves a source on a thread of its own, from its construction to `close`."""

    def __init__(
        self,
        source: EntrySource,
        host: str = HOST,
        port: int | None = None,
        token: str | None = None,
        extra: Callable[[Feed], list[BaseRoute]] | None = None,
    ) -> None:
        check_access(host, token)
        super().__init__("dashboard", self._serve, self._failed)
        self._source, self.feed = source, Feed(source)
        self._socket = listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        self.link = link_to(host, self.port, token)
        """The address of the page, with its token if it has one."""
        config = uvicorn.Config(
            make_app(self.feed, host, token, extra(self.feed) if extra is not None else None),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=128,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self.begin()

    def close(self) -> None:
        """End the thread and let go of the port and the source."""
        self.end(CLOSE_S)
        self._socket.close()
        if self.failure:
            raise EvenflowError(f"the dashboard has failed: {self.failure}")

    def rouse(self) -> None:
        self._server.should_exit = True
        self.feed.close()

    def _serve(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        """Serve and follow, until one of them ends."""
        following = asyncio.create_task(self.feed.run())
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await asyncio.wait({following, serving}, return_when=asyncio.FIRST_COMPLETED)
        self.rouse()
        await asyncio.gather(following, serving)

    def _failed(self, error: BaseException) -> None:
        logger.error("evenflow's dashboard has failed", exc_info=error)
