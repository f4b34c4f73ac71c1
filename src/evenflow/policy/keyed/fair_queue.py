"""Fair queueing: which region's rows a worker serves next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenflow.model.graphs.weights import weight_of

KEPT = 100
"""Operators that are kept in mind without rows waiting; of more, those are forgotten that have no v ahead of others."""


class ServiceOrder:
    """Which operator a worker serves next: of those with rows waiting, the one with the least service for its weight.

    Start-time fair queueing. With s_r the seconds of service that operator r has had and w_r its weight, the next is
    the one with the least v_r = s_r / w_r. An operator whose rows start to wait anew gets at least the v of the
    operator that was served last: it does not save up time for which it had no rows. So while several operators have
    rows waiting, each gets its weight's share of the worker, one with few rows hardly waits, and none starves. This is
    what makes latency follow `qos`; the placement of units decides only how much there is to share. Ordered regions are
    operators here: so the others' load costs a region no more of a worker than their weights' share, on every worker
    alike, and the blocking, or the answers, that its balance goes by say what is left to it.

    The worker calls `choose` with the regions that have a frame waiting, serves one frame of the region chosen, then
    calls `charge` with the seconds that took.
    """

    def __init__(self, qos: Mapping[str, float] | None = None) -> None:
        self._qos = dict(qos or {})
        self._set: dict[str, float] = {}
        self._virtual: dict[str, float] = {}
        self._waited: frozenset[str] = frozenset()
        self._now = 0.0

    def choose(self, waiting: Iterable[str]) -> str:
        """The operator to serve; of several with the same v, the first by name."""
        names = frozenset(waiting)
        for name in names - self._waited:
            self._virtual[name] = max(self._virtual.get(name, 0.0), self._now)
        self._waited = names
        if len(self._virtual) > len(names) + KEPT:  # a query may open a region in each micro-batch
            self._virtual = {name: v for name, v in self._virtual.items() if name in names or v > self._now}
        chosen = min(names, key=lambda name: (self._virtual[name], name))
        self._now = self._virtual[chosen]
        return chosen

    def charge(self, region: str, seconds: float) -> None:
        """Add the seconds for which an operator was served."""
        weight = self._set.get(region) or weight_of(self._qos, region)
        self._virtual[region] = self._virtual.get(region, self._now) + seconds / weight

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Serve these operators by other weights than `qos` gives them; all others by those of `qos`."""
        self._set = dict(weights)
