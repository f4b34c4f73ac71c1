"""Pure decisions, one file a policy, by name."""

from __future__ import annotations

import inspect
from typing import Any

from evenflow.errors import InvalidArgument
from evenflow.policy.balance import Balance
from evenflow.policy.blocking_rate import BlockingRate
from evenflow.policy.credits import Credits
from evenflow.policy.oracle import Oracle
from evenflow.policy.reroute import Reroute
from evenflow.policy.round_robin import RoundRobin
from evenflow.policy.static import StaticWeights

BALANCES: dict[str, type[Balance]] = {
    balance.name: balance for balance in (BlockingRate, Credits, Oracle, Reroute, RoundRobin, StaticWeights)
}
"""The balances of an ordered region, by name."""


def balance_named(name: str, **options: Any) -> Balance:
    """A new balance of that name; `options` are its parameters."""
    if name not in BALANCES:
        raise InvalidArgument(f"there is no balance {name!r}: choose one of {', '.join(sorted(BALANCES))}")
    parameters = inspect.signature(BALANCES[name]).parameters
    unknown = sorted(set(options) - set(parameters))
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.name not in options]
    if unknown or needed:
        takes = ", ".join(parameters) or "no parameters"
        problem = f"does not take {', '.join(unknown)}" if unknown else f"needs {', '.join(needed)}"
        raise InvalidArgument(f"balance {name!r} {problem}; it takes {takes}")
    return BALANCES[name](**options)


__all__ = [
    "BALANCES",
    "Balance",
    "BlockingRate",
    "Credits",
    "Oracle",
    "Reroute",
    "RoundRobin",
    "StaticWeights",
    "balance_named",
]
