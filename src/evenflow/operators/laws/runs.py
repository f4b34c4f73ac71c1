"""The results of one run of an operator on a sample, and whether two runs gave the same."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LawRun:
    """The result rows of a run, sorted by the input row they come from (`origin`); None if some batch did not tell."""

    rows: pa.Table
    origin: Places | None


def same_table(one: pa.Table, other: pa.Table) -> bool:
    """Whether tables are exactly equal. A quick test: if not, `same` may still find their rows equal."""
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    return all(_same_column(a, b) for a, b in zip(one.columns, other.columns, strict=True))


def _same_column(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(one.type):
        return bool(one.equals(other))
    a, b = one.to_numpy(), other.to_numpy()
    return bool(one.is_valid().equals(other.is_valid()) and np.array_equal(a, b, equal_nan=True))


def same(one: object, other: object) -> bool:
    """Whether two values are equal, floats to nine digits; NaN equals NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(part, other[name]) for name, part in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return value


def bag(rows: pa.Table) -> Counter[str]:
    """The rows as a multiset, floats rounded to six digits."""
    return Counter(repr(_rounded(row)) for row in rows.to_pylist())
