"""Texts to words, vectors and fingerprints, against plain Python."""

import math
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.stories.lsh import Fingerprints, planes
from evenflow.stories.vectors import CELL, Sparse, Vectors
from evenflow.stories.words import MOST_WORDS
from tests.support import stories_reference as reference

WORDS = [
    ("Hello, WORLD! 42 times", ["hello", "world", "42", "times"]),
    ("don't", ["don", "t"]),
    ("see http://t.co/Xy1?a=b#c now", ["see", "now"]),
    ("HTTPS://t.co", []),
    ("xhttp://y http:/z https", ["xhttp", "y", "http", "z", "https"]),
    ("RT @some_Name42: hi", ["rt", "hi"]),
    ("mail me@example.org", ["mail", "me", "example", "org"]),
    ("a @ b @", ["a", "b"]),
    ("#tag #New_York ##x", ["tag", "new", "york", "x"]),
    ("ÜBER Straße Ελλάδα ПРИВЕТ", ["über", "straße", "ελλάδα", "привет"]),
    ("e\u0301t\u00e9 \u0301x", ["e\u0301t\u00e9", "x"]),
    ("हिन्दी", ["हिन्दी"]),
    ("日本語 を話す abc", ["日", "本", "語", "を", "話", "す", "abc"]),
    ("𠀀𠀁", ["𠀀", "𠀁"]),
    ("👍🏽 ok ❤️", ["ok"]),
    ("İstanbul", ["İstanbul"]),
    ("a\u00a0b\u2019c…d", ["a", "b", "c", "d"]),
    ("\0\t\n", []),
    ("", []),
    (None, []),
]


def cells(found, row):
    return {int(word): float(weight) for word, weight in found.cells[found.offsets[row] : found.offsets[row + 1]]}


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words(text, words):
    assert reference.words_of(text) == words
    vectors = Vectors()
    assert cells(vectors.of([text]), 0) == reference.vector_of(text, vectors)
    assert cells(vectors.of([text]), 0) == cells(vectors.of([" . ".join(words)]), 0)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_any_array_of_strings(kind):
    texts = pa.array([text for text, _ in WORDS]).cast(pa.string())
    expected = Vectors().of(texts)
    given = texts.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else texts.cast(kind)
    for other in (given, pa.chunked_array([given[:5], given[5:]]), pd.Series(texts.to_pylist()), texts.to_pylist()):
        found = Vectors().of(other)
        assert found.offsets.tolist() == expected.offsets.tolist()
        assert found.cells.tolist() == expected.cells.tolist()
    part = Vectors().of(given[3:9])
    assert [cells(part, row) for row in range(6)] == [cells(expected, row) for row in range(3, 9)]


@pytest.mark.parametrize(
    "texts", [pa.array([], pa.string()), [], [None, None], pa.nulls(3), pd.Series([], dtype=object)]
)
def test_nothing_to_read(texts):
    found = Vectors().of(texts)
    assert len(found) == len(texts)
    assert len(found.cells) == 0
    assert Fingerprints().of(found).tolist() == [0] * len(texts)


@pytest.mark.parametrize(
    ("texts", "message"), [([1, 2], "int64"), ("text", "a list of texts"), (["a", 1], "strings"), (7, "strings")]
)
def test_what_is_no_text(texts, message):
    with pytest.raises(InvalidArgument, match=message):
        Vectors().of(texts)


def test_weights_have_length_one_and_follow_the_formula():
    vectors = Vectors.fit(["a b", "a c", "a", None])
    assert vectors.documents == 4
    found = cells(vectors.of(["a a b"]), 0)
    a, b = (found[reference.feature_of(word, vectors.features)] for word in "ab")
    assert a / b == pytest.approx((1 + math.log(2)) * math.log(5 / 3.5) / math.log(5 / 1.5), rel=1e-6)
    assert a * a + b * b == pytest.approx(1, abs=1e-6)


def test_fit_takes_texts_in_one_piece_or_in_several():
    texts = ["a b", "b c c", None, "d"]
    whole = Vectors.fit(texts)
    for other in (pd.Series(texts), pa.array(texts), iter(texts), [pa.array(texts[:1]), pa.array(texts[1:])]):
        assert Vectors.fit(other) == whole
    assert Vectors.fit(texts[:2]) != whole
    assert Vectors.fit([]).of(["a b"]).cells.tolist() == Vectors().of(["a b"]).cells.tolist()
    assert "documents=4" in repr(whole)
    assert repr(pickle.loads(pickle.dumps(whole))) == repr(whole)


def test_a_text_of_a_megabyte_is_bounded():
    long = " ".join(f"w{number}" for number in range(200_000))
    found = Vectors().of([long, "a" * 1_000_000, "x"])
    assert len(long) > 1_000_000
    assert MOST_WORDS * 0.98 < found.offsets[1] <= MOST_WORDS
    assert cells(found, 0) == cells(Vectors().of([" ".join(long.split()[:MOST_WORDS])]), 0)
    assert np.diff(found.offsets)[1:].tolist() == [1, 1]


def test_vectors_travel_as_binaries():
    found = Vectors().of([text for text, _ in WORDS])
    there = found.to_arrow()
    for column in (there, there.cast(pa.large_binary()), pa.concat_arrays([there[:2], there])[2:]):
        back = Sparse.from_arrow(column)
        assert back.offsets.tolist() == found.offsets.tolist()
        assert back.cells.tolist() == found.cells.tolist()
    assert Sparse.from_arrow(pa.array([None, b""], pa.binary())).offsets.tolist() == [0, 0, 0]
    assert CELL.itemsize == 8
    with pytest.raises(InvalidArgument, match="a vector has 7 bytes"):
        Sparse.from_arrow(pa.array([b"1234567"]))


def test_fingerprints_are_those_of_plain_python_and_never_change():
    texts = [text for text, _ in WORDS] + ["the quick brown fox", "the quick brown dog"]
    for bits in (1, 12, 16):
        prints = Fingerprints(bits, 1 << 10, seed=7)
        vectors = Vectors(1 << 10)
        expected = [reference.fingerprint_of(reference.vector_of(text, vectors), prints) for text in texts]
        assert prints.of(vectors.of(texts)).tolist() == expected
        assert max(expected) < 1 << bits
    assert Fingerprints().of(Vectors().of(["the quick brown fox"])).tolist() == [PINNED]
    assert planes(12, 1 << 10, 7).dtype == np.float32


PINNED = 572
"""Stored state relies on it."""


def test_texts_that_are_alike_share_fingerprints_more_often():
    random = np.random.default_rng(0)
    words = random.integers(0, 5000, (2000, 12))
    other = words.copy()
    other[:, 0] = random.integers(0, 5000, 2000)

    def prints(rows):
        return Fingerprints(8).of(Vectors().of([" ".join(f"w{word}" for word in row) for row in rows]))

    near, far = (prints(words) == prints(other)).mean(), (prints(words) == prints(words[::-1])).mean()
    assert near > 0.25
    assert far < 0.02


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vectors(1000), "features=1000: give a power of two"),
        (lambda: Vectors(1 << 23), "features=8388608"),
        (lambda: Vectors(True), "features=True"),
        (lambda: Vectors(4, documents=1, counts=[0, 0]), "counts has 2 numbers for 4 features"),
        (lambda: Vectors(2, documents=1, counts=[0, 5]), "from 0 to the number of documents"),
        (lambda: Fingerprints(0), "bits=0: give a whole number from 1 to 16"),
        (lambda: Fingerprints(17), "bits=17"),
        (lambda: Fingerprints(seed=-1), "seed=-1"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()
