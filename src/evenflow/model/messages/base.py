"""What messages are made of: their base classes, and the types of their fields, which the codec checks."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta, Struct

from evenflow.model.routing import MOST_UNITS

if TYPE_CHECKING:  # numpy weighs 20 MB, and every process imports this package
    import numpy as np
    import numpy.typing as npt

    Units = npt.NDArray[np.int32]
    Counts = npt.NDArray[np.int64]
    Batches = npt.NDArray[np.int64]
else:

    class Units:
        """An array of units."""

    class Counts:
        """An array of counts or sizes, one a unit."""

    class Batches:
        """An array of batches by number; -1 where there was none."""


Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
"""A number that is neither endless nor NaN."""
Share = Annotated[float, Meta(ge=0, le=1)]
Batch = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
"""A batch by number; -1 for what was before the first."""
MOST_ENTRIES = 100_000
"""A message with a longer list or table is not decoded: no cluster has as many workers, feeders or evaluations."""
Element = TypeVar("Element")
Key = TypeVar("Key")
Value = TypeVar("Value")
Several = Annotated[tuple[Element, ...], Meta(max_length=MOST_ENTRIES)]
Table = Annotated[dict[Key, Value], Meta(max_length=MOST_ENTRIES)]
UnitNumbers = Annotated[tuple[Whole, ...], Meta(max_length=MOST_UNITS)]


class MessagePart(Struct, frozen=True, forbid_unknown_fields=True):
    """A value inside a message."""


class Message(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """What a control frame holds."""


def check_pairs(**arrays: Sized) -> None:
    """Refuse arrays of different lengths."""
    if len(set(map(len, arrays.values()))) > 1:
        counts = " and ".join(f"{len(array)} {name}" for name, array in arrays.items())
        raise ValueError(f"it has {counts}: there must be one of each")
