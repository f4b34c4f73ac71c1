"""How alike two texts are, for use in rules: `functions={"similarity": cosine}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.columns import locked
from evenflow.operators.compiled import compiled
from evenflow.stories.nearest import DIGITS
from evenflow.stories.vectors import Vectors
from evenflow.stories.words import strings

if TYPE_CHECKING:
    import pandas as pd


class Similarity:
    """The cosine of two texts, row by row, with vectors that know how rare words are: `Similarity(Vectors.fit(...))`.

    Null where one of them has no words, so that it counts for nothing in `max`.
    """

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors

    def __call__(self, left: pd.Series[Any], right: pd.Series[Any]) -> pd.Series[Any]:
        """Each text that comes several times is turned into a vector once."""
        import pandas as pd

        if len(left) != len(right):
            raise InvalidArgument(f"there are {len(left)} texts on the left and {len(right)} on the right")
        texts = [strings(side).cast(pa.large_string()) for side in (left, right)]
        coded = pa.concat_arrays(texts).dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        vectors = self.vectors.of(coded.dictionary)
        found = np.empty(len(left))
        _cosines(vectors.offsets, vectors.cells, locked(codes[: len(left)]), locked(codes[len(left) :]), found)
        return pd.Series(found, getattr(left, "index", None))


def cosine(left: pd.Series[Any], right: pd.Series[Any]) -> pd.Series[Any]:
    """The cosine of two texts, row by row, all words being equally rare; null where one of them has no words."""
    return Similarity(Vectors())(left, right)


@compiled
def _cosines(offsets, cells, lefts, rights, found):  # type: ignore[no-untyped-def]
    """Sums over common words, in their order."""
    for row in range(len(found)):
        one, end = offsets[lefts[row]], offsets[lefts[row] + 1]
        other, last = offsets[rights[row]], offsets[rights[row] + 1]
        found[row] = np.nan if one == end or other == last else 0.0
        total = 0.0
        while one < end and other < last:
            if cells[one].word == cells[other].word:
                total += np.float64(cells[one].weight) * np.float64(cells[other].weight)
                one += 1
                other += 1
            elif cells[one].word < cells[other].word:
                one += 1
            else:
                other += 1
        found[row] += np.rint(total * DIGITS) / DIGITS
