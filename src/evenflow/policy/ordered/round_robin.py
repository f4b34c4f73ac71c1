"""Round-robin: every worker has the same share, whatever its speed (the baseline RR of ordered-regions §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.policy.ordered.balance import EvenSplit


@dataclass
class RoundRobin(EvenSplit):
    """An even split; the splitter waits for the connection that is next."""

    name: ClassVar[str] = "round-robin"
