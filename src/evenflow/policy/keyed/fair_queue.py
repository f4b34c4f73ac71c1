"""Fair queueing: whose rows a worker serves next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenflow.model.weights import weight_of


class ServiceOrder:
    """Whose rows a worker serves next: of the operators with rows waiting, the one that had least for its weight.

    Start-time fair queueing. With s_r the seconds of service that operator r has had and w_r its weight, the next is
    the one with the least v_r = s_r / w_r. One that had nothing waiting comes back with the v of who was served last,
    if that is more: time not asked for is not saved up. So while several have rows waiting, each gets its weight's
    share of the worker, one with few rows hardly waits, and nobody starves. This is what makes latency follow `qos`;
    where units are decides only how much there is to share.

    The worker is to call `choose` with the regions that have a frame waiting, serve one frame of the region chosen,
    then `charge` what it took.
    """

    def __init__(self, qos: Mapping[str, float] | None = None) -> None:
        self._qos = dict(qos or {})
        self._virtual: dict[str, float] = {}
        self._waited: frozenset[str] = frozenset()
        self._now = 0.0

    def choose(self, waiting: Iterable[str]) -> str:
        """The operator to serve; of several with the same claim, the first by name."""
        names = frozenset(waiting)
        for name in names - self._waited:
            self._virtual[name] = max(self._virtual.get(name, 0.0), self._now)
        self._waited = names
        chosen = min(names, key=lambda name: (self._virtual[name], name))
        self._now = self._virtual[chosen]
        return chosen

    def charge(self, region: str, seconds: float) -> None:
        """The operator was served for so long."""
        self._virtual[region] = self._virtual.get(region, self._now) + seconds / weight_of(self._qos, region)
