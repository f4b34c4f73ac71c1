"""Which executor has which worker, for the event log: Spark knows it, and workers do not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from evenflow.errors import described

ASKING_S, EVERY_S = 30.0, 1.0
"""So long, and so often, Spark is asked for a task: its status store is behind, and forgets tasks that have ended."""

Task = tuple[int, int]
"""Stage and task attempt."""
logger = logging.getLogger("evenflow")


@dataclass(slots=True)
class _Asked:
    """The executor of a task, as far as it is known."""

    until: float
    """From this time on it is asked for once more at most: periods may be longer than ASKING_S."""
    due: float
    """When it may be asked for again."""
    executor: str = ""
    """Empty while it is not known."""


class Executors:
    """Asks `find` for the executor of each worker's task, until it is known or ASKING_S seconds are over."""

    def __init__(self, find: Callable[[Task], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._find, self._clock = find, clock
        self._asked: dict[tuple[int, Task], _Asked] = {}
        """By worker and task."""

    def news(self, tasks: Mapping[int, Task]) -> dict[str, str]:
        """By worker, the executors of these tasks as far as they are known; empty if nothing has changed."""
        now = self._clock()
        self._asked = {each: self._asked.get(each) or _Asked(now + ASKING_S, now) for each in tasks.items()}
        new = False
        for (_, task), asked in self._asked.items():
            if not asked.executor and now >= asked.due:
                asked.due, asked.executor = now + EVERY_S if now < asked.until else inf, self._name(task)
                new = new or bool(asked.executor)
        return {str(worker): asked.executor for (worker, _), asked in self._asked.items() if asked.executor and new}

    def _name(self, task: Task) -> str:
        try:
            return self._find(task)
        except Exception as error:  # py4j and Spark raise many classes, as when the session is being stopped
            logger.debug("Spark does not say which executor has task %s of stage %s: %s", *task[::-1], described(error))
            return ""
