"""Balances as the command line names them, with defaults of the bench."""

from __future__ import annotations

from evenflow.policy import KeyedBalance, keyed_balance_named
from evenflow.policy.spelling import spelled


def keyed_choice(text: str, **defaults: float) -> KeyedBalance:
    """The balance of a keyed operator that a text names; parameters that it does not give are `defaults`."""
    name, given = spelled(text)
    return keyed_balance_named(name, **{**defaults, **given})
