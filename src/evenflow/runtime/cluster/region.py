"""One region of a running cluster, as its user asks for it by name."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from evenflow.control.events import QosAskedEvent
from evenflow.control.graphs.region import GraphRegion
from evenflow.control.regions.keyed import KeyedRegion
from evenflow.control.regions.region import Region
from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot, MoveUnits, Snapshot
from evenflow.model.given import number_of
from evenflow.model.qos import Qos, qos_of
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments.warned import warn_deprecated
from evenflow.runtime.cluster.lifecycle import Lifecycle
from evenflow.runtime.cluster.regions import Regions


class RegionHandle:
    """One region, from `Cluster.region`: its figures now, and what can be changed while rows flow.

    A region is ordered (`ordered_map`), keyed (`keyed`, `join`, `detect`, `first_story`) or that of a graph (`run`),
    and has one `name` for as long as the cluster lives.
    """

    def __init__(self, name: str, regions: Regions, life: Lifecycle) -> None:
        self.name = name
        self._regions, self._life, self._driver = regions, life, life.driver
        self._find()

    def __repr__(self) -> str:
        return f"<region {self.name}: {self.kind}>"

    @property
    def kind(self) -> str:
        """Its kind: "ordered", "keyed" or "graph"."""
        match self._find():
            case GraphRegion():
                return "graph"
            case KeyedRegion():
                return "keyed"
        return "ordered"

    def snapshot(self) -> Snapshot | KeyedSnapshot:
        """Its statistics now: a `Snapshot` of an ordered region, a `KeyedSnapshot` of a keyed one or a graph."""
        region = self._find()
        return self._driver.ask(lambda _: region.snapshot(self._driver.now()))

    def move(self, units: Sequence[int], target: int) -> None:
        """Ask for units of a keyed region or a graph to be moved to a worker; the event log tells whether they were."""
        self._life.check()
        region = self._find()
        if not isinstance(region, KeyedRegion):
            raise self._refused("it has no units that could move")
        if not region.balance.by_content:
            raise InvalidArgument(f"region {self.name} has balance {region.balance.name!r}: its rows go to any worker")
        owners = region.movements.table.owners
        units, target = amounts.check_move(units, target, len(owners), self._life.workers), int(target)
        for source in sorted({int(owners[unit]) for unit in units} - {target}):
            mine = tuple(unit for unit in units if owners[unit] == source)
            self._driver.move(MoveUnits(self.name, mine, source, target, "asked for"))

    def placement(self) -> dict[str, list[int]]:
        """Where the operators of a graph are now: by the operator's name, the workers that it is on."""
        graph = self._graph("have operators that are placed").graph
        return self._driver.ask(lambda _: graph.placed())

    def settled(self) -> bool:
        """Whether no task feeds a graph any more, and all its results are in the event log."""
        region = self._graph("tell when they have settled")
        return self._driver.ask(lambda _: region.settled)

    def set_qos(self, qos: float | Qos) -> None:
        """Give the region another weight among those that share the workers, while rows flow. For all kinds.

        A target of latency, and the column by which rows may be dropped, stay as `Cluster(qos=...)` has them: the tasks
        of the region are planned with them. The name keeps its weight for as long as the cluster lives.
        """
        self._life.check()
        region, planned = self._find(), qos_of(self._life.settings.targets, self.name)
        weight = qos.weight if isinstance(qos, Qos) else number_of(qos)
        if not 0 < weight < inf:
            raise InvalidArgument(f"qos={qos!r:.100}: give a weight above 0 (that of all others is 1), or a Qos")
        if isinstance(qos, Qos) and (qos.latency_ms, qos.shed) != (planned.latency_ms, planned.shed):
            raise InvalidArgument(
                f"qos={qos!r}: region {self.name} is planned with latency_ms={planned.latency_ms} and "
                f"shed={planned.shed!r}, and only its weight can change; give a new cluster Cluster(qos=...)"
            )
        self._driver.post(QosAskedEvent(self._driver.now(), region.name, weight))

    def _find(self) -> Region:
        return self._regions.find(self.name)

    def _graph(self, able: str) -> GraphRegion:
        region = self._find()
        if not isinstance(region, GraphRegion):
            raise self._refused(f"only graphs {able}")
        return region

    def _refused(self, why: str) -> InvalidArgument:
        kind = self.kind
        return InvalidArgument(f"region {self.name} is {'that of a graph' if kind == 'graph' else kind}: {why}")


class OldVerbs:
    """The verbs of `Cluster` that `RegionHandle` has now; they go with the next version."""

    def region(self, name: str) -> RegionHandle:
        """See `Cluster.region`."""
        raise NotImplementedError

    def snapshot(self, region: str) -> Snapshot:
        """Deprecated: `region(name).snapshot()`."""
        found = self._instead("snapshot", region).snapshot()
        if not isinstance(found, Snapshot):
            raise InvalidArgument(f"region {region} is keyed: ask cluster.region({region!r}).snapshot()")
        return found

    def keyed_snapshot(self, region: str) -> KeyedSnapshot:
        """Deprecated: `region(name).snapshot()`."""
        found = self._instead("keyed_snapshot", region, "snapshot").snapshot()
        if not isinstance(found, KeyedSnapshot):
            raise InvalidArgument(f"region {region} is ordered: ask cluster.region({region!r}).snapshot()")
        return found

    def placement(self, region: str) -> dict[str, list[int]]:
        """Deprecated: `region(name).placement()`."""
        return self._instead("placement", region).placement()

    def settled(self, region: str) -> bool:
        """Deprecated: `region(name).settled()`."""
        return self._instead("settled", region).settled()

    def move(self, region: str, units: Sequence[int], target: int) -> None:
        """Deprecated: `region(name).move(units, target)`."""
        self._instead("move", region).move(units, target)

    def _instead(self, old: str, region: str, new: str = "") -> RegionHandle:
        warn_deprecated(f"Cluster.{old}", f"give cluster.region({region!r}).{new or old}(...)")
        return self.region(region)
