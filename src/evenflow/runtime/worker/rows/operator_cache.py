"""The operator cache: the operators that a worker has; asks the controller for others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenflow.model.messages import CodeWanted, OperatorReady

if TYPE_CHECKING:
    import pyarrow as pa

LoadedOperator = Any
"""What the user gave, unpickled: a function's wrapper, a `Hosted` operator, a graph, or `Broken`."""
SPARE = 16
"""Operators that stay loaded while no feeder uses them; others are fetched again when they are needed."""


class OperatorCache(dict[str, LoadedOperator]):
    """Operators by name, the latest used last."""

    def __init__(self, tell: Callable[[CodeWanted | OperatorReady], None]) -> None:
        super().__init__()
        self._tell = tell
        self._asked: set[str] = set()

    def fetch(self, operator: str) -> LoadedOperator:
        """The operator; None if it is not here, and then the controller is asked for it, once."""
        if operator in self:
            self[operator] = self.pop(operator)
        elif operator not in self._asked:
            self._asked.add(operator)
            self._tell(CodeWanted(operator))
        return self.get(operator)

    def failure(self, operator: str) -> BaseException | None:
        """Why an operator could not be loaded; None if it could be, or is not here yet."""
        found = self.get(operator)
        return found.error if isinstance(found, Broken) else None

    def unknown(self, operator: str) -> None:
        """The controller does not have this operator: it may be asked again."""
        self._asked.discard(operator)

    def keep(self, operator: str, code: bytes, used: set[str]) -> None:
        """Load an operator; drop all but the SPARE latest of the operators that are not `used`."""
        self[operator] = _load(code)
        self._asked.discard(operator)
        self._tell(OperatorReady(operator))
        spare = [name for name in self if name not in used]
        for name in spare[:-SPARE]:
            del self[name]


class Broken:
    """Stands in for an operator that could not be loaded, and raises the error that it ran into."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Fail."""
        raise self.error


def _load(code: bytes) -> LoadedOperator:
    try:
        operator = pickle.loads(code)
        if hasattr(operator, "warm_up"):
            operator.warm_up()
        return operator
    except BaseException as error:  # a missing module, a newer Python: anything the pickle runs into
        return Broken(error)
