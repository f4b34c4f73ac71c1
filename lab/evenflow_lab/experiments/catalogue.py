"""All experiments, and how a user names them: by claim, by name, or by group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from evenflow.errors import InvalidArgument, nearest
from evenflow_lab.experiments.base import Experiment

GROUPS: dict[str, tuple[str, ...]] = {
    "O": ("ordered.depth", "ordered.halves", "ordered.classes"),
    "F": ("flux.skew", "flux.load", "flux.memory", "flux.hybrid"),
    "C": ("cep.claims",),
    "P": ("potential.energy", "potential.weights", "potential.limits", "potential.xzh"),
}
"""By group, the modules with its experiments (`EXPERIMENTS`), imported on first use."""


@cache
def experiments() -> tuple[Experiment, ...]:
    """Every experiment, in the order of the papers."""
    modules = (import_module(f"{__package__}.{name}") for names in GROUPS.values() for name in names)
    return tuple(each for module in modules for each in module.EXPERIMENTS)


def _names(each: Experiment) -> set[str]:
    """All names of an experiment."""
    ids = {name for claim in each.claims for name in (claim.id, claim.id.partition("-")[0], *_figures(claim.id))}
    return {each.name, *each.aspects} | ids


def _figures(claim: str) -> set[str]:
    """The names of a claim about several figures by one of them: F-f13 and F-f14 of F-f13/14."""
    first, *more = claim.split("/")
    return {first, *(re.sub(r"\d+$", number, first) for number in more)}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments with these claims (`F-f7`), names (`flux-reaction`) or groups (`F`); all for no name."""
    names = list(names)
    wanted = {name.lower() for name in names}
    called = [(each, _names(each)) for each in experiments()]
    known = {name for _, own in called for name in own}
    lower = {name.lower() for name in known}
    for name in names:
        if name.lower() not in lower:
            raise InvalidArgument(f"there is no claim or experiment {name!r}; {nearest(name, known)}")
    return [each for each, own in called if not wanted or wanted & {name.lower() for name in own}]
