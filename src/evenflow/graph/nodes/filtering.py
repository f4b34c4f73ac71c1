"""The node that keeps the rows for which a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import FunctionError
from evenflow.graph.build.dialect import Dialect
from evenflow.graph.build.verbs import FilterSpec
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.map import BatchFunction

if TYPE_CHECKING:
    from evenflow.rules.expressions.code import Compiled


class Condition(Protocol):
    """Chooses rows."""

    name: str
    """The name of the filter it belongs to."""

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which it holds, in their order."""

    def warm_up(self) -> None:
        """Compile it."""


class SqlCondition:
    """A SQL expression over the columns of one stream, with Spark's types; a row for which it is null is left out.

    It travels as text: code is compiled where it is used.
    """

    def __init__(self, name: str, text: str, stream: str, rows: pa.Schema, ansi: bool) -> None:
        self.name = name
        self._text, self._stream, self._rows, self._ansi = text, stream, rows, ansi
        self._code: Compiled | None = None

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        from evenflow.rules.expressions.frame import Columns

        holds = self._compiled().holds(Columns(rows), rows.num_rows)
        return chosen(rows, holds)

    def warm_up(self) -> None:
        self.kept(pa.RecordBatch.from_pylist([], schema=self._rows))

    def _compiled(self) -> Compiled:
        if self._code is None:
            from evenflow.rules.expressions.binding import Scope  # pandas comes with it: only those who use it pay
            from evenflow.rules.expressions.compiling import compile_condition
            from evenflow.rules.language.errors import Text
            from evenflow.rules.language.parser import parse_condition

            text = Text(self._text, self.name, "filter")
            scope = Scope(text, {self._stream: self._rows}, clause="a filter", ansi=self._ansi, spark=True)
            self._code = compile_condition(parse_condition(text), scope)
        return self._code

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_code": None}


class FunctionCondition:
    """A user's function: from a batch to a boolean for each row, or to the rows to keep."""

    def __init__(self, name: str, function: BatchFunction) -> None:
        self.name = name
        self._function = function

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        given = self._function(rows)
        if isinstance(given, pa.Table):
            given = given.combine_chunks()
            given = given.to_batches()[0] if given.num_rows else rows.slice(0, 0)
        if isinstance(given, pa.RecordBatch):
            return self._subset(given, rows)
        return chosen(rows, self._booleans(given, rows.num_rows))

    def warm_up(self) -> None:
        """Import what choosing rows needs; a user's function is only called with rows."""
        pa.RecordBatch.from_pydict({"row": [0]}).filter(pa.array([False]))

    def _subset(self, given: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not given.schema.equals(rows.schema):
            raise FunctionError(
                f"filter '{self.name}' returned rows with columns {_columns(given.schema)}, its rows have "
                f"{_columns(rows.schema)}: return some of the rows as they are, or use map"
            )
        if given.num_rows > rows.num_rows:
            raise FunctionError(
                f"filter '{self.name}' returned {given.num_rows} rows for {rows.num_rows}: return some of its rows, or "
                "use map"
            )
        return given

    def _booleans(self, given: object, count: int) -> npt.NDArray[np.bool_]:
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        holds = given
        if isinstance(given, pa.Array) and pa.types.is_boolean(given.type):
            holds = given.fill_null(False).to_numpy(zero_copy_only=False)
        elif not isinstance(given, pa.Array) and not np.isscalar(given) and given is not None:
            holds = np.asarray(given)  # of numpy, or of pandas
        if not isinstance(holds, np.ndarray) or holds.dtype != np.bool_ or holds.ndim != 1:
            what = getattr(given, "type", getattr(given, "dtype", ""))
            raise FunctionError(
                f"filter '{self.name}' returned {type(given).__name__}{f' of {what}' if what else ''}: return a "
                "boolean for each row, or the rows to keep as a pyarrow.RecordBatch"
            )
        if len(holds) != count:
            raise FunctionError(
                f"filter '{self.name}' returned {len(holds)} booleans for {count} rows: return one for each row"
            )
        return holds


class FilterNode(NodeOperator):
    """One filter. It has no state."""

    kind: ClassVar[str] = "filter"

    def __init__(self, condition: Condition) -> None:
        self._condition = condition

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        return self._condition.kept(rows)

    def warm_up(self) -> None:
        self._condition.warm_up()


def chosen(rows: pa.RecordBatch, holds: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows for which `holds` is True; the batch itself if these are all."""
    return rows if holds.all() else rows.filter(pa.array(holds))


def condition_of(name: str, spec: FilterSpec, stream: str, rows: pa.Schema, dialect: Dialect) -> Condition:
    """The condition of a filter over the rows of `stream`; RuleError if its text does not fit the columns."""
    if not isinstance(spec.condition, str):
        return FunctionCondition(name, spec.condition)
    condition = SqlCondition(name, spec.condition, stream, rows, dialect.ansi)
    condition.warm_up()
    return condition


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
