"""What is computed from what workers measure: ideal rates, variances and correlations (potential-driven §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.policy.graph.placement import Floats

CONSTANT = 1e-18
"""A series whose variance is less than this part of a squared mean load does not vary: what is left is rounding."""


ROUNDING = 1e-6
"""Of a count of rows that was divided by seconds and multiplied again."""


class Cascade(NamedTuple):
    """The ideal rates of all operators: what would flow if no host were overloaded. A row for each operator."""

    arrivals: Floats
    """Rows a second that arrive on all inputs together (lambda'_o)."""
    outputs: Floats
    """Rows a second that it gives."""


def joint(inputs: npt.ArrayLike, by_rows: bool = False) -> Floats:
    """What the output of an operator is proportional to: the product of the rates of all inputs (§2.2.1).

    `by_rows`: their sum, for a join whose window is in rows; 0 where one of them is 0.
    """
    rates = np.asarray(inputs, np.float64)
    product = rates.prod(axis=0)
    return np.asarray(np.where(product > 0, rates.sum(axis=0), 0.0) if by_rows else product, np.float64)


def cascade(
    sources: npt.ArrayLike,
    inputs: Sequence[Sequence[int]],
    selectivities: Sequence[float],
    by_rows: Sequence[bool] | None = None,
) -> Cascade:
    """Ideal rates from the rates of the sources and the selectivities, from upstream to downstream (§2.2.1).

    Streams are numbered: the sources first, then what each operator gives. `inputs` names the one or two streams that
    each operator reads; operators come behind those that they read from. `sources` has a rate for each source, or one
    for each source and period. `by_rows` marks joins whose window is in rows; the paper's are in time.

        lambda'_o = sum of the rates of its inputs
        output_o = selectivity_o * joint rate of its inputs
    """
    rates = [np.asarray(rate, np.float64) for rate in np.asarray(sources, np.float64)]
    arrivals = []
    summed = by_rows or [False] * len(inputs)
    for number, (streams, chosen, joins) in enumerate(zip(inputs, selectivities, summed, strict=True)):
        if not streams or not all(0 <= stream < len(rates) for stream in streams):
            raise InvalidArgument(
                f"operator {number} reads the streams {tuple(streams)}: name streams that come before its own"
            )
        read = [rates[stream] for stream in streams]
        arrivals.append(np.sum(read, axis=0))
        rates.append(chosen * joint(read, joins))
    given = rates[len(rates) - len(arrivals) :]
    return Cascade(np.array(arrivals, np.float64), np.array(given, np.float64))


def steadied(rates: Floats, seconds: Floats) -> Floats:
    """Rates of sources (rows) in periods (columns) of so many seconds; even, where they differ by counting alone.

    A period begins anywhere between two rows, so a source of equal gaps counts up to one row more or less than it has
    in the mean. That is no variance: all that depends on such a source would seem to rise and fall together, with a
    correlation of 1, though the load is constant (a stable workload, §5.2).
    """
    even = ((rates * seconds).sum(axis=1) / seconds.sum())[:, None]
    varies = (np.abs(rates - even) * seconds >= 1 - ROUNDING).any(axis=1)
    return np.asarray(np.where(varies[:, None], rates, even), np.float64)


def mean(series: Floats) -> Floats:
    """E(S), over the last axis (§2.2.2)."""
    return np.asarray(series.mean(axis=-1), np.float64)


def variance(series: Floats) -> Floats:
    """var(S), the mean of squares less the square of the mean (§2.2.2), computed so that no digits are lost."""
    return np.asarray(np.square(series - series.mean(axis=-1, keepdims=True)).mean(axis=-1), np.float64)


def covariance(one: Floats, other: Floats) -> Floats:
    """cov(S1, S2), over the last axis (§2.2.2)."""
    ones, others = one - one.mean(axis=-1, keepdims=True), other - other.mean(axis=-1, keepdims=True)
    return np.asarray((ones * others).mean(axis=-1), np.float64)


def correlation(one: Floats, other: Floats) -> Floats:
    """rho(S1, S2), from -1 to 1, over the last axis (§2.2.2); 0 where one of the two does not vary."""
    return ratio(covariance(one, other), variance(one), variance(other), np.maximum(mean(one), mean(other)))


def ratio(together: Floats, one: Floats, other: Floats, scale: Floats) -> Floats:
    """The correlation, of a covariance and two variances; 0 where one of these is only rounding of loads of a scale."""
    varies = np.minimum(one, other) > CONSTANT * np.square(scale)
    found = np.where(varies, together, 0.0) / np.sqrt(np.where(varies, one * other, 1.0))
    return np.asarray(np.clip(found, -1.0, 1.0), np.float64)
