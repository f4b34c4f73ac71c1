"""River: rows go to any worker that has room, whatever their key (RiverDQ, flux §2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits


@dataclass
class River:
    """RiverDQ: any worker with room takes the next rows.

    This balances by itself, but needs an operator for which the rows of one key may be on several workers: there are
    no units, and nothing to move.
    """

    name: ClassVar[str] = "river"
    by_content: ClassVar[bool] = False

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Never any moves."""
        return []
