"""Flux where memory is short: the memory-based policy of flux §6.2."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf
from typing import ClassVar

import numpy as np

from evenflow.model import KeyedSnapshot, KeyedWorker, MoveUnits
from evenflow.policy.keyed.flux.load import EQUAL, check_imbalance
from evenflow.policy.keyed.flux.rounds import Rounds
from evenflow.policy.keyed.owners import Floats


@dataclass
class FluxMemory(Rounds):
    """The rounds of §5.3, with memory in place of idle time; at most one unit moves in each pair of workers.

    Worker j may use M_j bytes and has S_j bytes of state, in memory and on disk, of all operators. Its excess capacity,
    which is below 0 when part of the state has to be on disk, is

        E_j = M_j - S_j

    Workers are sorted by rising E_j and paired from the ends toward the middle: a donor and a receiver. Pairs are
    looked at in turn, until one fails the test: E_d is below the mean and, unless E_d < 0, the utilisation of memory
    U_j = S_j / M_j differs enough, U_d / U_r is at least `th_imb`. There is no limit on what the receiver has already:
    where memory is exhausted everywhere, moves even out what is on disk. Of the donor's units, those in memory come
    first, since those on disk would have to be read and their pending input worked off; larger units come before
    smaller ones. The first that makes the difference smaller is moved:

        |E'_r - E'_d| < E_r - E_d          E'_d = E_d + s_p          E'_r = E_r - s_p

    §6.2 takes the test of §5.3, without the limit on the receiver's utilisation, and does not say what the ratio is one
    of. By its figures, a machine that lost half of its memory gave away about what it had had to write to disk, 7.9 s
    of transfers (§6.3), and not all up to an equal E_j, which would be twice as much; and nobody with state on disk
    stops while others have room (one unit on disk each with 16 such machines). A worker without a budget has E_j = inf:
    it never gives, and takes only from workers with E_d < 0. While sizes stay the same, moves come to an end, since
    each lowers the sum of E_j^2.
    """

    name: ClassVar[str] = "flux-memory"

    th_imb: float = 1.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_imbalance(self.th_imb)

    def _round(self, before: KeyedSnapshot, now: KeyedSnapshot) -> list[MoveUnits]:
        return balance_memory(now, self.th_imb)


def excess(snapshot: KeyedSnapshot) -> Floats:
    """E_j of each worker, in bytes; infinite where there is no budget."""
    return np.array(
        [c.memory - c.resident - c.spilled if c.memory > 0 else inf for c in snapshot.consumers], np.float64
    )


def balance_memory(now: KeyedSnapshot, th_imb: float) -> list[MoveUnits]:
    """The moves of one round."""
    free, workers = excess(now), [consumer.worker for consumer in now.consumers]
    mean = float(free.mean()) if len(free) else 0.0
    order = sorted(range(len(workers)), key=lambda j: (free[j], workers[j]))
    moves = []
    for donor, receiver in zip(order[: len(order) // 2], reversed(order), strict=False):
        if isinf(free[donor]) or free[donor] >= mean:
            break
        if free[donor] >= 0 and not _uneven(now.consumers[donor], now.consumers[receiver], th_imb):
            break
        apart = float(free[receiver] - free[donor])
        sizes = now.unit_bytes
        units = np.flatnonzero((now.table.owners == workers[donor]) & (sizes > 0) & (sizes < apart))
        if len(units):
            unit = int(units[np.lexsort((-sizes[units], ~now.unit_resident[units]))[0]])
            reason = f"excess capacity {_told(free[donor])} and {_told(free[receiver])}, mean {_told(mean)}"
            moves.append(MoveUnits(now.region, (unit,), workers[donor], workers[receiver], reason))
    return moves


def _uneven(donor: KeyedWorker, receiver: KeyedWorker, th_imb: float) -> bool:
    """Whether U_d >= th_imb U_r, without dividing; never if the receiver has no budget."""
    one, other = donor.resident + donor.spilled, receiver.resident + receiver.spilled
    return receiver.memory > 0 and one * receiver.memory >= th_imb * (1 - EQUAL) * other * donor.memory


def _told(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
