"""Weights of operators (`qos`), by name: the larger, the more an operator's latency matters."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBERED = re.compile(r"(.+)-[0-9]+")


def weight_of(qos: Mapping[str, float], region: str) -> float:
    """The weight of a region; 1 if it is not named. The second use of a name, name-2, has the weight of the name."""
    if region in qos:
        return qos[region]
    numbered = _NUMBERED.fullmatch(region)
    return qos.get(numbered[1], 1.0) if numbered else 1.0
