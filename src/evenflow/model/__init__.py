"""Frozen values that every other layer may import."""

from evenflow.model.moves import SetWeights
from evenflow.model.statistics import RESOLUTION, Connection, Snapshot, WorkerStatus

__all__ = ["RESOLUTION", "Connection", "SetWeights", "Snapshot", "WorkerStatus"]
