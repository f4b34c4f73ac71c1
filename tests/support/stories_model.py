"""Texts for tests of First Story Detection, and the operator run over them with units that move."""

import numpy as np
import pyarrow as pa

from evenflow.stories.lsh import Fingerprints
from evenflow.stories.operator import FirstStory
from tests.support import operators_model as model


def some_texts(count, seed=0, words=60):
    """Texts of common words, with copies, nulls and empty ones among them."""
    random = np.random.default_rng(seed)
    drawn = np.minimum(random.integers(0, words, (count, 8)), random.integers(0, words, (count, 8)))
    texts = [" ".join(f"w{word}" for word in row[: random.integers(1, 9)]) for row in drawn]
    for place in np.flatnonzero(random.random(count) < 0.2)[1:]:
        texts[place] = texts[random.integers(place)]
    for place in np.flatnonzero(random.random(count) < 0.05):
        texts[place] = [None, "", "@who http://x"][random.integers(3)]
    return texts


def similarities(texts, vectors, bits=2, history=500, units=5, seed=0, **more):
    """Fingerprint and similarity of each text by copies of the operator that hand units to each other."""
    found = vectors.of(texts)
    keys, homes = model.hashed(Fingerprints(bits, vectors.features).of(found), units)
    rows = pa.record_batch({"vector": found.to_arrow()})
    table, _ = model.moving(FirstStory(history=history), rows, homes, keys, seed=seed, **more)
    return list(zip(keys.tolist(), table["similarity"].to_pylist(), strict=True))
