"""Actions on a store that are tried again: a store that fails now and then must not cost a query its state."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import TypeVar

from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.state.store.base import Store, WrappedStore

T = TypeVar("T")
Pause = Callable[[float], object]
"""Waits for some seconds; a true result means that the caller is closing, so that there is no further try."""

TRIES = 5
"""A store that fails this often in a row has failed."""
PAUSE_S = 0.1
"""Before the second try; twice as long before each further one."""


def all_but(*lasting: type[Exception]) -> Callable[[Exception], bool]:
    """Whether an error may be gone at the next try: one of a store, but none of the `lasting` kinds."""
    return lambda error: isinstance(error, StoreError | OSError) and not isinstance(error, lasting)


PASSING = all_but(BlobMissing, StoreInUse)
"""What is tried again unless the caller says otherwise."""


def retry(
    action: Callable[[], T],
    pause: Pause = time.sleep,
    *,
    tries: int = TRIES,
    longest_s: float = math.inf,
    passes: Callable[[Exception], bool] = PASSING,
) -> T:
    """Do an action until it goes well, at most `tries` times; its result.

    The last error is raised, and at once one that does not pass. Pauses double, from PAUSE_S up to `longest_s`.
    """
    for number in itertools.count(1):
        try:
            return action()
        except Exception as error:
            if number == tries or not passes(error) or pause(min(longest_s, PAUSE_S * 2 ** (number - 1))):
                raise
    raise AssertionError("the last try returns or raises")


class RetryingStore(WrappedStore):
    """Another store whose reads are tried again; a blob that is not there is missing at once.

    A put is done once: callers try the whole of what they do again.
    """

    def __init__(self, store: Store, pause: Pause = time.sleep) -> None:
        super().__init__(store)
        self._pause = pause

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        return retry(lambda: self._store.get(name, start, length), self._pause)

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        return retry(lambda: self._store.names(prefix), self._pause)
