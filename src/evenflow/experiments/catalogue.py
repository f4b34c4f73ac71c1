"""All experiments, and how a user names them: by claim, by name, or by group."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from evenflow.errors import InvalidArgument, nearest
from evenflow.experiments.base import Experiment

GROUPS: dict[str, tuple[str, ...]] = {
    "O": ("ordered_depth", "ordered_halves", "ordered_classes"),
    "F": ("flux_skew", "flux_load", "flux_memory"),
    "C": ("cep_claims",),
    "P": ("potential_energy", "potential_weights", "potential_limits", "potential_xzh"),
}
"""By group, the modules that have its experiments (`EXPERIMENTS`); imported when somebody asks."""


@cache
def experiments() -> tuple[Experiment, ...]:
    """Every experiment, in the order of the papers."""
    modules = (import_module(f"{__package__}.{name}") for names in GROUPS.values() for name in names)
    return tuple(each for module in modules for each in module.EXPERIMENTS)


def _names(each: Experiment) -> set[str]:
    """Everything that an experiment is called."""
    own = {each.name, *(claim.id for claim in each.claims), *each.aspects}
    return {name.lower() for name in own} | {claim.id.partition("-")[0].lower() for claim in each.claims}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments that are meant: by claims (`F-f7`), names (`flux-figure-7`) or groups (`F`); all by nothing."""
    wanted = [name.lower() for name in names]
    known = {name for each in experiments() for name in _names(each)}
    for name in wanted:
        if name not in known:
            raise InvalidArgument(f"there is no claim or experiment {name!r}; {nearest(name, known)}")
    return [each for each in experiments() if not wanted or _names(each) & set(wanted)]
