"""Frozen values that every other layer may import."""

from evenflow.model.moves import MoveUnits, SetWeights
from evenflow.model.routing import RoutingTable
from evenflow.model.statistics import (
    RESOLUTION,
    Connection,
    KeyedSnapshot,
    KeyedWorker,
    Performance,
    Snapshot,
    WorkerStatus,
)

__all__ = [
    "RESOLUTION",
    "Connection",
    "KeyedWorker",
    "KeyedSnapshot",
    "MoveUnits",
    "Performance",
    "RoutingTable",
    "SetWeights",
    "Snapshot",
    "WorkerStatus",
]
