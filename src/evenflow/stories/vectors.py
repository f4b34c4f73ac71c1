"""Texts as sparse vectors: hashed words, weighted by how often they are in the text and how rare they are elsewhere.

A word's number is its hash, below `features`. Its weight in a text is (1 + ln n) ln((N + 1) / (d + 1/2)), where it is
n times in the text and in d of a corpus of N texts; without a corpus the second factor is 1. A vector is scaled to
length 1 in float64 and kept as float32. Its words are in rising order, and sums over words are computed in float64 in
that order: the result is the same on every machine, however rows are cut into batches.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.model.given import whole_of
from evenflow.operators.columns import locked
from evenflow.operators.compiled import compiled
from evenflow.stories.words import MOST_WORDS, Texts, alphabet, pieces, read_words, strings

CELL = np.dtype([("word", np.int32), ("weight", np.float32)])
"""A word of a vector, in eight bytes, in memory as in Arrow."""
Cells: TypeAlias = npt.NDArray[np.void]
"""An array of CELL."""
FEATURES = 1 << 18
MOST_FEATURES = 1 << 22
FEW = 24
"""Up to this many words are sorted by insertion, which is faster."""

TIMES = locked(np.array([0.0, *(1 + math.log(count) for count in range(1, MOST_WORDS + 1))]))
"""1 + ln n, by n."""


@dataclass(frozen=True)
class Sparse:
    """Vectors: that of row i is `cells[offsets[i]:offsets[i + 1]]`, which is empty for a text without words."""

    offsets: npt.NDArray[np.int64]
    cells: Cells

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to_arrow(self) -> pa.Array:
        """The vectors as binaries; only the offsets are copied."""
        offsets = pa.py_buffer((self.offsets * CELL.itemsize).astype(np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self), [None, offsets, pa.py_buffer(self.cells.view(np.uint8))])

    @classmethod
    def from_arrow(cls, column: pa.Array) -> Sparse:
        """The vectors in a column of binaries; null is a vector without words."""
        content, starts, _ = pieces(column.fill_null(b"") if column.null_count else column)
        sizes = np.diff(starts)
        if (sizes % CELL.itemsize).any():
            raise InvalidArgument(f"a vector has {sizes[sizes % 8 > 0][0]} bytes: each word takes {CELL.itemsize}")
        if not len(sizes) or starts[0] == starts[-1]:
            return cls(locked(np.zeros(len(starts), np.int64)), locked(np.empty(0, CELL)))
        cells = np.frombuffer(content[starts[0] : starts[-1]], CELL)
        return cls(locked((starts - starts[0]) // CELL.itemsize), locked(cells))


class WordFactors(NamedTuple):
    """The two factors of a word's weight: how often it is in the text, and how rare it is."""

    times: npt.NDArray[np.float64]
    rarity: npt.NDArray[np.float64]
    """By word; empty if there is no corpus."""


class Scratch(NamedTuple):
    """Room for the words of one text."""

    words: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float64]


class Vectors:
    """Turns texts into vectors; `fit` learns from a corpus how rare words are."""

    def __init__(self, features: int = FEATURES, *, documents: int = 0, counts: npt.ArrayLike | None = None) -> None:
        """Word number f is in `counts[f]` of `documents` texts."""
        if not 2 <= whole_of(features) <= MOST_FEATURES or features & (features - 1):
            raise InvalidArgument(f"features={features!r}: give a power of two from 2 to {MOST_FEATURES:,}")
        self.features = features = whole_of(features)
        if not 0 <= whole_of(documents) < 1 << 62:
            raise InvalidArgument(f"documents={documents!r:.100}: give the number of texts, a whole number")
        self.documents = whole_of(documents)
        given = np.empty(0) if counts is None else np.asarray(counts)
        if given.ndim != 1 or given.dtype.kind not in "iuf" or (given < 0).any():
            raise InvalidArgument(f"counts={counts!r:.100}: give a list of numbers, one for each feature")
        rarity = np.log((self.documents + 1) / (given + 0.5)) if len(given) else np.empty(0)
        if len(rarity) not in (0, features) or not np.isfinite(rarity).all() or (rarity <= 0).any():
            raise InvalidArgument(
                f"counts has {len(rarity)} numbers for {features} features and {documents} documents: give one for "
                "each feature, from 0 to the number of documents"
            )
        self.rarity = locked(rarity)

    @classmethod
    def fit(cls, texts: Texts, features: int = FEATURES) -> Vectors:
        """Count in how many texts each word is. Texts are an array, a Series, a list, or batches of these."""
        plain = cls(features)
        counts, documents = np.zeros(features, np.int64), 0
        for part in _parts(texts):
            count, which = plain.frequencies(part)
            documents += count
            counts += which
        return cls(features, documents=documents, counts=counts)

    def frequencies(self, texts: Texts) -> tuple[int, npt.NDArray[np.int64]]:
        """The number of texts, and for each word the number of texts that have it."""
        found = self.of(texts)
        return len(found), np.bincount(found.cells["word"], minlength=self.features)

    def of(self, texts: Texts) -> Sparse:
        """The vectors of texts; null is a text without words."""
        given = pieces(strings(texts))
        shift = np.uint64(64 - (self.features.bit_length() - 1))
        room = int(np.minimum((np.diff(given.starts) + 1) // 2, MOST_WORDS).sum())
        cells, offsets = np.empty(room, CELL), np.zeros(len(given.starts), np.int64)
        scratch = Scratch(np.empty(MOST_WORDS, np.int32), np.empty(MOST_WORDS))
        _weigh(given, alphabet(), shift, WordFactors(TIMES, self.rarity), scratch, offsets, cells)
        return Sparse(locked(offsets), locked(cells[: offsets[-1]]))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Vectors) and self.features == other.features and np.array_equal(self.rarity, other.rarity)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        which = f", documents={self.documents}, crc={zlib.crc32(self.rarity.tobytes()):08x}" if len(self.rarity) else ""
        return f"Vectors({self.features}{which})"


def _parts(texts: Texts) -> Iterable[Texts]:
    """The batches of texts; one if they do not come in batches."""
    if isinstance(texts, (str, pa.Array, pa.ChunkedArray)) or hasattr(texts, "dtype"):
        return [texts]
    texts = list(texts)
    batches = bool(texts) and all(hasattr(part, "__len__") and not isinstance(part, str) for part in texts)
    return texts if batches else [texts]


@compiled
def _sort(words):  # type: ignore[no-untyped-def]
    if len(words) > FEW:
        words.sort()
        return
    for place in range(1, len(words)):
        word, hole = words[place], place
        while hole and words[hole - 1] > word:
            words[hole] = words[hole - 1]
            hole -= 1
        words[hole] = word


@compiled
def _weigh(texts, alphabet, shift, weighing, scratch, offsets, cells):  # type: ignore[no-untyped-def]
    """Write the vectors of texts to `cells` and their ends to `offsets`."""
    data, starts, known = texts
    kinds, lowers = alphabet
    times, rarity = weighing
    words, weights = scratch
    top = 0
    for row in range(len(starts) - 1):
        count = 0
        if len(known) == 0 or known[row]:
            count = read_words(data, starts[row], starts[row + 1], kinds, lowers, shift, words)
        _sort(words[:count])
        first, at, square = top, 0, 0.0
        while at < count:
            word, after = words[at], at + 1
            while after < count and words[after] == word:
                after += 1
            weight = times[after - at] * (rarity[word] if len(rarity) else 1.0)
            weights[top - first] = weight
            square += weight * weight
            cells[top].word = word
            top += 1
            at = after
        length = np.sqrt(square)
        for place in range(first, top):
            cells[place].weight = np.float32(weights[place - first] / length)
        offsets[row + 1] = top
