"""Whether rows are those that should be there: as a multiset, with their types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql.types import StructType

SHOWN = 4
Row = Sequence[Any]


def schema_difference(got: StructType, want: StructType) -> str:
    """How two schemas differ in names and types, collations included; nothing if they do not."""
    mine, theirs = ([f"{field.name} {field.dataType.simpleString()}" for field in kind.fields] for kind in (got, want))
    if mine == theirs:
        return ""
    odd = [f"{one} instead of {other}" for one, other in zip(mine, theirs, strict=False) if one != other]
    return f"schema: {'; '.join(odd) or f'{mine} instead of {theirs}'}"


def difference(got: Iterable[Row], want: Iterable[Row], given: Sequence[bool], partial: bool = False) -> str:
    """How two multisets of rows differ; nothing if they do not, or if `partial` and `got` is a part of `want`.

    Values in columns that are `given` came with the input, and must be the same to the bit. Computed doubles may differ
    in the last digits, and by the sign of zero.
    """
    want = list(want)
    waiting: dict[tuple[str, ...], list[Row]] = {}
    for row in want:
        waiting.setdefault(_exact(row, given), []).append(row)
    added, count = [], 0
    for row in got:
        count += 1
        candidates = waiting.get(_exact(row, given), [])
        place = next((place for place, other in enumerate(candidates) if _alike(row, other)), None)
        if place is None:
            added.append(row)
        else:
            candidates.pop(place)
    missing = [] if partial else [row for rows in waiting.values() for row in rows]
    if not added and not missing:
        return ""
    return "\n".join(
        (
            f"{count} rows instead of {len(want)}: {len(missing)} are missing, {len(added)} should not be there",
            *(f"  missing    {_shown(row)}" for row in sorted(missing, key=repr)[:SHOWN]),
            *(f"  not there  {_shown(row)}" for row in sorted(added, key=repr)[:SHOWN]),
        )
    )


def _shown(row: Row) -> str:
    return ", ".join(map(str, row))


def _exact(row: Row, given: Sequence[bool]) -> tuple[str, ...]:
    """What must be the same; of a computed double, no more than that it is one."""
    return tuple(
        repr(value) if same or not isinstance(value, float) else "double"
        for value, same in zip(row, given, strict=True)
    )


def _alike(one: Row, other: Row) -> bool:
    return all(_close(a, b) for a, b in zip(one, other, strict=True) if isinstance(a, float) and isinstance(b, float))


def _close(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
