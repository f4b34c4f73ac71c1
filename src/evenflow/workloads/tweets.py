"""Generated texts like tweets: topics that rise and fall, copies of each other, and words by Zipf's law.

Every row is a function of the seed and its number alone, so that any task can make any rows: in Spark,

    spark.range(1_000_000).mapInArrow(Tweets(seed=1).over, "id long, time timestamp, topic int, text string")

A topic begins every `spacing` rows. Its share of the rows rises for `life` rows and then fades; some topics are much
larger than others. A row is about a topic or about nothing in particular. Many rows are copies ("RT @name: ...") of a
few that spread far, some with a word changed or a link added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.model.compiled import compiled
from evenflow.workloads.draws import drawn, locked, uniform

SCHEMA = pa.schema(
    {"id": pa.int64(), "time": pa.timestamp("us", "UTC"), "topic": pa.int32(), "text": pa.string()},
)
BEGIN_US = 1_451_606_400_000_000
"""The first row's time: 2016-01-01, in microseconds."""
QUANTILES = 1 << 20
TOPIC_WORDS = 24
MEMES = 4096
"""The number of rows about no topic that get copied."""
MOST_BYTES = 320
"""Bytes of a text, at most."""
LEAST_WORDS, MORE_WORDS = 6, 12
SYLLABLES = [consonant + vowel for consonant in "bdfghklmnprstvwz" for vowel in "aeiou"]


@dataclass(frozen=True)
class Tweets:
    """Rows id, time, topic (-1: none) and text."""

    seed: int = 0
    words: int = 30_000
    """The size of the vocabulary; the share of word r is proportional to 1 / (r + 2) ** `zipf`."""
    zipf: float = 1.2
    spacing: int = 2_000
    life: int = 20_000
    about: float = 0.6
    """The share of rows that are about a topic."""
    copies: float = 0.6
    """The share of rows that are copies."""
    hits: int = 16
    """The number of rows about each topic that get copied; the first of them has hits ** -0.25 of the copies."""
    rate: float = 1_000.0
    """Rows per second of event time."""

    def __post_init__(self) -> None:
        for name in ("words", "spacing", "life", "rate", "hits"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name}={getattr(self, name)!r}: give a number above 0")
        for name in ("about", "copies"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidArgument(f"{name}={getattr(self, name)!r}: give a share, from 0 to 1")

    def rows(self, ids: npt.ArrayLike) -> pa.RecordBatch:
        """The rows with these numbers."""
        numbers = locked(np.asarray(ids, np.int64))
        letters, ends, ranks = _vocabulary(self.seed, self.words, self.zipf)
        data, offsets = np.empty(MOST_BYTES * len(numbers), np.uint8), np.zeros(len(numbers) + 1, np.int32)
        topics = np.empty(len(numbers), np.int32)
        shape = np.uint64(self.seed), self.spacing, self.life, self.about, self.copies, self.hits
        _write(numbers, *shape, letters, ends, ranks, topics, data, offsets)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[: offsets[-1]].copy())]
        text = pa.Array.from_buffers(pa.string(), len(numbers), buffers)
        times = pa.array(BEGIN_US + (numbers * (1e6 / self.rate)).astype(np.int64)).cast(SCHEMA.field("time").type)
        return pa.RecordBatch.from_arrays([pa.array(numbers), times, pa.array(topics), text], schema=SCHEMA)

    def batches(self, rows: int, size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """The first `rows` rows, in batches of `size`."""
        for start in range(0, rows, size):
            yield self.rows(np.arange(start, min(start + size, rows)))

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows whose numbers are in the first column of the given batches."""
        for batch in batches:
            yield self.rows(batch.column(0).to_numpy())


def texts(seed: int, start: int, stop: int) -> pa.Array:
    """The texts of rows `start` to `stop`, with default settings."""
    return Tweets(seed).rows(np.arange(start, stop)).column("text")


@lru_cache(4)
def _vocabulary(
    seed: int, words: int, zipf: float
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The letters of all words, commonest first; where each word ends; and the word at each quantile of frequency."""
    random = np.random.RandomState(seed)
    made: dict[str, None] = {}
    while len(made) < words:
        length = 1 + np.minimum(np.arange(len(made), words) // 60, 1) + random.randint(0, 3, words - len(made))
        picks = random.randint(0, len(SYLLABLES), (words - len(made), 5))
        several = ("".join(SYLLABLES[p] for p in row[:many]) for row, many in zip(picks, length, strict=True))
        made.update(dict.fromkeys(several))
    texts = [word.encode() for word in made]
    shares = np.cumsum(1.0 / (np.arange(words) + 2.0) ** zipf)
    ranks = np.searchsorted(shares, (np.arange(QUANTILES) + 0.5) / QUANTILES * shares[-1])
    ends = np.cumsum([len(text) for text in texts])
    letters = np.frombuffer(b"".join(texts), np.uint8)
    return locked(letters), locked(np.concatenate([[0], ends])), locked(ranks.astype(np.int32))


@compiled
def _topic_of(row, seed, spacing, life, about):  # type: ignore[no-untyped-def]
    """The topic of a row, -1 for none. The topic's age is drawn so that each age is as frequent as it is popular."""
    if uniform(seed, row, 1) >= about:
        return np.int64(-1)
    age = -0.5 * life * (np.log(1.0 - uniform(seed, row, 2)) + np.log(1.0 - uniform(seed, row, 3)))
    topic = np.int64(max(0.0, row - age)) // spacing
    great = uniform(seed, row, 4)
    if great < 0.7:
        return topic - topic % 16
    return topic - topic % 4 if great < 0.9 else topic


@compiled
def _source_of(row, topic, seed, copies, hits):  # type: ignore[no-untyped-def]
    """The number that a row's words are drawn by: its own, or that of the row it copies (negative)."""
    if uniform(seed, row, 5) >= copies:
        return row
    far = uniform(seed, row, 11)
    which = np.int64(far**3 * MEMES) if topic < 0 else np.int64(far**4 * hits)
    return -1 - ((topic + 1) * MEMES + which)


@compiled
def _word(row, place, topic, seed, ranks, count):  # type: ignore[no-untyped-def]
    """The number of a word: one of the topic's own words, the first ones more often, or any word."""
    if topic >= 0 and uniform(seed, row, 64 + 2 * place) < 0.7:
        own = np.int64(uniform(seed, row, 65 + 2 * place) ** 2 * TOPIC_WORDS)
        return np.int64(drawn(seed ^ np.uint64(0x70), topic, own) % np.uint64(count))
    return np.int64(ranks[drawn(seed, row, 65 + 2 * place) % np.uint64(QUANTILES)])


@compiled
def _put(text, data, at):  # type: ignore[no-untyped-def]
    for letter in text:
        data[at] = letter
        at += 1
    return at


@compiled
def _number(value, data, at):  # type: ignore[no-untyped-def]
    """Write a number as six letters; returns where they end."""
    for _ in range(6):
        data[at] = 97 + value % 26
        value //= 26
        at += 1
    return at


@compiled
def _write(rows, seed, spacing, life, about, copies, hits, letters, ends, ranks, topics, data, offsets):  # type: ignore[no-untyped-def]
    """Write texts to `data`, their ends to `offsets`, and the topics of rows to `topics`."""
    at, count = 0, len(ends) - 1
    for which in range(len(rows)):
        row = rows[which]
        topic = _topic_of(row, seed, spacing, life, about)
        source = _source_of(row, topic, seed, copies, hits)
        if source != row:
            at = _put(b"RT @", data, at)
            at = _number(np.int64(drawn(seed, source, 6) % np.uint64(100_000)), data, at)
            at = _put(b": ", data, at)
        many = LEAST_WORDS + np.int64(uniform(seed, source, 7) * MORE_WORDS)
        changed = np.int64(uniform(seed, row, 8) * 4 * many) if source != row else np.int64(-1)
        for place in range(many):
            word = _word(row if place == changed else source, place, topic, seed, ranks, count)
            if place:
                at = _put(b" ", data, at)
            if topic >= 0 and place == 2:
                at = _put(b"#", data, at)
            at = _put(letters[ends[word] : ends[word + 1]], data, at)
        if uniform(seed, row, 9) < 0.2:
            at = _put(b" https://t.co/", data, at)
            at = _number(np.int64(drawn(seed, row, 10) % np.uint64(1 << 40)), data, at)
        topics[which], offsets[which + 1] = topic, at
