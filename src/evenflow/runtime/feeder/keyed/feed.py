"""The settings of a keyed feeder; they travel to the tasks inside Spark's closures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenflow.model.messages import REPORT_S
from evenflow.operators.row_marks import ROW
from evenflow.runtime.feeder.hashing import KEY
from evenflow.runtime.feeder.keyed.ranges import Ranges
from evenflow.runtime.wire.settings import Settings

SKEW_BYTES = 2 * 1024 * 1024
"""Rows that wait in a feeder, unless said otherwise."""


@dataclass(frozen=True, slots=True)
class KeyedFeed:
    """Everything a keyed feeder needs to know, picklable."""

    settings: Settings
    region: str
    operator: str
    schema: bytes
    """Of the results, as Arrow serializes it."""
    by_content: bool
    """Whether a row's key says which worker gets it."""
    ordered: bool
    """Whether results come in the order of the rows."""
    names: tuple[str, ...]
    """Names of the columns of a row as it goes to a worker, the hash of the key last."""
    streaming: bool = True
    key_place: int | None = None
    """The place of the key among the columns if the feeder is to hash it; None if Spark has."""
    reads: tuple[int, ...] | None = None
    """The places of the columns that the operator reads; None for all."""
    kept: int = 0
    """How many columns stay here, and come before the columns that workers send back."""
    choices: int = 0
    """If not `by_content`: 2 if the key names two workers that a row may go to, 0 if any worker will do."""
    modulo: bool = False
    """Whether the key, a whole number, stands for its hash."""
    mark: str = ""
    """Tells this use of an operator from all others in the plan: see `stages`."""
    skew_bytes: int = SKEW_BYTES
    """Bytes of rows that wait here at most; with 0, no row is taken in while another waits."""
    divided: bool = False
    """Whether each worker has an equal part of `skew_bytes`; otherwise all workers share the whole."""
    seed: int = 0
    """Of the draws, where any worker will do."""
    report_s: float = REPORT_S
    """Seconds between two reports of a worker about the region."""
    ranges: Ranges | None = None
    """How keys fall on units, if not by their hashes."""
    shed: int | None = None
    """The place of the column with the value of each row, if rows may be dropped."""
    target_s: float | None = None
    """Seconds that rows may take, if there is a target."""
    key_values: tuple[int, ...] = ()
    """The places of the key's columns, if the user asked for values of keys."""

    def for_ticks(self, names: Sequence[str]) -> KeyedFeed:
        """The feed of rows that have these columns and none of the user's: nothing is said of those any more."""
        plain = replace(self, names=(*names, KEY), key_place=None, reads=None, modulo=False, ranges=None)
        return replace(plain, shed=None, key_values=())

    @property
    def sent(self) -> list[int]:
        """The places of the columns that workers get: the hash of the key last, before it that of the row, if any."""
        last = len(self.names) - 1
        marked = last > 0 and self.names[last - 1] == ROW
        return [*(range(last) if self.reads is None else self.reads), *([last - 1] if marked else []), last]
