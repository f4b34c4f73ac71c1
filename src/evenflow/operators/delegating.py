"""Operators that keep all their state in one object, which can extract and install units itself."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from evenflow.operators.keyed import KeyedOperator, Units, UnitState


class DivisibleState(Protocol):
    """The state of all units of an operator, from which single units can be extracted."""

    def extract(self, unit: int) -> UnitState: ...

    def install(self, unit: int, state: UnitState) -> None: ...

    def sizes(self, units: Units) -> npt.NDArray[np.int64]: ...


class Delegating(KeyedOperator):
    """Passes `extract`, `install` and `sizes` on to `_state`."""

    _state: DivisibleState

    def extract(self, unit: int) -> UnitState:
        return self._state.extract(unit)

    def install(self, unit: int, state: UnitState) -> None:
        self._state.install(unit, state)

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        return self._state.sizes(units)
