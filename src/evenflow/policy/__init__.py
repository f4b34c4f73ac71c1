"""Pure decisions, one file a policy, by name."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.errors import InvalidArgument
from evenflow.policy.balance import Balance
from evenflow.policy.credits import Credits
from evenflow.policy.round_robin import RoundRobin

BALANCES: dict[str, Callable[[], Balance]] = {
    Credits.name: Credits,
    RoundRobin.name: RoundRobin,
}
"""The balances of an ordered region that need no parameters, by name."""


def balance_named(name: str) -> Balance:
    """A new balance of that name, with its defaults."""
    if name not in BALANCES:
        raise InvalidArgument(f"there is no balance {name!r}: choose one of {', '.join(sorted(BALANCES))}")
    return BALANCES[name]()


__all__ = ["BALANCES", "Balance", "Credits", "RoundRobin", "balance_named"]
