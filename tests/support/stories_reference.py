"""First Story Detection in plain Python, one text at a time: the results that any distributed run must have."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator

import numpy as np

from evenflow.stories.lsh import Fingerprints, planes
from evenflow.stories.vectors import Vectors
from evenflow.stories.words import ALONE, LETTER, MARK, MOST_WORDS, kind_of, lower_of

Vector = dict[int, float]
"""Weights by word, in rising order of words."""


def words_of(text: str | None) -> list[str]:
    """The words of a text."""
    found: list[str] = []
    text, at = text or "", 0
    while at < len(text):
        start, kind = at, kind_of(ord(text[at]))
        if kind == LETTER and text[at:].lower().startswith(("http://", "https://")):
            while at < len(text) and ord(text[at]) > 32:
                at += 1
        elif kind == LETTER:
            while at < len(text) and kind_of(ord(text[at])) in (LETTER, MARK):
                at += 1
            found.append(text[start:at])
            at += text[at : at + 1] == "@"  # part of a mail address, not the start of an @name
        elif text[at] == "@":
            at += 1
            while at < len(text) and (kind_of(ord(text[at])) in (LETTER, MARK) or text[at] == "_"):
                at += 1
        else:
            if kind == ALONE:
                found.append(text[at])
            at += 1
    return ["".join(chr(lower_of(ord(sign))) for sign in word) for word in found[:MOST_WORDS]]


def feature_of(word: str, features: int) -> int:
    """The number of a word: FNV-1a of its characters, mixed once more."""
    mixed = 0xCBF29CE484222325
    for sign in word:
        mixed = (mixed ^ ord(sign)) * 0x100000001B3 % 2**64
    return ((mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15 % 2**64) * features >> 64


def vector_of(text: str | None, vectors: Vectors) -> Vector:
    """A text's vector."""
    counts = Counter(feature_of(word, vectors.features) for word in words_of(text))
    rarity = vectors.rarity if len(vectors.rarity) else np.ones(vectors.features)
    raw = {word: (1 + math.log(counts[word])) * float(rarity[word]) for word in sorted(counts)}
    square = 0.0
    for weight in raw.values():
        square += weight * weight
    return {word: float(np.float32(weight / math.sqrt(square))) for word, weight in raw.items()}


def fingerprint_of(vector: Vector, prints: Fingerprints) -> int:
    """A vector's fingerprint."""
    sums = np.zeros(prints.bits)
    for word, weight in vector.items():
        sums += weight * planes(prints.bits, prints.features, prints.seed)[word].astype(np.float64)
    return sum(1 << bit for bit in range(prints.bits) if sums[bit] > 0)


def cosine_of(one: Vector, other: Vector) -> float:
    """The cosine of two vectors, to six digits."""
    total = 0.0
    for word, weight in one.items():
        if word in other:
            total += weight * other[word]
    return float(np.rint(total * 1e6) / 1e6)


def similarities(
    texts: Iterable[str | None], vectors: Vectors, prints: Fingerprints, history: int = 500
) -> Iterator[tuple[int, float | None]]:
    """The fingerprint of each text, and its greatest cosine with the last texts of the same fingerprint.

    The cosine is 0 if there are none, and None for a text without words, which is not kept.
    """
    past: dict[int, deque[Vector]] = {}
    for text in texts:
        vector = vector_of(text, vectors)
        fingerprint = fingerprint_of(vector, prints)
        if not vector:
            yield fingerprint, None
            continue
        before = past.setdefault(fingerprint, deque(maxlen=history))
        yield fingerprint, max((cosine_of(vector, other) for other in before), default=0.0)
        before.append(vector)


def alarms(
    texts: Iterable[str | None], vectors: Vectors, prints: Fingerprints, history: int = 500, tau: float = 0.2
) -> list[int]:
    """The places of the first stories."""
    found = similarities(texts, vectors, prints, history)
    return [place for place, (_, near) in enumerate(found) if near is not None and near <= tau]
