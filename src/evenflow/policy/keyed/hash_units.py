"""Hash: units stay with the workers that had them first, as in Exchange (flux §2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits


@dataclass
class Hash:
    """Exchange: a row goes to the owner of its key's unit, and owners never change; the baseline of flux §5.4."""

    name: ClassVar[str] = "hash"
    by_content: ClassVar[bool] = True

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Never any moves."""
        return []
