"""Decimals of up to 38 digits: whether a sum of them still is one, and their mean, rounded as Spark rounds it."""

from __future__ import annotations

import numpy as np

from evenflow.operators.compiled import compiled

LIMBS, BITS = 9, 16
"""Long division goes by 16 bits at a time, so that the divisor (a count) may have 48 bits."""
SMALL = 1 << 49
"""A number below this, times 10,000, fits in 64 bits."""


@compiled
def bounded(aggregates, high_limit, low_limit, total):  # type: ignore[no-untyped-def]
    """Write the low and high words of the sums to `total`; returns which sums are below the limit in magnitude."""
    fits = np.empty(len(aggregates), np.bool_)
    for row in range(len(aggregates)):
        low, high = aggregates[row, 1], aggregates[row, 2]
        total[row, 0], total[row, 1] = low, high
        whole = aggregates.shape[1] < 4 or aggregates[row, 3] == high >> 63
        plain_high, plain_low = _magnitude(high, low)
        fits[row] = whole and _less(plain_high, plain_low, high_limit, low_limit)
    return fits


@compiled
def divided(aggregates, factor, extra, high_limit, low_limit, total):  # type: ignore[no-untyped-def]
    """Replace each sum in `total` by factor * sum / count; returns which results are below the limit in magnitude.

    A half is rounded away from 0. Spark rounds to 39 digits behind the point first, so that a number just below a half
    may become one: `extra` is the power of ten between those digits and the ones that are kept.
    """
    fits = np.empty(len(aggregates), np.bool_)
    limbs = np.empty(LIMBS, np.uint64)
    for row in range(len(aggregates)):
        count = np.uint64(max(aggregates[row, 0], 1))
        high, low = _magnitude(total[row, 1], total[row, 0])
        if high == 0 and low < np.uint64(SMALL):
            whole = low * np.uint64(factor)
            high, low, rest = np.uint64(0), whole // count, whole % count
            spilt = False
        else:
            high, low, rest, spilt = _long_division(high, low, np.uint64(factor), count, limbs)
        if rest + rest >= count - count // np.uint64(extra):
            low += np.uint64(1)
            high += np.uint64(low == 0)
        fits[row] = not spilt and _less(high, low, high_limit, low_limit)
        negative = total[row, 1] < 0
        total[row, 0] = np.int64(~low + np.uint64(1)) if negative else np.int64(low)
        total[row, 1] = np.int64(~high + np.uint64(low == 0)) if negative else np.int64(high)
    return fits


@compiled
def _magnitude(high, low):  # type: ignore[no-untyped-def]
    """A number without its sign, as two words."""
    if high < 0:
        return ~np.uint64(high) + np.uint64(low == 0), ~np.uint64(low) + np.uint64(1)
    return np.uint64(high), np.uint64(low)


@compiled
def _less(high, low, other_high, other_low):  # type: ignore[no-untyped-def]
    return high < other_high or (high == other_high and low < other_low)


@compiled
def _long_division(high, low, factor, count, limbs):  # type: ignore[no-untyped-def]
    """Factor * number / count: high and low word of the quotient, the remainder, and whether there are more words."""
    mask, bits = np.uint64((1 << BITS) - 1), np.uint64(BITS)
    carry = np.uint64(0)
    for place in range(LIMBS - 1):
        word = low if place < 4 else high
        carry += ((word >> np.uint64(BITS * (place % 4))) & mask) * factor
        limbs[place] = carry & mask
        carry >>= bits
    limbs[LIMBS - 1] = carry
    rest = np.uint64(0)
    for place in range(LIMBS - 1, -1, -1):
        rest = (rest << bits) | limbs[place]
        limbs[place] = rest // count
        rest %= count
    high, low = np.uint64(0), np.uint64(0)
    for place in range(4):
        low |= limbs[place] << np.uint64(BITS * place)
        high |= limbs[place + 4] << np.uint64(BITS * place)
    return high, low, rest, limbs[LIMBS - 1] != 0
