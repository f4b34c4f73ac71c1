"""Whose latency matters more: weights by the names of operators."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBERED = re.compile(r"(.+)-[0-9]+")


def weight_of(qos: Mapping[str, float], region: str) -> float:
    """The weight of a region; the second use of a name, name-2, has that of the name. Who is not named has 1."""
    if region in qos:
        return qos[region]
    numbered = _NUMBERED.fullmatch(region)
    return qos.get(numbered[1], 1.0) if numbered else 1.0
