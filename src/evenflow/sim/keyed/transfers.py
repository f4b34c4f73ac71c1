"""State on its way from worker to worker: transfers share the network, each link has a limit of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

LEFT = 1e-3
"""Bytes that are no longer worth a wait: rounding."""
EPSILON = 1e-15
"""The part of a time by which the clock can no longer advance: on a fast link even more than LEFT takes less."""


@dataclass(slots=True)
class StateTransfer:
    """Bytes of one movement that are not there yet."""

    move: int
    source: int
    target: int
    left: float


class StateTransfers:
    """All transfers that are under way; rates are bytes a second.

    Each gets the same part of the network, but no more than a link has; transfers over one link share that.
    """

    def __init__(self, link: float, network: float) -> None:
        self._link, self._network = link, network
        self._under_way: dict[int, StateTransfer] = {}
        self._now = 0.0

    def begin(self, now: float, transfer: StateTransfer) -> None:
        """Begin one."""
        self._advance(now)
        self._under_way[transfer.move] = transfer

    def cancel(self, now: float, move: int) -> None:
        """Stop one, if it is under way."""
        self._advance(now)
        self._under_way.pop(move, None)

    def done(self, now: float) -> list[StateTransfer]:
        """Those that are complete by now, in the order of their movements; they are under way no longer."""
        self._advance(now)
        rates, least = self._rates(), now * EPSILON
        found = [each for _, each in sorted(self._under_way.items()) if each.left <= max(LEFT, rates(each) * least)]
        for each in found:
            del self._under_way[each.move]
        return found

    def next_end(self) -> float:
        """When the next one will be complete, if none begins before."""
        rates = self._rates()
        return min((self._now + each.left / rates(each) for each in self._under_way.values()), default=inf)

    def _advance(self, now: float) -> None:
        rates = self._rates()
        for each in self._under_way.values():
            each.left = max(0.0, each.left - (now - self._now) * rates(each))
        self._now = now

    def _rates(self) -> Callable[[StateTransfer], float]:
        pairs = [(each.source, each.target) for each in self._under_way.values()]
        share = self._network / max(1, len(pairs))
        return lambda each: min(share, self._link / pairs.count((each.source, each.target)))
