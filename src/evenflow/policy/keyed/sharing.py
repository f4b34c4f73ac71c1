"""Several keyed operators on the same workers: which of them may move units now, and what each sees of the others.

Flux §8 leaves "how these per-operator policies effect global performance in a dataflow with multiple Fluxen" and
policies for "user-specified quality-of-service" as future work. This is it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot, KeyedWorker, MoveUnits
from evenflow.model.given import number_of
from evenflow.model.graphs.weights import weight_of

ACTIVE_S = 3.0
"""An operator without a snapshot for so many seconds no longer counts."""
HALF_LIFE_S = 1.0
"""Half-life of a report in the share of a worker that an operator uses."""
REST_S = 1.0
"""Seconds for which an operator that has moved units leaves decisions to others of equal weight."""
LONGEST_REST_S = 4.0
LEAST = 0.1
"""Share of a worker that an operator can always count on: the others give way when its rows come."""


@dataclass(slots=True)
class _Operator:
    """What is known of one operator."""

    last: KeyedSnapshot
    used: dict[int, float] = field(default_factory=dict)
    """By worker, the share of the worker's time that the operator uses."""
    busy: dict[int, float] = field(default_factory=dict)
    """By worker, the busy seconds that the operator's balance is shown."""
    moving: int = 0
    rests: float = -inf
    """The time until which it leaves decisions to others."""


class Sharing:
    """Stands between the snapshots of all keyed operators of a cluster and their balances.

    **One at a time.** While units of one operator are under way, the others see `moving` > 0: every balance then waits,
    and measures anew afterwards. So no two operators fill the same idle worker, and each decides on the result of the
    others' last decisions. An operator that has moved units is not asked again for a while: 1 s times the ratio of the
    largest weight of the others to its own, at most 4 s. So one that always finds something to move starves no other.

    **Each sees the others.** With u_oj the share of worker j's time that operator o uses and w its weight, a row of
    operator r that takes c_j seconds of service keeps r back for longer, because r does not have all of worker j:

        c'_j = c_j / a_j          a_j = max(0.1, 1 - sum over o of u_oj * min(1, w_o / w_r))

    So every difference of `busy_s` is divided by a_j before a balance sees it. An operator makes room for others of at
    least its own weight as much as they use; for one of less weight it makes less room, since that one will make room
    for it. Memory needs nothing of this kind: `KeyedWorker.resident` and `spilled` count all operators.

    Control has one `Sharing` for all keyed regions, and calls it like this:

        shown = sharing.view(region.snapshot(time))
        moves = [] if shown is None else region.balance.decide(shown)
        sharing.begin(region.name, moves)

    and `forget(name)` when a region is closed. A region without feeders is not asked, so it is not viewed either, and
    no longer counts 3 s later. A single operator is always shown what was measured. The keys of `qos` are names of
    regions; a region that is not named has weight 1, and further uses of a name ("name-2") the weight of the first.
    """

    def __init__(self, qos: Mapping[str, float] | None = None) -> None:
        self.qos = dict(qos or {})
        for name, weight in self.qos.items():
            if not 0 < number_of(weight) < inf:
                raise InvalidArgument(f"qos of {name!r} is {weight!r}: give a weight above 0; 1 is that of all others")
        self.asked: dict[str, float] = {}
        """By region, the weight that the user gave it while rows flowed: the name keeps it while the cluster lives."""
        self.boosts: dict[str, float] = {}
        """By region that gets more than its weight, since it misses its target: how many times as much."""
        self._operators: dict[str, _Operator] = {}

    def view(self, snapshot: KeyedSnapshot) -> KeyedSnapshot | None:
        """The snapshot as its operator's balance is to see it; None if the balance is not to be asked now."""
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
            rested = True  # so that its balance sees that the moves have ended
        me.moving = snapshot.moving
        if not rested and not snapshot.moving:
            return None
        consumers = tuple(replace(c, busy_s=me.busy[c.worker]) for c in snapshot.consumers)
        return replace(snapshot, consumers=consumers, moving=me.moving + sum(o.moving for o in others.values()))

    def begin(self, region: str, moves: Iterable[MoveUnits]) -> None:
        """Note that these moves of an operator begin; the others see it at once."""
        if region in self._operators:
            self._operators[region].moving += sum(len(move.units) for move in moves)

    def forget(self, region: str) -> None:
        """Forget an operator whose region is closed."""
        self.boosts.pop(region, None)
        self._operators.pop(region, None)

    def weight(self, region: str) -> float:
        """How much the operator's latency matters."""
        return (self.asked.get(region) or weight_of(self.qos, region)) * self.boosts.get(region, 1.0)

    def _rest(self, region: str, others: Iterable[str]) -> float:
        """Seconds for which an operator that has just moved leaves decisions to the others."""
        heaviest = max((self.weight(name) for name in others), default=0.0)
        return min(REST_S * heaviest / self.weight(region), LONGEST_REST_S)

    def _measure(self, me: _Operator, now: KeyedSnapshot, others: Mapping[str, _Operator]) -> None:
        """Add to an operator's use of each worker, and to the busy seconds that its balance is shown."""
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
        """a_j of the operator on one worker."""
        mine = self.weight(region)
        taken = sum(other.used.get(worker, 0.0) * min(1.0, self.weight(name) / mine) for name, other in others.items())
        return max(LEAST, 1 - taken)


def _step(before: KeyedWorker | None, now: KeyedWorker) -> tuple[float, float] | None:
    """Seconds covered and busy seconds since the report before; None for another incarnation, or if counted anew."""
    if before is None or before.incarnation != now.incarnation or now.busy_s < before.busy_s:
        return None
    return max(0.0, now.seconds - before.seconds), now.busy_s - before.busy_s
