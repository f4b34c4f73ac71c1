"""FirstStory and the similarity of texts, against plain Python."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import identity
from evenflow.rules.operator import RuleOperator
from evenflow.stories import nearest
from evenflow.stories.lsh import Fingerprints
from evenflow.stories.operator import FirstStory
from evenflow.stories.similarity import Similarity, cosine
from evenflow.stories.vectors import CELL, Vectors
from evenflow.testing import check_operator
from tests.support import stories_reference as reference
from tests.support.stories_model import similarities, some_texts

ROWS = pa.schema({"vector": pa.binary()})


def process(operator, texts, keys=None):
    column = Vectors().of(texts).to_arrow()
    keys = np.zeros(len(texts), np.int64) if keys is None else np.asarray(keys)
    result = operator.process(pa.record_batch({"vector": column}), (keys % 3).astype(np.int32), keys)
    return result["similarity"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("history", [1, 2, 7, 500])
@pytest.mark.parametrize("fitted", [False, True])
def test_the_same_as_the_reference(history, fitted):
    texts = some_texts(1500)
    makers = Vectors.fit(texts[:300], 1 << 12) if fitted else Vectors(1 << 12)
    expected = list(reference.similarities(texts, makers, Fingerprints(2, 1 << 12), history))
    assert similarities(texts, makers, history=history) == expected
    near = [found for _, found in expected if found is not None]
    assert 10 < sum(found <= 0.2 for found in near) < len(near) - 100


def test_alarms_of_the_reference():
    texts = ["a b", "a b", None, "c d", "", "c d e"]
    assert reference.alarms(texts, Vectors(), Fingerprints(1), 1, 1.0) == [0, 1, 3, 5]
    prints = Fingerprints().of(Vectors().of(texts))
    first = [0, 3, 5] if prints[5] != prints[3] else [0, 3]
    assert reference.alarms(texts, Vectors(), Fingerprints()) == first


def test_what_is_first_what_is_alike_and_what_says_nothing():
    operator = FirstStory(history=2)
    assert process(operator, ["a b c d e", "a b c d e", "f", None, "", "a x y z w"]) == [0, 1, 0, None, None, 0.2]
    assert process(operator, ["a b c d e"]) == [0.2]  # the two that were the same are gone


def test_keys_are_apart():
    assert process(FirstStory(), ["a b", "a b", "a b", "a"], [1, 2, 1, 2]) == [
        0,
        0,
        1,
        pytest.approx(0.5**0.5, abs=1e-6),
    ]


def test_texts_of_thousands_of_words_beside_short_ones():
    random = np.random.default_rng(2)
    texts = [" ".join(f"w{word}" for word in random.integers(0, 9000, size)) for size in (5000, 3, 900, 1, 2500) * 3]
    expected = list(reference.similarities(texts, Vectors(), Fingerprints(1), 4))
    assert similarities(texts, Vectors(), bits=1, history=4, sizes=(1, 2, 3)) == expected


def test_laws():
    texts = some_texts(300, seed=3)
    found = Vectors().of(texts)
    rows = pa.table({"key": Fingerprints(3).of(found), "n": np.arange(300), "vector": found.to_arrow()})
    check_operator(FirstStory(history=5), rows, key="key", rounds=4)


def test_room_is_reused_and_sizes_tell_of_it():
    operator = FirstStory(history=20)
    every = np.arange(3, dtype=np.int32)
    assert not operator.sizes(every).any()
    texts = [" ".join(f"w{word}" for word in row) for row in np.random.default_rng(0).integers(0, 99, (3000, 10))]
    for start in range(0, 3000, 100):
        process(operator, texts[start : start + 100], np.arange(100) % 30)
    cells = len(operator._state.cells)
    assert 30 * 20 * 9 < cells < 30 * 20 * 11 * 8
    assert (operator.sizes(every) > 10 * 20 * 9 * 8).all()
    for _ in range(20):
        states = {unit: operator.extract(unit) for unit in range(3)}
        assert not operator.sizes(every).any()
        for unit, state in states.items():
            operator.install(unit, state)
    assert len(operator._state.cells) <= 2 * cells
    assert len(pa.py_buffer(states[0][3])) < 10 * 20 * 11 * 8 * 1.2


def test_a_snapshot_is_what_extract_gives_and_changes_nothing():
    operator = FirstStory()
    texts = some_texts(50)
    process(operator, texts)
    one, other, taken = operator.snapshot(0), operator.snapshot(0), operator.extract(0)
    for part, same, gone in zip(one, other, taken, strict=True):
        assert part.tolist() == same.tolist() == gone.tolist()
    assert operator.snapshot(0) is operator.extract(0) is None


def test_nothing_is_compiled_after_the_warm_up():
    operator = FirstStory(history=3)
    Hosted(operator, ROWS, ROWS, 16).warm_up()
    functions = [value for value in vars(nearest).values() if hasattr(value, "signatures")]
    before = {function.__qualname__: list(function.signatures) for function in functions}
    assert before["_compare"]
    assert before["_pack"]
    texts = some_texts(500)
    column = pa.ipc.read_record_batch(
        pa.py_buffer(bytearray(pa.record_batch({"vector": Vectors().of(texts).to_arrow()}).serialize())), ROWS
    )
    keys = np.arange(500) % 70
    operator.process(column, (keys % 9).astype(np.int32), keys)
    for unit in range(9):
        operator.install(unit, operator.extract(unit))
    operator.sizes(np.arange(9, dtype=np.int32))
    assert {function.__qualname__: list(function.signatures) for function in functions} == before


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (b"1234567", "holds no vectors: a vector has 7 bytes"),
        (np.array([(-1, 1)], CELL).tobytes(), "words from -1 to -1"),
    ],
)
def test_what_is_no_vector(vector, message):
    with pytest.raises(FunctionError, match=message):
        FirstStory().process(pa.record_batch({"vector": [vector]}), np.zeros(1, np.int32), np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FirstStory(history=0), "history=0: give a whole number from 1"),
        (lambda: FirstStory(history=2.5), "history=2.5"),
        (lambda: FirstStory(""), "column is ''"),
        (
            lambda: FirstStory("text").schema(pa.schema({"text": pa.string()})),
            r"needs vectors as binaries, column 'text'",
        ),
        (lambda: FirstStory("v").schema(ROWS), "needs column 'v', which does not exist"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_operators_on_other_vectors_are_others():
    assert identity(FirstStory(made="seed 1")) != identity(FirstStory(made="seed 2"))


def test_cosine_of_texts():
    left = pd.Series(["a b c d e", "a", None, "x", "a b"], index=[5, 6, 7, 8, 9])
    right = pd.Series(["a v w x y", "A!", "a", "", "c"])
    found = cosine(left, right)
    assert found.index.tolist() == left.index.tolist()
    assert found.dropna().tolist() == [0.2, 1.0, 0.0]
    assert found.isna().tolist() == [False, False, True, True, False]
    assert cosine(left[:0], right[:0]).tolist() == []
    with pytest.raises(InvalidArgument, match="5 texts on the left and 4 on the right"):
        cosine(left, right[:4])


def test_the_rule_of_the_paper_finds_the_same():
    """Listing 1.1, but for the first row of a key: without neighbours it has no greatest similarity, and no alarm."""
    texts = [text for text in some_texts(600, seed=4) if text and text[0] == "w"]
    makers = Vectors.fit(texts)
    found = similarities(texts, makers, history=20)
    keys = np.array([key for key, _ in found])
    rule = """SELECT * FROM Tweet.std:lastevent() LE, Tweet.std:groupwin(fingerprint).win:length(20) TW
              WHERE LE.fingerprint = TW.fingerprint HAVING max(similarity(LE.text, TW.text)) <= 0.2"""
    operator = RuleOperator(rule, {"similarity": Similarity(makers)}, key=["fingerprint"])
    rows = pa.record_batch({"n": np.arange(len(texts)), "fingerprint": keys, "text": texts})
    operator.schema(rows.schema)
    result, _ = operator.process(rows, (keys % 3).astype(np.int32), keys)
    _, first = np.unique(keys, return_index=True)
    alarms = [place for place, (_, near) in enumerate(found) if near <= 0.2 and place not in first]
    assert result["n"].to_pylist() == alarms
    assert len(alarms) > 10
