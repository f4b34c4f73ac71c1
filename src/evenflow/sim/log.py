"""The event log of a simulation: the entries that a live cluster would write, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from msgspec.structs import replace

from evenflow.model.entries import EventEntry, as_dict


class SimulatedLog:
    """Keeps entries, and writes them to a file if there is one. `at`, the wall clock of live logs, is the same time.

    Nothing in it depends on the machine or on when it runs: the same simulation gives the same bytes.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.written: list[EventEntry] = []
        self._file: TextIO | None = None
        if path is not None:
            self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def write(self, entry: EventEntry) -> None:
        """Append one entry."""
        written = replace(entry, time=round(entry.time, 6), at=round(entry.time, 3))
        self.written.append(written)
        if self._file is not None:
            self._file.write(json.dumps(as_dict(written), default=str) + "\n")

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All entries as they are written, oldest first."""
        return [as_dict(entry) for entry in self.written]

    def of(self, event: str) -> list[dict[str, Any]]:
        """The entries of one kind as they are written, oldest first."""
        return [as_dict(entry) for entry in self.written if entry.event == event]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
