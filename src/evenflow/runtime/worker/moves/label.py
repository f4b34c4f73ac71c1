"""The header of a movement's units; checked before any state is unpickled."""

from __future__ import annotations

import hmac
from typing import Annotated

from msgspec import Meta, Struct

from evenflow.errors import ProtocolError
from evenflow.model.messages import MOST_ENTRIES, Batches, Table, Whole
from evenflow.model.routing import MOST_UNITS
from evenflow.model.tickets import ticket
from evenflow.runtime.wire.messages import Reader, packed

Part = bytes | bytearray | memoryview


class Label(Struct, frozen=True, forbid_unknown_fields=True):
    """A message, so that reading it runs no code; the ticket shows that the controller has announced it."""

    move: Whole
    region: str
    operator: str
    """The operator's code; empty if its source has no state of the region."""
    source: Whole
    units: Annotated[list[Whole], Meta(max_length=MOST_UNITS)]
    evaluations: Annotated[list[str], Meta(max_length=MOST_ENTRIES)]
    """Evaluations whose state may be among the units."""
    ticket: str = ""
    touched: Table[str, Batches] = {}
    """By evaluation, for each unit the latest batch in which it had rows."""

    def __repr__(self) -> str:
        return f"Label of movement {self.move}, region {self.region!r}, units {self.units}"  # not the ticket

    def packed(self) -> bytes:
        """The label as bytes, the first part of a parcel."""
        return packed(self)

    @classmethod
    def read(cls, part: Part) -> Label:
        """The label in a parcel's first part."""
        found = _LABEL.decode(part, "a movement's label")
        for evaluation, batches in found.touched.items():
            if evaluation not in found.evaluations or len(batches) != len(found.units):
                raise ProtocolError(f"a movement's label speaks of rows of {evaluation:.100}, which are not its own")
        return found

    def check(self, key: str, move: int) -> None:
        """Refuse units that the controller has not announced to the worker with this key."""
        announced = ticket(key, self.move, self.region, self.source, self.units, self.evaluations)
        if self.move != move or not hmac.compare_digest(announced.encode(), self.ticket.encode()):
            raise ProtocolError(
                f"units {self.units[:5]} of region {self.region!r:.100} came from worker {self.source} in movement "
                f"{move}, which the controller has not announced: they are not read"
            )

    def check_states(self, states: object) -> None:
        """Refuse state of other units, or of other evaluations, than the movement is about."""
        units = set(self.units)
        if not (
            isinstance(states, dict)
            and states.keys() <= set(self.evaluations)
            and all(isinstance(each, dict) and each.keys() <= units for each in states.values())
        ):
            raise ProtocolError(f"movement {self.move} brings state that it was not to bring")


_LABEL = Reader(Label)
