"""The parts of a running cluster that its verbs use."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenflow.model.qos import Qos, qos_of
from evenflow.runtime.cluster.arguments.qos import Named
from evenflow.runtime.cluster.regions import Regions
from evenflow.runtime.cluster.spark.slots import slot_count
from evenflow.runtime.wire.settings import Settings


@dataclass(frozen=True)
class RunningCluster:
    """A running cluster, as calls of its verbs see it."""

    spark: SparkSession
    context: SparkContext
    workers: int
    settings: Settings
    regions: Regions
    named: Named

    @property
    def stores(self) -> bool:
        """Whether it has a checkpoint."""
        return bool(self.settings.checkpoint)

    @property
    def shares(self) -> int:
        """In how many tasks results of ordered rows come back: no more than have a slot."""
        return max(1, min(self.workers, slot_count(self.context) - self.workers))

    def qos(self, name: str) -> Qos:
        """The target that a region of this name is to keep."""
        return qos_of(self.settings.targets, name)
