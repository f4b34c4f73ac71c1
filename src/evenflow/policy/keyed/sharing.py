"""Several keyed operators on the same workers: whose turn it is to move, and what each sees of the others.

Flux §8 leaves "how these per-operator policies effect global performance in a dataflow with multiple Fluxen" and
policies for "user-specified quality-of-service" as future work. This is it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from evenflow.errors import InvalidArgument
from evenflow.model import Consumer, KeyedSnapshot, MoveUnits
from evenflow.model.weights import weight_of

ACTIVE_S = 3.0
"""An operator that was not shown for so long does nothing any more."""
HALF_LIFE_S = 1.0
"""Reports this old count half in what an operator is taken to use."""
REST_S = 1.0
"""Seconds in which an operator that has moved leaves the next decision to others of equal weight."""
LONGEST_REST_S = 4.0
LEAST = 0.1
"""Share of a worker that an operator may always count on: the others give way as it comes."""


@dataclass(slots=True)
class _Operator:
    """What is known of one operator."""

    last: KeyedSnapshot
    used: dict[int, float] = field(default_factory=dict)
    """Share of each worker's time that it uses."""
    busy: dict[int, float] = field(default_factory=dict)
    """Its busy seconds as its balance is shown them, by worker."""
    moving: int = 0
    rests: float = -inf
    """Until when it leaves decisions to others."""


class Sharing:
    """Stands between the snapshots of all keyed operators of a cluster and their balances.

    **One at a time.** While units of one operator are under way, the others see `moving` > 0: every balance then waits,
    and measures anew afterwards. So no two of them fill the same idle worker, and each decides on what the last
    decision of the others has led to. Whoever has moved is not asked again for a while, 1 s times the ratio of the
    largest weight of the others to its own, at most 4 s: one that always finds something to move starves nobody.

    **Each sees the others.** With u_oj the share of worker j's time that operator o uses and w its weight, a row of
    operator r that takes c_j seconds there keeps r back for longer, for j is not all r's own:

        c'_j = c_j / a_j          a_j = max(0.1, 1 - sum over o of u_oj * min(1, w_o / w_r))

    so `busy_s` is shown with every difference divided by a_j. An operator evades others of at least its own weight as
    much as they use; one of less weight it evades less, since that one will evade it. Memory needs nothing of the kind:
    `Consumer.resident` and `spilled` are of all operators.

    How control is to call it, one `Sharing` for all keyed regions, where a region's balance is asked now:

        shown = sharing.view(region.snapshot(time))
        moves = [] if shown is None else region.balance.decide(shown)
        sharing.begin(region.name, moves)

    and `forget(name)` when a region is closed. A region that nobody feeds is not asked, so not viewed, and counts for
    nothing 3 s later. A single operator is shown what was measured, always. The keys of `qos` are names of regions;
    whoever is not named weighs 1, and further uses of a name ("name-2") as much as the first.
    """

    def __init__(self, qos: Mapping[str, float] | None = None) -> None:
        self.qos = dict(qos or {})
        for name, weight in self.qos.items():
            if not 0 < weight < inf:
                raise InvalidArgument(f"qos of {name!r} is {weight}: give a weight above 0; 1 is that of all others")
        self._operators: dict[str, _Operator] = {}

    def view(self, snapshot: KeyedSnapshot) -> KeyedSnapshot | None:
        """The snapshot as its operator's balance is to see it; None if that is not to be asked now."""
        me = self._operators.setdefault(snapshot.region, _Operator(snapshot))
        others = {
            name: other
            for name, other in self._operators.items()
            if other is not me and snapshot.time - other.last.time < ACTIVE_S
        }
        self._measure(me, snapshot, others)
        rested = snapshot.time >= me.rests
        if me.moving and not snapshot.moving:
            me.rests = snapshot.time + self._rest(snapshot.region, others)
            rested = True  # its balance is to see that the moves have ended
        me.moving = snapshot.moving
        if not rested and not snapshot.moving:
            return None
        consumers = tuple(replace(c, busy_s=me.busy[c.worker]) for c in snapshot.consumers)
        return replace(snapshot, consumers=consumers, moving=me.moving + sum(o.moving for o in others.values()))

    def begin(self, region: str, moves: Iterable[MoveUnits]) -> None:
        """These moves of the operator's begin now; the others see it at once."""
        if region in self._operators:
            self._operators[region].moving += sum(len(move.units) for move in moves)

    def forget(self, region: str) -> None:
        """The operator is no more."""
        self._operators.pop(region, None)

    def weight(self, region: str) -> float:
        """How much the operator's latency matters."""
        return weight_of(self.qos, region)

    def _rest(self, region: str, others: Iterable[str]) -> float:
        heaviest = max((self.weight(name) for name in others), default=0.0)
        return min(REST_S * heaviest / self.weight(region), LONGEST_REST_S)

    def _measure(self, me: _Operator, now: KeyedSnapshot, others: Mapping[str, _Operator]) -> None:
        before = {consumer.worker: consumer for consumer in me.last.consumers}
        me.used = {c.worker: me.used.get(c.worker, 0.0) for c in now.consumers}
        busy = {}
        for consumer in now.consumers:
            worker = consumer.worker
            step = _step(before.get(worker), consumer)
            if step is None or worker not in me.busy:
                busy[worker] = consumer.busy_s
                continue
            seconds, worked = step
            busy[worker] = me.busy[worker] + worked / self._available(now.region, worker, others)
            if seconds > 0:
                kept = 0.5 ** (seconds / HALF_LIFE_S)
                me.used[worker] = kept * me.used[worker] + (1 - kept) * min(1.0, worked / seconds)
        me.busy, me.last = busy, now

    def _available(self, region: str, worker: int, others: Mapping[str, _Operator]) -> float:
        """a_j of the operator."""
        mine = self.weight(region)
        taken = sum(other.used.get(worker, 0.0) * min(1.0, self.weight(name) / mine) for name, other in others.items())
        return max(LEAST, 1 - taken)


def _step(before: Consumer | None, now: Consumer) -> tuple[float, float] | None:
    """Seconds covered and busy since the report before; None if it is not the same worker's, or was counted anew."""
    if before is None or before.incarnation != now.incarnation or now.busy_s < before.busy_s:
        return None
    return max(0.0, now.seconds - before.seconds), now.busy_s - before.busy_s
