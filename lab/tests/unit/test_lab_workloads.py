"""Seeded input: the same for the same seed, whoever makes which part of it."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evenflow.errors import InvalidArgument
from evenflow.workloads import tweets
from evenflow.workloads.tweets import Tweets
from evenflow_lab.workloads import newswire, zipf
from evenflow_lab.workloads.zipf import ZipfKeys


def test_any_rows_can_be_made_alone():
    made = Tweets(seed=3, words=2000)
    whole = pa.Table.from_batches(made.batches(5000, size=999))
    assert whole.schema == tweets.SCHEMA
    assert whole["id"].to_pylist() == list(range(5000))
    ids = np.array([4999, 17, 17, 0])
    assert made.rows(ids).to_pylist() == whole.take(pa.array(ids)).to_pylist()
    (there,) = made.over([pa.record_batch({"id": np.arange(100, 200)})])
    assert there.to_pylist() == whole.slice(100, 100).to_pylist()
    assert Tweets(seed=4, words=2000).rows([0, 1])["text"] != whole["text"][:2].combine_chunks()
    assert whole["text"].combine_chunks().validate(full=True) is None
    assert tweets.texts(0, 5, 9).to_pylist() == Tweets().rows(np.arange(5, 9))["text"].to_pylist()


def test_topics_rise_and_fall():
    made = Tweets(spacing=1000, life=4000, words=2000).rows(np.arange(60_000))
    topics = made["topic"].to_numpy()
    assert 0.55 < (topics >= 0).mean() < 0.65
    rows = np.flatnonzero(topics == 21)
    assert rows.min() >= 21_000
    per_thousand = np.bincount((rows - 21_000) // 1000, minlength=40)[:40]
    peak = int(per_thousand.argmax())
    assert 1 <= peak <= 12
    assert per_thousand[30:].sum() < per_thousand[peak]
    counts = np.bincount(topics[topics >= 0])
    assert counts[16] > 3 * counts[17]


def test_copies_and_common_words():
    texts = Tweets(copies=0.3).rows(np.arange(20_000))["text"]
    copies = [text.partition(" https")[0] for text in texts.to_pylist() if text.startswith("RT @")]
    own = {text for text in texts.to_pylist() if not text.startswith("RT @")}
    assert 0.28 < len(copies) / 20_000 < 0.32
    assert len(own) > 0.65 * 20_000
    _, counts = np.unique(copies, return_counts=True)
    assert counts.max() > 0.02 * len(copies)
    assert len(counts) > 0.1 * len(copies)
    words = " ".join(own).split()
    _, counts = np.unique(words, return_counts=True)
    counts.sort()
    assert counts[-1] > 0.01 * len(words)
    assert len(counts) > 5_000
    assert pc.max(pc.binary_length(texts)).as_py() < 280
    assert not any(text.startswith("RT") for text in Tweets(copies=0).rows(np.arange(500))["text"].to_pylist())


def test_how_many_texts_of_a_topic_are_copied():
    for hits in (1, 3):
        made = Tweets(copies=1.0, about=1.0, hits=hits, spacing=100_000, words=2000).rows(np.arange(1_000))
        assert len({text.split(":")[0] for text in made["text"].to_pylist()}) == hits
    assert Tweets(hits=16).rows(np.arange(50)) == Tweets().rows(np.arange(50))


def test_keys_by_zipf_in_phases():
    made = ZipfKeys(keys=100, exponents=(0.2, 1.5), rows=(10_000, 20_000), seed=5)
    ids = np.arange(60_000)
    keys, phases = made.of(ids), made.phases(ids)
    assert phases.tolist() == ([0] * 10_000 + [1] * 20_000) * 2
    assert made.changes(ids)[[0, 10_000, 30_000, 59_999]].tolist() == [0, 1, 2, 3]
    for phase, exponent in enumerate(made.exponents):
        shares = np.bincount(keys[phases == phase], minlength=100) / (phases == phase).sum()
        assert np.abs(shares - made.shares(phase)).max() < 0.01
        ranked = np.sort(made.shares(phase))[::-1]
        assert ranked == pytest.approx(ranked[0] / np.arange(1, 101) ** exponent)
    assert made.shares(0).argmax() == made.shares(1).argmax() != 0
    assert (made.of(ids[500:700]) == keys[500:700]).all()


def test_keys_that_are_known():
    known = np.array([3, 99, 1000])
    keys, changes = zipf.keys(1, 6000, known, cycles=2)
    assert set(keys.tolist()) == set(known.tolist())
    assert np.bincount(changes).tolist() == [1000, 2000, 1000, 2000]
    early, late = (np.unique(keys[changes == phase], return_counts=True)[1] for phase in (0, 1))
    assert early.max() / early.sum() < 0.45
    assert late.max() / late.sum() > 0.55


def test_stories_come_in_time_order(tmp_path):
    lines = [
        '1987-02-26T15:02:20\t2\t\tLATER <X>\tBody "two"\n',
        "\t7\ttrade\tNO TIME\tnone\n",
        "1987-02-26T15:01:01\t1\tcocoa grain\tFIRST\tBody, one\n",
    ]
    for name, opener in (("a.tsv", open), ("a.tsv.gz", gzip.open)):
        with opener(tmp_path / name, "wt") as file:
            file.writelines(lines)
        batches = list(newswire.stories(tmp_path / name, size=1))
        assert [batch.num_rows for batch in batches] == [1, 1]
        assert all(batch.schema == newswire.SCHEMA for batch in batches)
        rows = pa.Table.from_batches(batches).to_pylist()
        assert [row["id"] for row in rows] == [1, 2]
        assert rows[1]["text"] == 'LATER <X>\nBody "two"'
        assert rows[0]["topics"] == "cocoa grain"


def test_what_holds_no_stories(tmp_path):
    (tmp_path / "bad").write_text("a\tb\n")
    (tmp_path / "worse").write_text("today\t1\t\ta\tb\n")
    for name in ("bad", "worse", "missing"):
        with pytest.raises(InvalidArgument, match=f"{name} holds no stories"):
            list(newswire.stories(tmp_path / name))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tweets(words=0), "words=0"),
        (lambda: Tweets(hits=0), "hits=0"),
        (lambda: Tweets(about=1.5), "about=1.5: give a share"),
        (lambda: ZipfKeys(keys=0), "keys=0"),
        (lambda: ZipfKeys(exponents=(1.0,)), r"exponents=\(1.0,\) for rows"),
        (lambda: ZipfKeys(exponents=(-1.0,), rows=(5,)), "exponents from 0 up"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()
