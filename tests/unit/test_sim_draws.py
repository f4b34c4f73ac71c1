"""Random numbers for compiled data planes."""

import numpy as np
import pytest

from evenflow.sim.draws import exponential, random_state


def test_exponential_numbers_have_the_moments_and_the_tail_that_they_should():
    state = random_state(1)
    drawn = np.array([exponential(state) for _ in range(50_000)])
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(1.0, abs=0.02)
    assert drawn.std() == pytest.approx(1.0, abs=0.03)
    for least in (0.5, 1.5, 3.0):
        assert (drawn > least).mean() == pytest.approx(np.exp(-least), abs=0.006)
