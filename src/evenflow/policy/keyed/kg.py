"""Key grouping, Storm's default and a baseline of cep-load-balancing §4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.policy.keyed.hash_units import Hash


@dataclass
class KeyGrouping(Hash):
    """Hash by the name it has in the paper: a key's rows go to one engine, and owners never change.

    Units are dealt out in turn, so with `spread="modulo"` and as many units as there are keys, numbered from 0, key k
    is on engine k % |Engines|, as in §4.
    """

    name: ClassVar[str] = "kg"
