"""The interface of a balance of a keyed operator: a pure decision about which units go where."""

from __future__ import annotations

from typing import ClassVar, Protocol

from evenflow.model import KeyedSnapshot, MoveUnits


class KeyedBalance(Protocol):
    """Decides which units of one keyed operator move.

    `decide` is called each time all workers have reported: about ten times a second while rows flow, also while moves
    are under way. It reads no clock and does no I/O; what it learns it keeps in its own fields.

    Attributes that a balance may have: `report_s`, the seconds between two reports of a worker, if not 0.1;
    `by_arrivals`, to be asked until all rows are through; `divided`, if each worker has a part of its own of the room
    for rows that wait; `choices` and `seed`, see `PartialKeyGrouping` and `River`.
    """

    name: ClassVar[str]
    by_content: ClassVar[bool]
    """Whether a row goes to the owner of its key's unit. If not, nothing is moved and nothing stored: any worker takes
    any row or, for a balance with `choices = 2`, one of two that the key's hashes name (`PartialKeyGrouping`)."""

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Moves to begin now; an empty list leaves things as they are."""
        ...
