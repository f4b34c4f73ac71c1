"""Work on a thread of its own, while somebody watches how far it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
Watch = Callable[[float], None]
"""Called now and then with the number of rows that are through."""


def polled(work: Callable[[], T], poll: Callable[[], None], every_s: float) -> T:
    """Run `work` on a thread of its own and return its result; call `poll` every so many seconds, and at the end."""
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(work)
        while not job.done():
            wait([job], timeout=every_s)
            poll()
    return job.result()
