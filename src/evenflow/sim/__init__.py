"""A discrete-event simulator: the real controller and balances on a virtual clock, over a compiled data plane.

The names below are public, and are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.sim.graphs.model import (
        SimulatedGraph,
        SimulatedHost,
        SimulatedLink,
        SimulatedOperator,
        SimulatedSource,
    )
    from evenflow.sim.keyed.setup import ExternalLoad, KeyedSetup, KeyPhase, MemoryStep, SpeedStep
    from evenflow.sim.ordered.scene import OrderedScene, WorkerLoad
    from evenflow.sim.recorded import recorded_scenario
    from evenflow.sim.runs import SimulatedRun, simulate
    from evenflow.sim.scenario import Scenario, SlowWorkers

_HOMES = {
    "ExternalLoad": "keyed.setup",
    "KeyPhase": "keyed.setup",
    "KeyedSetup": "keyed.setup",
    "MemoryStep": "keyed.setup",
    "OrderedScene": "ordered.scene",
    "Scenario": "scenario",
    "SimulatedGraph": "graphs.model",
    "SimulatedHost": "graphs.model",
    "SimulatedLink": "graphs.model",
    "SimulatedOperator": "graphs.model",
    "SimulatedRun": "runs",
    "SimulatedSource": "graphs.model",
    "SlowWorkers": "scenario",
    "SpeedStep": "keyed.setup",
    "WorkerLoad": "ordered.scene",
    "recorded_scenario": "recorded",
    "simulate": "runs",
}

__all__ = [
    "ExternalLoad",
    "KeyPhase",
    "KeyedSetup",
    "MemoryStep",
    "OrderedScene",
    "Scenario",
    "SimulatedGraph",
    "SimulatedHost",
    "SimulatedLink",
    "SimulatedOperator",
    "SimulatedRun",
    "SimulatedSource",
    "SlowWorkers",
    "SpeedStep",
    "WorkerLoad",
    "recorded_scenario",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenflow.sim' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
