"""How much memory a value takes: for the state of operators that do not say."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

SAMPLE = 256
"""Of larger containers only this many elements are measured; the others are taken to be like them."""
DEPTH = 8


def bytes_of(value: Any, depth: int = DEPTH) -> int:
    """Approximate bytes of a value and all it refers to; what is referred to twice counts twice."""
    if value is None or isinstance(value, bool | type):
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + 112
    own = getattr(value, "nbytes", None)
    if isinstance(own, int):
        return own + 64
    size = sys.getsizeof(value)
    if depth == 0 or isinstance(value, str | bytes | bytearray | int | float):
        return size
    if isinstance(value, dict):
        return size + _sampled(value.keys(), depth) + _sampled(value.values(), depth)
    if isinstance(value, list | tuple | set | frozenset) or hasattr(value, "maxlen"):  # a deque
        return size + _sampled(value, depth)
    slots = getattr(type(value), "__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        size += bytes_of(getattr(value, name, None), depth - 1)
    return size + (bytes_of(vars(value), depth - 1) if hasattr(value, "__dict__") else 0)


def _sampled(values: Iterable[Any], depth: int) -> int:
    count = len(values)  # type: ignore[arg-type]
    seen = [bytes_of(each, depth - 1) for each in islice(values, SAMPLE)]
    return sum(seen) if len(seen) == count else sum(seen) * count // max(1, len(seen))
