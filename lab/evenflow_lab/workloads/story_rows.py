"""The rows of First Story Detection in demos, benchmarks and experiments (cep §4): texts, their keys and vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.stories.lsh import BITS, Fingerprints
from evenflow.stories.operator import HISTORY, FirstStory
from evenflow.stories.vectors import Vectors
from evenflow.workloads.tweets import Tweets
from evenflow_lab.workloads import zipf

Longs = npt.NDArray[np.int64]
StoryOrder = Literal["default", "zipf"]

KEYS = 1 << BITS
TAU = 0.2
TWEETS = Tweets(words=3_000, zipf=1.2, about=0.8, copies=0.6, spacing=8_000, life=80_000)
"""Few topics, each for a long time: with key grouping, loads differ by a third for as long as a run takes."""


@dataclass(frozen=True)
class StoryRows:
    """One entry a row: its key, its vector as a binary, and its phase of the workload."""

    keys: npt.NDArray[np.int32]
    vectors: pa.Array
    phases: Longs

    @classmethod
    def draw(
        cls,
        rows: int,
        order: StoryOrder = "default",
        exponents: tuple[float, ...] = (0.2, 1.5),
        seed: int = 1,
        tweets: Tweets = TWEETS,
        first: int = 0,
    ) -> StoryRows:
        """Texts in the order they came in or, with zipf, with keys by Zipf's law, one exponent after the other.

        `first` is the number of the first text: with 0 there are no topics from before, so the first one has all texts.
        """
        texts = replace(tweets, seed=seed).rows(np.arange(first, first + rows)).column("text")
        vectors = Vectors.fit(texts[: min(len(texts), 50_000)]).of(texts)
        keys, column = Fingerprints().of(vectors), vectors.to_arrow()
        if order == "default":
            return cls(keys, column, np.zeros(rows, np.int64))
        drawn, phases = zipf.keys(seed, rows, np.unique(keys), exponents)
        return cls(drawn.astype(np.int32), column.take(pa.array(_texts_of(keys, drawn))), phases)

    def some(self, which: npt.NDArray[np.bool_]) -> StoryRows:
        """Some of the rows, in the same order."""
        return StoryRows(self.keys[which], self.vectors.filter(pa.array(which)), self.phases[which])

    def table(self) -> pa.Table:
        """Columns seq, fingerprint and vector."""
        return pa.table({"seq": np.arange(len(self.keys)), "fingerprint": self.keys, "vector": self.vectors})

    def loads(self) -> list[Longs]:
        """For each phase of the workload, the rows of each key."""
        return [np.bincount(self.keys[self.phases == phase], minlength=KEYS) for phase in np.unique(self.phases)]


def first_stories(table: pa.Table, operator: FirstStory | None = None) -> Longs:
    """The seq of each first story, as one engine finds them; `operator` may have seen rows before."""
    operator = FirstStory(history=HISTORY) if operator is None else operator
    found = [np.zeros(0, np.int64)]
    for batch in table.to_batches(max_chunksize=10_000):
        keys = batch.column("fingerprint").to_numpy()
        near = operator.process(batch, keys.astype(np.int32), keys.astype(np.int64))
        assert isinstance(near, pa.RecordBatch)
        similarity = near.column("similarity").to_numpy(zero_copy_only=False)
        found.append(batch.column("seq").to_numpy()[similarity <= TAU])
    return np.concatenate(found)


def _texts_of(keys: npt.NDArray[np.int32], drawn: npt.NDArray[Any]) -> Longs:
    """For each drawn key the place of a text with this key; the texts of a key are taken in turn, repeatedly."""
    order = np.argsort(keys, kind="stable")
    first, count = np.searchsorted(keys[order], drawn), np.bincount(keys, minlength=KEYS)[drawn]
    turns = np.empty(len(drawn), np.int64)
    by_key = np.argsort(drawn, kind="stable")
    starts = np.searchsorted(drawn[by_key], drawn[by_key])
    turns[by_key] = np.arange(len(drawn)) - starts
    places: Longs = order[first + turns % count]
    return places
