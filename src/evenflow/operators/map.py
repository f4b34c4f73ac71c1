"""The stateless operator: a user's function over record batches or pandas DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from evenflow.operators.conform import conform
from evenflow.operators.null_marks import parted

Input = Literal["arrow", "pandas"]
BatchFunction: TypeAlias = Callable[[Any], Any]
"""A user's function of a pyarrow.RecordBatch or a pandas.DataFrame; what it returns is checked when it has."""


class MapOperator:
    """Applies the function to each batch and fits the result to the declared schema."""

    def __init__(
        self, function: BatchFunction, schema: pa.Schema, form: Input, extension_integers: bool = False
    ) -> None:
        self._function = function
        self._schema = schema
        self._form = form
        self._extension_integers = extension_integers
        """Whether whole numbers have pandas' nullable dtypes, as a setting of Spark's session says."""

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The function's result for a batch, in the declared schema."""
        if self._form == "arrow":
            return conform(self._function(batch), self._schema)
        from evenflow.operators import pandas_frames  # pandas weighs 40 MB: only those who ask for it pay

        given, with_nulls = parted(batch)
        rows = pandas_frames.to_pandas(given, self._extension_integers, with_nulls)
        return conform(pandas_frames.to_arrow(self._function(rows), self._schema), self._schema)
