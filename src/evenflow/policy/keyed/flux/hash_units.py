"""Hash: units stay with the workers that had them first (flux §5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.balance import KeyedBalance


@dataclass
class Hash(KeyedBalance):
    """A row goes to the owner of its key's unit, and owners never change: Flux without its policy, as in flux §5.4."""

    name: ClassVar[str] = "hash"

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Never any moves."""
        return []
