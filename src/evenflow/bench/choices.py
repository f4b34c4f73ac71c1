"""Balances as the command line names them: a name, and parameters behind it (`flux:delta_min=0.01:th_imb=1.1`)."""

from __future__ import annotations

from evenflow.errors import InvalidArgument
from evenflow.policy import KeyedBalance, keyed_balance_named


def keyed_choice(text: str, **defaults: float) -> KeyedBalance:
    """The balance of a keyed operator that a text names; parameters that it does not give are `defaults`."""
    name, *given = text.split(":")
    return keyed_balance_named(name, **{**defaults, **dict(map(_parameter, given))})


def _parameter(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise InvalidArgument(f"{text!r} is no parameter of a balance: write name=number, as in flux:delta_min=0.01")
