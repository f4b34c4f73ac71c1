"""The arithmetic of aggregates, in compiled code: for doubles, and an exact one for whole numbers and decimals.

An aggregate is a row of an array, and the array's type decides which arithmetic is used.

- float64: (count, a), or (count, a, b) for STD and VAR. `count` is the number of non-null values; `a` their sum,
  minimum, maximum or mean; `b` the sum of squared deviations.
- int64: the count, then a number of 64, 128 or 192 bits, low word first. Sums have one word more than the values, so
  that no sum overflows, however many values come.

`how` is one of the numbers below. For minima and maxima of texts it is a tuple (number, ends, letters): values are then
numbers of texts, and text n is `letters[ends[n] : ends[n + 1]]`.

Where numba keeps its code on disk it does not notice changes of this file: touch the files that use it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from evenflow.operators.compiled import Function, compiled

How: TypeAlias = int | tuple[int, npt.NDArray[np.int64], npt.NDArray[np.uint8]]
"""The aggregate, as compiled code is told it."""
InCode: TypeAlias = Any
"""A value in compiled code: numba knows its type, and mypy does not."""

COUNT, SUM, MEAN, MIN, MAX, STD, VAR = range(7)


def width(how: int, words: int) -> int:
    """The numbers in an aggregate of values of `words` 64-bit words each; 0 words means doubles."""
    if not words:
        return 3 if how >= STD else 2
    return 1 + words + (how in (SUM, MEAN))


def load(how: InCode, rows: InCode, at: InCode) -> InCode:
    """The aggregate in row `at`."""
    raise NotImplementedError


def store(how: InCode, rows: InCode, at: InCode, aggregate: InCode) -> InCode:
    """Write an aggregate to row `at`."""
    raise NotImplementedError


def single(how: InCode, values: InCode, at: InCode, there: InCode) -> InCode:
    """The aggregate of the one value at `at`, or of no value if it is not `there`."""
    raise NotImplementedError


def combine(how: InCode, one: InCode, other: InCode) -> InCode:
    """The aggregate of the values of two aggregates."""
    raise NotImplementedError


def tell(how: InCode, out: InCode, known: InCode, at: InCode, aggregate: InCode) -> InCode:
    """Write the result to `out[at]` and whether there is one to `known[at]`.

    For doubles the result is the number asked for, for whole numbers the aggregate itself.
    """
    raise NotImplementedError


def _choose(kind: InCode, doubles: Function, words: Function) -> Function:
    return doubles if kind == types.float64 else words


@overload(load)
def _load(how, rows, at):  # type: ignore[no-untyped-def]
    def doubles(how, rows, at):  # type: ignore[no-untyped-def]
        return rows[at, 0], rows[at, 1], rows[at, 2] if how >= STD else 0.0

    def words(how, rows, at):  # type: ignore[no-untyped-def]
        low = rows[at, 1]
        high = rows[at, 2] if rows.shape[1] > 2 else low >> 63
        return rows[at, 0], low, high, rows[at, 3] if rows.shape[1] > 3 else high >> 63

    return _choose(rows.dtype, doubles, words)


@overload(store)
def _store(how, rows, at, aggregate):  # type: ignore[no-untyped-def]
    def doubles(how, rows, at, aggregate):  # type: ignore[no-untyped-def]
        rows[at, 0], rows[at, 1] = aggregate[0], aggregate[1]
        if how >= STD:
            rows[at, 2] = aggregate[2]

    def words(how, rows, at, aggregate):  # type: ignore[no-untyped-def]
        rows[at, 0], rows[at, 1] = aggregate[0], aggregate[1]
        if rows.shape[1] > 2:
            rows[at, 2] = aggregate[2]
        if rows.shape[1] > 3:
            rows[at, 3] = aggregate[3]

    return _choose(rows.dtype, doubles, words)


@overload(single)
def _single(how, values, at, there):  # type: ignore[no-untyped-def]
    def doubles(how, values, at, there):  # type: ignore[no-untyped-def]
        if not there:
            return 0.0, 0.0, 0.0
        value = values[at]
        return 1.0, value, value - value  # a deviation of 0, or NaN if the value is not finite

    def words(how, values, at, there):  # type: ignore[no-untyped-def]
        nothing = np.int64(0)
        if not there:
            return nothing, nothing, nothing, nothing
        low = values[at, 0]
        high = values[at, 1] if values.shape[1] > 1 else low >> 63
        return np.int64(1), low, high, high >> 63

    return _choose(values.dtype, doubles, words)


@overload(combine)
def _combine(how, one, other):  # type: ignore[no-untyped-def]
    return _texts if isinstance(how, types.BaseTuple) else _choose(one[0], _doubles, _words)


def _doubles(how, one, other):  # type: ignore[no-untyped-def]
    """For doubles. NaN is the greatest number, as in Spark."""
    c1, a1, b1 = one
    c2, a2, b2 = other
    if c1 == 0:
        return c2, a2, b2
    if c2 == 0:
        return c1, a1, b1
    count = c1 + c2
    if how == MIN:
        return count, (a1 if a1 < a2 or a2 != a2 else a2), 0.0
    if how == MAX:
        return count, (a1 if a1 > a2 or a1 != a1 else a2), 0.0
    if how >= STD:
        delta = a2 - a1
        return count, a1 + delta * (c2 / count), b1 + b2 + delta * delta * (c1 * c2 / count)
    return count, a1 + a2, 0.0


def _words(how, one, other):  # type: ignore[no-untyped-def]
    """For whole numbers in two's complement: the highest word carries the sign."""
    c1, low1, high1, top1 = one
    c2, low2, high2, top2 = other
    if how in (MIN, MAX):
        if c1 == 0:
            return other
        less = high1 < high2 or (high1 == high2 and np.uint64(low1) < np.uint64(low2))
        if c2 == 0 or less == (how == MIN):
            return c1 + c2, low1, high1, top1
        return c1 + c2, low2, high2, top2
    low, high = low1 + low2, high1 + high2
    carry = np.int64(np.uint64(low) < np.uint64(low1))
    over = np.int64(np.uint64(high) < np.uint64(high1))
    high += carry
    over += np.int64(carry == 1 and high == 0)
    return c1 + c2, low, high, top1 + top2 + over


def _texts(how, one, other):  # type: ignore[no-untyped-def]
    """For numbers of texts, which are compared by their bytes, as Spark compares them."""
    if one[0] == 0 or other[0] == 0:
        return one if other[0] == 0 else other
    number, ends, letters = how
    at, end, opposite, last = ends[one[1]], ends[one[1] + 1], ends[other[1]], ends[other[1] + 1]
    while at < end and opposite < last and letters[at] == letters[opposite]:
        at += 1
        opposite += 1
    less = opposite < last and (at == end or letters[at] < letters[opposite])
    return one if less == (number == MIN) else other


@overload(tell)
def _tell(how, out, known, at, aggregate):  # type: ignore[no-untyped-def]
    def doubles(how, out, known, at, aggregate):  # type: ignore[no-untyped-def]
        count, a, b = aggregate
        if how == COUNT:
            out[at], known[at] = count, True
        elif how == MEAN:
            out[at], known[at] = a / count, count > 0
        elif how == STD:
            out[at], known[at] = np.sqrt(b / (count - 1)), count > 1
        elif how == VAR:
            out[at], known[at] = b / (count - 1), count > 1
        else:
            out[at], known[at] = a, count > 0

    def words(how, out, known, at, aggregate):  # type: ignore[no-untyped-def]
        store(how, out, at, aggregate)
        known[at] = aggregate[0] > 0

    return _choose(out.dtype, doubles, words)


@compiled
def add_groups(how, groups, values, valid, totals):  # type: ignore[no-untyped-def]
    """Add each value to the total of its group."""
    for row in range(len(groups)):
        if len(valid) == 0 or valid[row]:
            group = groups[row]
            store(how, totals, group, combine(how, load(how, totals, group), single(how, values, row, True)))


@compiled
def tell_all(how, totals, out, known):  # type: ignore[no-untyped-def]
    """Write the results of all totals to `out` and `known`."""
    for at in range(len(totals)):
        tell(how, out, known, at, load(how, totals, at))
