"""Flux's hybrid of memory and load: flux §6.4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.flux.load import balance_load, check_thresholds
from evenflow.policy.keyed.flux.memory import balance_memory, excess
from evenflow.policy.keyed.flux.rounds import Rounds


@dataclass
class FluxHybrid(Rounds):
    """Balance memory while any worker has state on disk, otherwise load; the rounds are those of §5.3.

    If any worker has state on disk, a round is one of `FluxMemory` (§6.2), "to avoid high average latencies". If all
    state is in memory it is one of `Flux` (§5.3), "subject to the constraint that a partition is moved only if
    sufficient memory exists at the destination": units with s_p > E_r are passed over.

    `th_imb` is the least ratio of two utilisations, of memory or of time. When the state does not fit into the memory
    of all workers together, only memory is balanced, as in the paper.
    """

    name: ClassVar[str] = "flux-hybrid"

    th_imb: float = 1.2
    th_util: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thresholds(self.th_imb, self.th_util)

    def _round(self, before: KeyedSnapshot, now: KeyedSnapshot) -> list[MoveUnits]:
        if any(consumer.spilled > 0 for consumer in now.consumers):
            return balance_memory(now, self.th_imb)
        return balance_load(before, now, self.th_imb, self.th_util, excess(now))
