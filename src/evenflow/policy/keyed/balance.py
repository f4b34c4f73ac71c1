"""The base class of balances of keyed operators: a pure decision about which units go where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.model.messages import REPORT_S


class KeyedBalance(ABC):
    """Decides which units of one keyed operator move; derive from it for a balance of your own.

    `decide` is called each time all workers have reported: about ten times a second while rows flow, also while moves
    are under way. It reads no clock and does no I/O; what it learns it keeps in its own fields.
    """

    name: ClassVar[str] = "own"
    """Its name in reasons of moves, in the event log and on the live page."""
    by_content: ClassVar[bool] = True
    """Whether a row goes to the owner of its key's unit. If not, nothing is moved and nothing stored: any worker takes
    any row or, with `choices = 2`, one of two that the key's hashes name (`PartialKeyGrouping`)."""
    by_arrivals: ClassVar[bool] = False
    """Whether it counts rows as they arrive, and so is asked until all rows are through."""
    divided: ClassVar[bool] = False
    """Whether each worker has a part of its own of the room for rows that wait (`ExchangeQueues`)."""
    choices: ClassVar[int] = 0
    """If not `by_content`: 2 if the key names two workers that a row may go to, 0 if any worker will do."""
    report_s: float = REPORT_S
    """Seconds between two reports of a worker."""
    seed: int = 0
    """Of the draws of workers, if any worker will do (`River`)."""

    @abstractmethod
    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Moves to begin now; an empty list leaves things as they are."""
