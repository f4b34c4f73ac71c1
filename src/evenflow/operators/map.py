"""The stateless operator: a user's function over record batches or pandas DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa

from evenflow.operators.conform import conform

Input = Literal["arrow", "pandas"]


class MapOperator:
    """Applies the function to each batch and fits the result to the declared schema."""

    def __init__(self, function: Callable[[Any], Any], schema: pa.Schema, form: Input) -> None:
        self._function = function
        self._schema = schema
        self._form = form

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The function's result for a batch, in the declared schema."""
        if self._form == "arrow":
            return conform(self._function(batch), self._schema)
        from evenflow.operators import pandas_frames  # pandas weighs 40 MB: only those who ask for it pay

        return conform(
            pandas_frames.to_arrow(self._function(pandas_frames.to_pandas(batch)), self._schema), self._schema
        )
