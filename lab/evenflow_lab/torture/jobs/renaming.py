"""An operator that has state is given another name: that must be refused, by its old name.

Then it has its old name again; or it keeps the new one, and is told the old one (`was`), so that it takes its state.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenflow_lab.torture.faults.hooks import SPARK, Hooks
from evenflow_lab.torture.schedule import GRAPH, REGION, WINDOWS, place_of

OTHER = "-renamed"
"""Suffix of the other name."""
REFUSED = "refused-renames"
"""A file that is there once the other name was refused."""


@dataclass(frozen=True, slots=True)
class Naming:
    """How the operators of a query are named at a start."""

    added: str = ""
    """Suffix of their names."""
    adopting: bool = False
    """Whether they are told their old names."""

    def options(self, name: str) -> dict[str, str]:
        """The options that give an operator its name."""
        return {"name": name + self.added} | ({"was": name} if self.adopting else {})


AS_BEFORE = Naming()


class Renaming:
    """The names with which a query is started, one time after the other."""

    def __init__(self, hooks: Hooks, query: int) -> None:
        self._hooks = hooks
        self._note = hooks.folder / place_of(REFUSED, query)
        self._spark = hooks.folder / place_of(SPARK, query)
        self._refusals = [f"was={place_of(name, query)!r}" for name in (REGION, WINDOWS, GRAPH)]

    def after(self, failure: str) -> Naming:
        """The names at the next start; `failure` is the text of the last error, or empty."""
        for number, fault in enumerate(self._hooks.schedule.faults):
            if fault.kind == "rename" and any((self._spark / "commits").glob("[0-9]*")):
                self._hooks.claim(number)
                if any(text in failure for text in self._refusals):
                    self._note.touch()
                if not self._note.exists():
                    return Naming(OTHER)
                return Naming(OTHER, adopting=True) if fault.share < 0.5 else AS_BEFORE
        return AS_BEFORE
