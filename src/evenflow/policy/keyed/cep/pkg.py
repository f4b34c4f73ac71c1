"""Partial key grouping (Nasir et al. 2015), a baseline of cep-load-balancing §4 and §5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.balance import KeyedBalance


@dataclass
class PartialKeyGrouping(KeyedBalance):
    """The rows of a key go to two workers, given by two hash functions of the key.

    For each row, a feeder takes that one of the two to which it has sent fewer rows so far; it knows only its own rows.
    So the state of a key is in two places, each with a part of its rows: what an operator says of a key is right only
    if the parts can be combined afterwards. There is nothing to move.
    """

    name: ClassVar[str] = "pkg"
    by_content: ClassVar[bool] = False
    choices: ClassVar[int] = 2

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Never any moves."""
        return []
