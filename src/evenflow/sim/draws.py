"""Random numbers for compiled data planes: splitmix64, the same on every machine.

The state is an array of one `uint64`; whole numbers and their quotients only, since exponentials and logarithms may
differ in the last bit from one processor to another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import compiled, compiled_in_place
from evenflow.sim.records import Records


def random_state(seed: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """The state of a generator; each `stream` of a seed is one of its own."""
    return np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64).astype(np.uint64)


@compiled_in_place
def draw(state: Records) -> float:
    """The next number, from 0 to below 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = state[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.float64(mixed >> np.uint64(11)) / 9007199254740992.0


@compiled_in_place
def spread(state: Records, middle: float, deviation: float) -> float:
    """A number around `middle` that is nearly normal: the sum of four uniform ones, with this standard deviation."""
    total = draw(state) + draw(state) + draw(state) + draw(state) - 2.0
    return middle + deviation * total * 1.7320508075688772


@compiled
def exponential(state: Records) -> float:
    """A number above 0 of the exponential distribution with mean 1, without a logarithm (von Neumann's way).

    A run of falling numbers that ends after an odd count gives its first one; every other run adds 1.
    """
    whole = 0.0
    while True:
        first = draw(state)
        last, odd = first, True
        while True:
            number = draw(state)
            if number >= last:
                break
            last, odd = number, not odd
        if odd:
            return whole + first
        whole += 1.0
