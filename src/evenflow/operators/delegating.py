"""Operators that keep all their state in one object, which can extract and install units itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.operators.keyed import KeyedOperator, Units


class Delegating(KeyedOperator):
    """Passes `extract`, `install` and `sizes` on to `_state`."""

    _state: Any

    def extract(self, unit: int) -> Any:
        return self._state.extract(unit)

    def install(self, unit: int, state: Any) -> None:
        self._state.install(unit, state)

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        sizes: npt.NDArray[np.int64] = self._state.sizes(units)
        return sizes
