"""Weights of operators (`qos`), by name: the larger, the more an operator's latency matters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

_NUMBERED = re.compile(r"(.+)-[0-9]+")
Given = TypeVar("Given")


def weight_of(qos: Mapping[str, float], region: str) -> float:
    """The weight of a region; 1 if it is not named. The second use of a name, name-2, has the weight of the name."""
    found = entry_of(qos, region)
    return 1.0 if found is None else found


def entry_of(qos: Mapping[str, Given], region: str) -> Given | None:
    """What is given for a region, or for the name that it is a further use of; None if nothing is."""
    return qos[region] if region in qos else qos.get(given_name(region))


def given_name(region: str) -> str:
    """The name that a region was given: of a further use of a name, such as name-2, the name itself."""
    numbered = _NUMBERED.fullmatch(region)
    return numbered[1] if numbered else region
