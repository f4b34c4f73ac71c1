"""The bound of `evenflow bench cep`, for all rows and for those of a while."""

import numpy as np
import pytest

from evenflow_lab.bench.cep import CepData, CepSetting, _steady

DATA = CepData("", 0, 0, [np.array([25, 25, 25, 25]), np.array([60, 20, 10, 10])])
"""Two phases of 100 rows: even, then with a key that has 60 of them."""


@pytest.mark.parametrize(
    ("first", "last", "rows"),
    [(0, 200, 25 + 60), (0, 100, 25), (100, 200, 60), (50, 150, 12.5 + 30), (150, 1_000, 30), (70, 70, 0)],
)
def test_the_bound_of_some_rows_is_that_of_their_parts_of_the_phases(first, last, rows):
    assert DATA.bound_s(4, 1e6, first, last) == pytest.approx(rows)
    assert DATA.bound_s(4, 1e6) == pytest.approx(85)


def test_the_steady_share_is_that_of_the_second_half_of_the_time_in_which_rows_came_in():
    """All rows are in at second 100. Rows 100 to 180 took the half before it, and could have taken 48 s."""
    through = [(0.0, 0), (50.0, 100), (100.0, 180), (130.0, 200)]
    assert _steady(CepSetting(engines=4, cost_us=1e6), DATA, through, 100.0) == pytest.approx(48 / 50)
