"""What goes wrong on the controller's thread: it is written down, and the thread goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from evenflow.errors import described
from evenflow.model.entries import ControllerErrorEntry, EntriesLeftOutEntry, EventEntry
from evenflow.runtime.driver.eventlog import EventLog, Quota

logger = logging.getLogger("evenflow")


class ErrorLog:
    """Writes errors and refusals into the event log; a quota for each kind keeps them from filling it."""

    def __init__(self, log: EventLog, now: Callable[[], float]) -> None:
        self._log, self._now = log, now
        self.quota, self._errors = Quota(), Quota(10)

    def attempt(self, what: str, act: Callable[[], None]) -> str:
        """Do something; returns what went wrong. An error must not end the thread that serves all others."""
        try:
            act()
        except Exception as error:
            self._log.write(ControllerErrorEntry(time=self._now(), on=what, error=described(error)))
            if self._errors.admits("controller-error"):
                logger.error("evenflow's controller could not %s", what, exc_info=error)
            return described(error)
        return ""

    def write(self, entry: EventEntry) -> None:
        """Write an entry of a kind that may come in crowds, or only count it."""
        if self.quota.admits(entry.event):
            self._log.write(entry)

    def tell_left_out(self, closing: bool = False) -> None:
        """Once a period, write down how many entries of each kind were only counted."""
        for kind, count in self.quota.left_out(self._now(), closing).items():
            self._log.write(EntriesLeftOutEntry(time=self._now(), kind=kind, count=count))
