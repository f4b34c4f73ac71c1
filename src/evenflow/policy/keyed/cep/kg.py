"""Key grouping, Storm's default and a baseline of cep-load-balancing §4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.policy.keyed.flux.hash_units import Hash


@dataclass
class KeyGrouping(Hash):
    """The same as `Hash`, under the name it has in the paper: a key's rows go to one engine, and owners never change.

    Units are given to workers in turn. So with `spread="modulo"` and one unit for each key, numbered from 0, key k is
    on engine k % |Engines|, as in §4.
    """

    name: ClassVar[str] = "kg"
