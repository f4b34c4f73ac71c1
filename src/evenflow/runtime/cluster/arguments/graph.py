"""Arguments of `Cluster.run`, checked: a wrong one gives one clear error that names the value and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of, whole_of
from evenflow.policy import Placement, placement_named


class KnownOfWorkers(NamedTuple):
    """Facts about workers and their links from the user, for the placement of a graph."""

    quotas: Mapping[int, float]
    coefficients: Mapping[int, float]
    links: Mapping[tuple[int, int], tuple[float, float]]


def known_of_workers(workers: int, quota: Any, coefficients: Any, links: Any) -> KnownOfWorkers:
    """The quotas, coefficients and links of workers, checked."""
    for what, given in (("quota", quota), ("coefficients", coefficients), ("links", links)):
        if not isinstance(given, Mapping | None):
            of = "(from, to): (delay in ms, bytes a second)" if what == "links" else "worker: number"
            raise InvalidArgument(f"{what}={given!r:.100}: give {{{of}}}")
    found = KnownOfWorkers(dict(quota or {}), dict(coefficients or {}), dict(links or {}))
    for what, given in (("quota", found.quotas), ("coefficients", found.coefficients)):
        for worker, value in given.items():
            if not 0 <= whole_of(worker) < workers:
                raise InvalidArgument(f"{what} names worker {worker!r}: there are workers 0 to {workers - 1}")
            most = 1.0 if what == "quota" else sys.float_info.max
            if not 0 < number_of(value) <= most:
                much = "above 0, at most 1" if what == "quota" else "above 0"
                raise InvalidArgument(f"{what} of worker {worker} is {value!r}: give a number {much}")
    for pair, link in found.links.items():
        ids = [whole_of(worker) for worker in pair] if isinstance(pair, tuple) else []
        if len(set(ids)) != 2 or len(ids) != 2 or not all(0 <= worker < workers for worker in ids):
            raise InvalidArgument(
                f"links names {pair!r}: give pairs of two workers from 0 to {workers - 1}, (from, to)"
            )
        numbers = [number_of(one) for one in link] if isinstance(link, tuple | list) else []
        if len(numbers) != 2 or not 0 <= numbers[0] < inf or not numbers[1] > 0:
            raise InvalidArgument(f"links of {pair} is {link!r}: give (delay in ms, bytes a second)")
    return KnownOfWorkers(
        {whole_of(worker): number_of(value) for worker, value in found.quotas.items()},
        {whole_of(worker): number_of(value) for worker, value in found.coefficients.items()},
        {
            (whole_of(one), whole_of(other)): (number_of(delay), number_of(width))
            for (one, other), (delay, width) in found.links.items()
        },
    )


WARMED = ("greedy", "dp", "xzh", "caps")
"""Placements that begin with a random one, until loads have been measured (potential-driven §4.1)."""


def placement_of(placement: Any, options: dict[str, Any]) -> tuple[Placement, Placement | None]:
    """A placement by its name and options, or as it is given; and the one that it begins with, if it has one."""
    if isinstance(placement, str):
        return placement_named(placement, **options), placement_named("random") if placement in WARMED else None
    if options:
        raise InvalidArgument(f"options {sorted(options)} go with the name of a placement, not with an object")
    if not isinstance(placement, Placement):
        raise InvalidArgument(
            f"placement={placement!r:.100}: give a name, or an object from evenflow.policy, or of a class of your own "
            "that derives from evenflow.policy.Placement"
        )
    return placement, placement_named("random") if placement.name in WARMED else None
