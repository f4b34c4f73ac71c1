"""The routes of the page: its files, the present as server-sent events, the past by time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import isfinite
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from evenflow.dashboard.web.feed import Feed
from evenflow.dashboard.web.guard import Guard
from evenflow.metrics.exposition import CONTENT_TYPE

STATIC = Path(__file__).parent.parent / "static"
MOST_CLIENTS = 32
"""Pages that may be open at a time."""
QUIET_S = 10.0
"""After so many seconds without a frame, a comment says that the connection lives."""
SEND_S = 20.0
"""A client that takes nothing for so long is dropped; its page connects again."""


class FrameStream:
    """Server-sent events: `history` whenever it has steps that the client lacks, `frame` once a second."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.clients = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it goes, or the server closes."""
        if scope["method"] != "GET":  # HEAD: an answer without a stream, which takes no place
            await Response(media_type="text/event-stream")(scope, receive, send)
            return
        if self.clients >= MOST_CLIENTS:
            text = f"{MOST_CLIENTS} pages are open already: close one"
            await PlainTextResponse(text, 503, {"retry-after": "5"})(scope, receive, send)
            return
        self.clients += 1
        gone = asyncio.create_task(_left(receive))
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with suppress(TimeoutError):  # of a send: whoever takes nothing is dropped
                await self._serve(send, gone)
                await _sent(send, b"", more=False)
        finally:
            self.clients -= 1
            gone.cancel()

    async def _serve(self, send: Send, gone: asyncio.Task[None]) -> None:
        feed, number, generation, place = self._feed, 0, -1, 0
        await _sent(send, b"retry: 1000\n\n")
        while not gone.done() and not feed.closed:
            if not await feed.changed(number, QUIET_S):
                await _sent(send, b": here\n\n")
                continue
            number, before = feed.number, (generation, place)
            history, generation, place = feed.history(*before)
            news = b"" if (generation, place) == before else b"event: history\ndata: " + history + b"\n\n"
            await _sent(send, news + b"event: frame\ndata: " + feed.frame + b"\n\n")


async def _sent(send: Send, body: bytes, more: bool = True) -> None:
    await asyncio.wait_for(send({"type": "http.response.body", "body": body, "more_body": more}), SEND_S)


async def _left(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue


def routes(feed: Feed) -> list[BaseRoute]:
    """The routes of the page; others may be mounted beside them."""

    async def index(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html", media_type="text/html")

    async def frame(request: Request) -> Response:
        try:
            time = float(request.query_params["at"])
        except (KeyError, ValueError):
            time = float("nan")
        if not isfinite(time):
            return PlainTextResponse("at: give a time in seconds, as in /api/frame?at=12.5", 400)
        return Response(await asyncio.to_thread(feed.at, time), media_type="application/json")

    async def history(_request: Request) -> Response:
        found, _, _ = await asyncio.to_thread(feed.history)
        return Response(found, media_type="application/json")

    async def metrics(_request: Request) -> Response:
        return Response(await asyncio.to_thread(feed.exposition), media_type=CONTENT_TYPE)

    return [
        Route("/", index, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/api/stream", FrameStream(feed), methods=["GET"]),
        Route("/api/frame", frame, methods=["GET"]),
        Route("/api/history", history, methods=["GET"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


def make_app(feed: Feed, host: str, token: str | None, extra: list[BaseRoute] | None = None) -> Starlette:
    """The application: the page's routes, others beside them, and the guard around all."""
    return Starlette(routes=[*routes(feed), *(extra or [])], middleware=[Middleware(Guard, host=host, token=token)])
