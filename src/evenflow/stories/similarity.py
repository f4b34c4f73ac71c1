"""The similarity of two texts, for use in rules: `functions={"similarity": cosine}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.compiled import compiled, readable
from evenflow.stories.nearest import DIGITS
from evenflow.stories.vectors import Sparse, Vectors
from evenflow.stories.words import strings

if TYPE_CHECKING:
    import pandas as pd

Places = npt.NDArray[np.integer]


class Similarity:
    """The cosine of two texts, row by row. `Similarity(Vectors.fit(...))` takes into account how rare words are.

    Null if one of the texts has no words, so that `max` ignores it.
    """

    def __init__(self, vectors: Vectors) -> None:
        if not isinstance(vectors, Vectors):
            raise InvalidArgument(f"Similarity got {vectors!r:.100}: give Vectors, as Similarity(Vectors.fit(texts))")
        self.vectors = vectors

    def __call__(self, left: pd.Series, right: pd.Series) -> pd.Series:
        """The cosines of two columns of texts; each distinct text is turned into a vector once."""
        import pandas as pd

        if len(left) != len(right):
            raise InvalidArgument(f"there are {len(left)} texts on the left and {len(right)} on the right")
        texts = [strings(side).cast(pa.large_string()) for side in (left, right)]
        coded = pa.concat_arrays(texts).dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        vectors = self.prepare(coded.dictionary)
        found = self.meet((vectors, codes[: len(left)]), (vectors, codes[len(left) :]))
        return pd.Series(found, getattr(left, "index", None))

    def prepare(self, texts: pa.Array) -> Sparse:
        """The vectors of distinct texts; called once for the texts of many pairs."""
        return self.vectors.of(texts)

    def meet(self, left: tuple[Sparse, Places], right: tuple[Sparse, Places]) -> npt.NDArray[np.float64]:
        """The cosines of pairs, each side given as vectors and places in them."""
        (ours, lefts), (theirs, rights) = left, right
        found = np.empty(len(lefts))
        sides = readable(lefts, np.int64), readable(rights, np.int64)
        _cosines(ours.offsets, ours.cells, theirs.offsets, theirs.cells, *sides, found)
        return found


cosine = Similarity(Vectors())
"""The cosine of two texts, row by row, with all words equally rare; null if one of them has no words."""


@compiled
def _cosines(offsets, cells, their_offsets, their_cells, lefts, rights, found):  # type: ignore[no-untyped-def]
    """Sums over the common words of each pair, in rising order of words."""
    for row in range(len(found)):
        one, end = offsets[lefts[row]], offsets[lefts[row] + 1]
        other, last = their_offsets[rights[row]], their_offsets[rights[row] + 1]
        found[row] = np.nan if one == end or other == last else 0.0
        total = 0.0
        while one < end and other < last:
            if cells[one].word == their_cells[other].word:
                total += np.float64(cells[one].weight) * np.float64(their_cells[other].weight)
                one += 1
                other += 1
            elif cells[one].word < their_cells[other].word:
                one += 1
            else:
                other += 1
        found[row] += np.rint(total * DIGITS) / DIGITS
