"""Balances and placements as texts name them: a name, and parameters behind it (`flux:delta_min=0.01:th_imb=1.1`)."""

from __future__ import annotations

from evenflow.errors import InvalidArgument


def spelled(text: str) -> tuple[str, dict[str, float]]:
    """The name and the parameters that a text names."""
    name, *given = text.split(":")
    return name.strip(), dict(map(_parameter, given))


def _parameter(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise InvalidArgument(f"{text!r} is no parameter of a balance: write name=number, as in flux:delta_min=0.01")
