"""Labels: what the units of a movement are, said in front of them and read before anything of them is."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evenflow.errors import ProtocolError
from evenflow.model.tickets import ticket
from evenflow.runtime.wire.messages import Message, packed, parsed

REMEMBERED = 1000
"""Evaluations and movements remembered as over, so that what arrives late for them is not kept."""

Part = bytes | bytearray | memoryview
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Label:
    """JSON, so that reading it runs nothing; the ticket is the controller's word that all of it is so."""

    move: int
    region: str
    operator: str
    """The operator's code; empty if its source has no state of the region."""
    source: int
    units: list[int]
    evaluations: list[str]
    """Of whose state there may be some."""
    ticket: str = field(default="", repr=False)
    touched: Mapping[str, Any] = field(default_factory=dict)
    """By evaluation, the batches in which the units had rows last."""

    def packed(self) -> bytes:
        """As it goes in front of the state."""
        return packed({name: getattr(self, name) for name in Label.__dataclass_fields__})

    @classmethod
    def read(cls, part: Part) -> Label:
        """The label in a parcel's first part."""
        said = parsed(part, "a movement's label")
        touched = said.get("touched")
        if not isinstance(touched, dict):
            raise ProtocolError("a movement's label does not say which units had rows")
        found = cls(
            said.whole("move"),
            said.text("region"),
            said.text("operator"),
            said.whole("source"),
            said.wholes("units"),
            said.texts("evaluations"),
            said.text("ticket"),
            touched,
        )
        for evaluation in touched:
            if evaluation not in found.evaluations or len(_batches(Message(touched), evaluation)) != len(found.units):
                raise ProtocolError(f"a movement's label speaks of rows of {evaluation:.100}, which are not its own")
        return found

    def check(self, key: str, move: int) -> None:
        """Refuse what the controller has not announced to the worker with this key."""
        announced = ticket(key, self.move, self.region, self.source, self.units, self.evaluations)
        if self.move != move or not hmac.compare_digest(announced.encode(), self.ticket.encode()):
            raise ProtocolError(
                f"units {self.units[:5]} of region {self.region!r:.100} came from worker {self.source} in movement "
                f"{move}, which the controller has not announced: they are not read"
            )

    def check_states(self, states: Any) -> None:
        """Refuse state of other units, or of other evaluations, than the movement is about."""
        units = set(self.units)
        fits = isinstance(states, dict) and states.keys() <= set(self.evaluations)
        if not fits or not all(isinstance(each, dict) and each.keys() <= units for each in states.values()):
            raise ProtocolError(f"movement {self.move} brings state that it was not to bring")


def remember(kept: dict[T, Any], key: T, value: Any = None) -> None:
    """Keep this, and of what was kept before the latest."""
    kept[key] = value
    while len(kept) > REMEMBERED:
        del kept[next(iter(kept))]


def _batches(touched: Message, evaluation: str) -> Any:
    """Batches by unit; -1 where there was none."""
    value = touched[evaluation]
    if getattr(getattr(value, "dtype", None), "kind", "") != "i":
        raise ProtocolError(f"the batches of {evaluation:.100} in a movement's label are no numbers")
    return value
