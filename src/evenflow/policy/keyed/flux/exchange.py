"""Exchange as flux §2.3 has it: units stay, and each worker has a queue of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.policy.keyed.flux.hash_units import Hash


@dataclass
class ExchangeQueues(Hash):
    """`Hash` without the transient-skew buffer: the room for rows that wait is divided among the workers beforehand.

    As soon as one worker's part of `skew_bytes` is full, nothing more is taken in, although others may have room and
    nothing to do (head-of-line blocking, flux §4). With `Hash` all of the room is for whoever needs it.
    """

    name: ClassVar[str] = "exchange"
    divided: ClassVar[bool] = True
