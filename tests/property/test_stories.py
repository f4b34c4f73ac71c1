"""First Story Detection against its reference: any texts, any batches, any moves."""

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.stories.lsh import Fingerprints
from evenflow.stories.similarity import Similarity
from evenflow.stories.vectors import Vectors
from tests.support import stories_reference as reference
from tests.support.stories_model import similarities

PIECES = st.sampled_from(
    [*"abcdeABC", "@", "#", "_", "http://", "HTTPS://x", " ", "é", "E\u0301", "İ", "日", "𠀀", "👍", "ß", "1"]
)
ANYTHING = st.one_of(st.none(), st.text(max_size=30), st.lists(PIECES, max_size=12).map("".join))
WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=6).map(" ".join)
TEXTS = st.lists(st.one_of(WORDS, WORDS, ANYTHING), max_size=60)
FEATURES = st.sampled_from([2, 16, 1 << 18])
SEEDS = st.integers(0, 2**32 - 1)


def makers(corpus, features):
    return Vectors(features) if corpus is None else Vectors.fit(corpus, features)


@given(st.lists(ANYTHING, max_size=8), FEATURES)
def test_vectors(texts, features):
    vectors = Vectors(features)
    found = vectors.of(texts)
    for row, text in enumerate(texts):
        cells = found.cells[found.offsets[row] : found.offsets[row + 1]].tolist()
        assert cells == list(reference.vector_of(text, vectors).items())


@given(TEXTS, st.one_of(st.none(), TEXTS), FEATURES, st.sampled_from([1, 2, 5, 500]), st.integers(1, 3), SEEDS)
@settings(max_examples=60)
def test_similarities(texts, corpus, features, history, bits, seed):
    vectors = makers(corpus, features)
    expected = list(reference.similarities(texts, vectors, Fingerprints(bits, features), history))
    assert similarities(texts, vectors, bits, history, seed=seed, sizes=(0, 1, 2, 5, 30)) == expected


@given(st.lists(st.tuples(ANYTHING, ANYTHING), max_size=20), FEATURES)
@settings(max_examples=60)
def test_cosine(pairs, features):
    vectors = Vectors(features)
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    found = Similarity(vectors)(pd.Series(left, dtype=object), pd.Series(right, dtype=object))
    for one, other, near in zip(left, right, found, strict=True):
        both = reference.vector_of(one, vectors), reference.vector_of(other, vectors)
        assert near == reference.cosine_of(*both) if all(both) else near != near
