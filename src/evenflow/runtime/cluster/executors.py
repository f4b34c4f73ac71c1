"""Which executor has which worker, for the event log: Spark knows it, and workers do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

TRIES = 10
"""How often Spark is asked for a task: its status store is behind, and forgets tasks that have ended."""

Task = tuple[int, int]
"""Stage and task attempt."""


class Executors:
    """Asks `find` for the executor of each worker's task, until it is known."""

    def __init__(self, find: Callable[[Task], str]) -> None:
        self._find = find
        self._asked: dict[tuple[int, Task], tuple[str, int]] = {}
        """By worker and task, the executor, empty while it is not known, and how often it may be asked for again."""

    def news(self, tasks: Mapping[int, Task]) -> dict[str, str]:
        """By worker, the executors of all these tasks that are known; nothing if it is what was said before."""
        self._asked = {each: self._asked.get(each, ("", TRIES)) for each in tasks.items()}
        new = False
        for (worker, task), (name, tries) in self._asked.items():
            if not name and tries:
                name = self._name(task)
                self._asked[worker, task] = name, tries - 1
                new = new or bool(name)
        return {str(worker): name for (worker, _), (name, _) in self._asked.items() if name} if new else {}

    def _name(self, task: Task) -> str:
        try:
            return self._find(task)
        except Exception:  # py4j and Spark raise many classes, as when the session is being stopped
            return ""
