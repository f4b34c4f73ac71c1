"""First Story Detection as a keyed operator."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.model.given import whole_of
from evenflow.operators.aggregates.adding import Adding, rehearse
from evenflow.operators.columns import nullable
from evenflow.operators.keyed import Keys, Units

HISTORY = 500
MOST_HISTORY = 1 << 20


class FirstStory(Adding):
    """Adds the greatest cosine (0 to 1) of each vector with the last `history` vectors of its key before it.

    It is 0 if the key has had none, and null for a vector without words, which is no story and is not kept. A row is a
    first story if the cosine is at or below some threshold (cep §4: 0.2).

    `column` holds vectors as binaries, as `Vectors.of(texts).to_arrow()` returns them; the key is their fingerprint.
    `made` describes how they were made, so that stored state of vectors made in another way is refused.
    """

    def __init__(
        self, column: str = "vector", *, history: int = HISTORY, into: str = "similarity", made: str = ""
    ) -> None:
        super().__init__(column, into)
        if not 1 <= whole_of(history) <= MOST_HISTORY:
            raise InvalidArgument(f"history={history!r}: give a whole number from 1 to {MOST_HISTORY:,}")
        self.history, self.made = whole_of(history), made
        from evenflow.stories.nearest import Histories  # numba comes with it: only those who use it pay

        self._state = Histories(self.history)

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise InvalidArgument(
                f"{self} needs vectors as binaries, column '{self.column}' is {kind}: make them with Vectors.of"
            )
        return pa.float64()

    def add(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.Array:
        from evenflow.stories.vectors import MOST_FEATURES, Sparse

        try:
            vectors = Sparse.from_arrow(rows.column(self.column))
        except InvalidArgument as error:
            raise FunctionError(f"column '{self.column}' holds no vectors: {error}") from None
        words = vectors.cells["word"]
        if len(words) and not (words.min() >= 0 and words.max() < MOST_FEATURES):
            raise FunctionError(f"column '{self.column}' has words from {words.min()} to {words.max()}: no vectors")
        return nullable(*self._state.push(units, keys, vectors))

    def snapshot(self, unit: int) -> object:
        return self._state.snapshot(unit)

    def warm_up(self, rows: pa.Schema) -> None:
        from evenflow.stories.nearest import Histories
        from evenflow.stories.vectors import CELL

        Histories(1).pack()
        place = rows.get_field_index(self.column)
        some = pa.RecordBatch.from_arrays([pa.nulls(2, field.type) for field in rows], schema=rows)
        vector = np.array([(1, 1.0)], CELL).tobytes()
        vectors = pa.array([vector, None], rows.field(place).type)
        rehearse(self, some.set_column(place, rows.field(place), vectors))
