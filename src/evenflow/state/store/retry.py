"""A store that is read with patience: what fails now and then is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.state.store.base import Lock, Part, Store

T = TypeVar("T")

TRIES = 5
"""A store that fails so often in a row has failed."""
PAUSE_S = 0.1
"""Before the second try; twice as long before each further one."""


def tried(action: Callable[[], T], pause: Callable[[float], object] = time.sleep) -> T:
    """What an action on a store gives, tried TRIES times over a few seconds; what will not pass is raised at once."""
    for attempt in range(TRIES - 1):
        try:
            return action()
        except (BlobMissing, StoreInUse):
            raise
        except (StoreError, OSError):
            pause(PAUSE_S * 2**attempt)
    return action()


class RetryingStore(Store):
    """Another store, its reads tried TRIES times; a blob that is not there is missing at once."""

    def __init__(self, store: Store, pause: Callable[[float], object] = time.sleep) -> None:
        self._store = store
        self._pause = pause

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Once: whoever puts has patience of its own."""
        self._store.put(name, parts)

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        return self._tried(lambda: self._store.get(name, start, length))

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        return self._tried(lambda: self._store.names(prefix))

    def delete(self, names: Iterable[str]) -> None:
        self._store.delete(names)

    def lock(self, mine: dict[str, Any]) -> Lock | None:
        """The other store's."""
        return self._store.lock(mine)

    def close(self) -> None:
        self._store.close()

    def _tried(self, read: Callable[[], T]) -> T:
        return tried(read, self._pause)
