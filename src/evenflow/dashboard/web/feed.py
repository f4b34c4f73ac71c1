"""What clients get: the present frame, the history, and frames of the past for the time slider."""

from __future__ import annotations

import asyncio
import logging
import threading
import zlib
from bisect import bisect_right
from itertools import islice

import msgspec

from evenflow.dashboard.view import PageView
from evenflow.dashboard.web.sources import EntrySource
from evenflow.dashboard.words import unread_words
from evenflow.metrics.exposition import Metrics

PERIOD_S = 1.0
"""Seconds between two frames."""
LOOK_S = 0.2
"""How often it is looked whether the feed is closed."""
AT_ONCE = 2_000
"""Entries that are taken in before clients are looked after again."""
KEPT_FRAMES = 720
"""Frames of the past that are kept: when there are more, every second one goes."""

logger = logging.getLogger("evenflow")
encode = msgspec.json.encode


class Feed:
    """Follows a source and keeps what is published of it. One task runs `run`; any number of clients read.

    A client that is slow misses frames, and always gets the latest: nothing is queued for it.
    """

    def __init__(self, source: EntrySource) -> None:
        self.source = source
        self.view = PageView(self._stepped)
        self._metrics = Metrics()
        self.number = 0
        """Of the frame that is published; 0 until there is one."""
        self.reading = True
        """Whether what is there is still being taken in: at the start, and whenever that takes longer than a frame."""
        self.closed = False
        self._lock = threading.Lock()
        self._published = asyncio.Event()
        self._coming = source.entries()
        self._past: list[tuple[float, bytes]] = []
        self._spacing_s = 0.0
        self._troubled = False
        self.frame = self._made()

    async def run(self) -> None:
        """Follow the source until `close`."""
        loop = asyncio.get_running_loop()
        while not self.closed:
            began = loop.time()
            while await asyncio.to_thread(self.take) and not self.closed:
                if loop.time() - began >= PERIOD_S:
                    self.reading, began = True, loop.time()
                    await self._publish()
                await asyncio.sleep(0)
            self.reading = False
            await self._publish()
            while not self.closed and loop.time() - began < PERIOD_S:
                await asyncio.sleep(LOOK_S)
        self._published.set()

    async def _publish(self) -> None:
        await asyncio.to_thread(self.publish)
        self._published.set()
        self._published = asyncio.Event()

    def close(self) -> None:
        """Have `run` end, and clients be let go; from any thread."""
        self.closed = True

    def take(self) -> bool:
        """Take in some entries; whether there may be more."""
        with self._lock:
            entries = list(islice(self._coming, AT_ONCE))
            for entry in entries:
                self.view.apply(entry)
            self._metrics.add(entries)
            self._metrics.skipped = self.source.unread
            if len(entries) < AT_ONCE:
                self._coming = self.source.entries()
        return len(entries) == AT_ONCE

    def exposition(self) -> bytes:
        """What has come in so far, as metrics for Prometheus."""
        with self._lock:
            return self._metrics.exposition()

    def publish(self) -> None:
        """Make a new frame of what is known; if something in the log prevents it, the last one stays."""
        with self._lock:
            try:
                if not self.reading:  # entries to come are older than now
                    self.view.tick(self.source.now(self.view.heard))
                self.frame = self._made()
            except Exception:  # whatever stands in a log, the page and the cluster that serves it go on
                self._trouble()
            self.number += 1

    def _made(self, time: float | None = None) -> bytes:
        frame = self.view.frame(time)
        unread = frame["unread"] + self.source.unread
        note = unread_words(unread, frame["entries"] - frame["unread"], self.source.title)
        reading = round(self.source.share, 3) if self.reading and time is None else None
        return encode(frame | {"title": self.source.title, "unread": unread, "note": note, "reading": reading})

    def _trouble(self) -> None:
        """Log the error at hand: the first as an error, since others would follow each second."""
        logger.log(
            logging.DEBUG if self._troubled else logging.ERROR, "the live page leaves a frame out", exc_info=True
        )
        self._troubled = True

    async def changed(self, number: int, seconds: float) -> bool:
        """Wait until there is another frame than that of a number; whether there is, within `seconds`."""
        if self.number == number:
            try:
                await asyncio.wait_for(self._published.wait(), seconds)
            except TimeoutError:
                return False
        return self.number != number

    def history(self, generation: int = -1, place: int = 0) -> tuple[bytes, int, int]:
        """The steps of the history from a place on, all of them if it is of another generation; and where it ends."""
        with self._lock:
            history = self.view.history
            start = place if generation == history.generation else 0
            return encode(history.since(start)), history.generation, len(history.times)

    def at(self, time: float) -> bytes:
        """The last frame that was kept before a time; the first, if there is none before it."""
        with self._lock:
            place = bisect_right(self._past, time, key=lambda each: each[0])
            if not self._past:
                return self.frame
            return zlib.decompress(self._past[max(0, place - 1)][1])

    def _stepped(self, time: float) -> None:
        """Keep a frame for the time slider; a step of the history is over."""
        if self._past and time < self._past[-1][0]:  # the log was written anew, and its time with it
            self._past.clear()
        if self._past and time - self._past[-1][0] < self._spacing_s:
            return
        if len(self._past) >= KEPT_FRAMES:
            self._past = self._past[::2]
            self._spacing_s = 2 * max(self._spacing_s, self.view.history.step_s / 2)
        try:
            self._past.append((round(time, 3), zlib.compress(self._made(time), 1)))
        except Exception:  # as in publish
            self._trouble()
