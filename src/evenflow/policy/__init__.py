"""Pure decisions, one file a policy, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from evenflow.errors import InvalidArgument
from evenflow.policy.auto import Auto
from evenflow.policy.balance import Balance
from evenflow.policy.blocking_rate import BlockingRate
from evenflow.policy.credits import Credits
from evenflow.policy.dlb import DlbH, DlbL
from evenflow.policy.flux import Flux
from evenflow.policy.flux_auto import FluxAuto
from evenflow.policy.flux_hybrid import FluxHybrid
from evenflow.policy.flux_memory import FluxMemory
from evenflow.policy.hash_units import Hash
from evenflow.policy.keyed import KeyedBalance
from evenflow.policy.kg import KeyGrouping
from evenflow.policy.lptf import Lptf
from evenflow.policy.oracle import Oracle
from evenflow.policy.pkg import PartialKeyGrouping
from evenflow.policy.reroute import Reroute
from evenflow.policy.river import River
from evenflow.policy.round_robin import RoundRobin
from evenflow.policy.static import StaticWeights

T = TypeVar("T")

BALANCES: dict[str, type[Balance]] = {
    balance.name: balance for balance in (BlockingRate, Credits, Oracle, Reroute, RoundRobin, StaticWeights)
}
"""The balances of an ordered region, by name."""
KEYED_BALANCES: dict[str, type[KeyedBalance]] = {
    balance.name: balance
    for balance in (
        Auto,
        DlbH,
        DlbL,
        Flux,
        FluxAuto,
        FluxHybrid,
        FluxMemory,
        Hash,
        KeyGrouping,
        Lptf,
        PartialKeyGrouping,
        River,
    )
}
"""The balances of a keyed operator, by name."""


def balance_named(name: str, **options: Any) -> Balance:
    """A new balance for an ordered region; `options` are its parameters."""
    return _named(BALANCES, name, options)


def keyed_balance_named(name: str, **options: Any) -> KeyedBalance:
    """A new balance for a keyed operator; `options` are its parameters."""
    return _named(KEYED_BALANCES, name, options)


def _named(choice: Mapping[str, Callable[..., T]], name: str, options: dict[str, Any]) -> T:
    if name not in choice:
        raise InvalidArgument(f"there is no balance {name!r}: choose one of {', '.join(sorted(choice))}")
    parameters = inspect.signature(choice[name]).parameters
    unknown = sorted(set(options) - set(parameters))
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.name not in options]
    if unknown or needed:
        takes = ", ".join(parameters) or "no parameters"
        problem = f"does not take {', '.join(unknown)}" if unknown else f"needs {', '.join(needed)}"
        raise InvalidArgument(f"balance {name!r} {problem}; it takes {takes}")
    return choice[name](**options)


__all__ = [
    "BALANCES",
    "KEYED_BALANCES",
    "Auto",
    "Balance",
    "BlockingRate",
    "Credits",
    "DlbH",
    "DlbL",
    "Flux",
    "FluxAuto",
    "FluxHybrid",
    "FluxMemory",
    "Hash",
    "KeyGrouping",
    "KeyedBalance",
    "Lptf",
    "Oracle",
    "PartialKeyGrouping",
    "Reroute",
    "River",
    "RoundRobin",
    "StaticWeights",
    "balance_named",
    "keyed_balance_named",
]
