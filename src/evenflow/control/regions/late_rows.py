"""Rows that came too late, as workers count them: the user is warned once, and the event log has the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evenflow.control.events import Instruction, WarnInstruction
from evenflow.model.entries import RowsLateEntry

SETTLED_S = 1.0
"""How long after the first late row the warning waits for further ones of the same micro-batch."""
NOTED_S = 10.0
"""At least so long between two entries of the event log."""
OF = "late of "


class LateRows:
    """Warns of the late rows of one region: once for each start of its query, with their number by input."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._warned = False
        self._noted = 0
        """The late rows that the event log has."""
        self._since: float | None = None
        """When the first late rows came that the event log does not have."""

    def start_again(self) -> None:
        """The query starts again: it is warned of late rows again."""
        self._warned = False

    def note(self, time: float, counts: Mapping[str, int], final: bool = False) -> Iterator[Instruction]:
        """The warning and the entry that the counts so far call for; `final` if no further counts may come."""
        total = counts.get("late", 0)
        if total <= self._noted:
            return
        self._since = time if self._since is None else self._since
        if not final and time - self._since < (NOTED_S if self._warned else SETTLED_S):
            return
        inputs = {name.removeprefix(OF): count for name, count in counts.items() if name.startswith(OF) and count}
        if not self._warned:
            self._warned = True
            yield WarnInstruction(self._text(total, inputs))
        rows, self._noted, self._since = total - self._noted, total, None
        yield RowsLateEntry(time=time, region=self._region, rows=rows, total=total, inputs=inputs)

    def _text(self, total: int, inputs: Mapping[str, int]) -> str:
        by = f" ({', '.join(f'{name}: {count:,}' for name, count in inputs.items())})" if inputs else ""
        return (
            f"{self._region}: {total:,} row{'' if total == 1 else 's'} came too late so far{by}: time, or later rows, "
            "had passed them, so they take no part, or matches and pairs with them may be missing. Give lateness=, or "
            f'a larger one; region("{self._region}").snapshot().counts and the event log (rows-late) have the number'
            " and in the metric evenflow_rows_late_total"
        )
