"""Rows that wait for their time, as values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.scratch.rows import Numbers, UnitRows

FOREVER = np.iinfo(np.int64).max
"""A time that no row reaches."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(UnitRows):
    """Rows, and for each also the time for which it waits, in microseconds."""

    times: Numbers
