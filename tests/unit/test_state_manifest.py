"""Manifests: names and JSON, there and back; the newest that can be read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import CorruptState, StoreError
from evenflow.model.checkpoint import BatchLog
from evenflow.state.checkpoint.chain import QueryRecord, latest, note_operators, unfinished
from evenflow.state.checkpoint.manifest import Manifest, decode, encode, put_manifest, read_manifest
from evenflow.state.checkpoint.survey import verify
from evenflow.state.store.blob_names import (
    BlobName,
    begun_name,
    epoch_name,
    log_name,
    parse,
    prefix_of,
    units_name,
    whole_name,
)
from evenflow.state.store.layout import FORMAT
from tests.support.state_memory import Memory

number = st.integers(0, 10**12)
writer = st.builds(lambda worker, life: f"{worker}.{life}", number, st.text("0123456789abcdef", min_size=1))
text = st.text(max_size=8)
log = st.builds(BatchLog, number, number, st.dictionaries(writer, number, max_size=3))
manifest = st.builds(
    Manifest,
    region=text,
    query=text,
    operator=text,
    units=number,
    epoch=number,
    attempt=number,
    partitions=st.lists(number, max_size=3).map(tuple),
    snapshots=st.lists(text, max_size=3).map(tuple),
    logs=st.lists(log, max_size=3).map(tuple),
    kind=st.sampled_from(["epoch", "whole", "begun"]),
    expected=number,
    before=st.none() | st.tuples(number, number),
    run=text,
    written=st.floats(0, 1e10),
)

LOG = BatchLog(3, 1, {"0.a": 2, "1.b": 1})
ONE = Manifest("mean", "q", "RollingMean", 64, 3, 1, (0, 1), ("mean/q/units/2.0.a.0",), (LOG,))


@given(text, text, number, number, writer, number)
def test_names_there_and_back(region, query, epoch, attempt, writer, count):
    prefix = prefix_of(region, query)
    names = {
        log_name(prefix, epoch, attempt, writer, count): BlobName(region, query, "log", epoch, attempt, writer, count),
        units_name(prefix, epoch, writer, count): BlobName(region, query, "units", epoch, writer=writer, number=count),
        whole_name(prefix, epoch, attempt): BlobName(region, query, "whole", epoch, attempt),
        begun_name(prefix, epoch, attempt): BlobName(region, query, "begun", epoch, attempt),
        epoch_name(prefix, epoch): BlobName(region, query, "epoch", epoch),
    }
    assert {name: parse(name) for name in names} == names
    assert {parsed.prefix for parsed in names.values()} == {prefix}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "a/b/epoch",
        "a/b/epoch/",
        "a/b/epoch/x",
        "a/b/epoch/1.2",
        "a/b/other/1",
        "a/b/whole/1",
        "a/b/begun/x",
        "a/epoch/1",
    ],
)
def test_names_of_others(name):
    assert parse(name) is None


@given(manifest)
def test_json_there_and_back(given):
    found = decode(encode(given))
    assert found == given
    assert found.written == given.written


@given(manifest, st.data())
def test_any_bit_flipped(given, data):
    content = bytearray(encode(given))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptState, match="blob a/b/epoch/3 is damaged"):
        decode(bytes(content), "a/b/epoch/3")


@given(manifest, st.data())
def test_any_truncation(given, data):
    content = encode(given)
    with pytest.raises(CorruptState):
        decode(content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize(("format", "remedy"), [(FORMAT + 1, "a newer one"), (FORMAT - 1, "that one, or start anew")])
def test_another_format(format, remedy):
    with pytest.raises(StoreError, match=f"blob x has format {format}, this evenflow reads {FORMAT}: install {remedy}"):
        decode(encode(replace(ONE, format=format)), "x")


def test_what_a_manifest_needs():
    assert list(ONE.blobs()) == [
        "mean/q/units/2.0.a.0",
        "mean/q/log/3.1.0.a.0",
        "mean/q/log/3.1.0.a.1",
        "mean/q/log/3.1.1.b.0",
    ]


def put(store, kind, epoch, attempt=1, before=None):
    """A manifest, and the log it needs."""
    log = BatchLog(epoch, attempt, {"0.a": 1})
    made = replace(ONE, epoch=epoch, attempt=attempt, snapshots=(), logs=(log,), kind=kind, before=before)
    if kind == "begun":
        made = replace(made, logs=())
    for name in made.blobs():
        store.put(name, [b"rows"])
    return put_manifest(store, made)


def store_of(*manifests):
    store = Memory()
    for each in manifests:
        put(store, *each)
    return store


def test_writing_says_when():
    store = Memory()
    assert put_manifest(store, ONE) == "mean/q/epoch/3"
    assert read_manifest(store, "mean/q/epoch/3").written > 1e9


def test_nothing_yet():
    found = latest(Memory(), ONE.prefix)
    assert (found.manifest, found.wholes, found.begun, found.damaged, found.missing) == (None, (), None, (), ())


def test_the_latest_by_number_not_by_letter():
    wholes = [("whole", 10, 1), ("whole", 11, 2, (10, 1)), ("whole", 11, 10, (10, 1))]
    store = store_of(("epoch", 2), ("epoch", 9), ("epoch", 10), *wholes, ("begun", 11, 10, (10, 1)))
    found = latest(store, ONE.prefix)
    assert found.manifest is not None
    assert found.manifest.epoch == 10
    assert [each.key for each in found.wholes] == [(11, 2), (11, 10)]
    assert found.begun is not None
    assert found.begun.key == (11, 10)
    assert not found.missing


def test_other_queries_do_not_matter():
    store = store_of(("epoch", 2), ("begun", 2))
    put_manifest(store, replace(ONE, query="q2", epoch=7))
    put_manifest(store, replace(ONE, region="mean2", epoch=8))
    found = latest(store, ONE.prefix)
    assert found.manifest is not None
    assert found.manifest.epoch == 2


def test_a_damaged_one_is_passed_over_and_told():
    store = store_of(("epoch", 2), ("epoch", 3), ("whole", 3), ("whole", 4), ("begun", 4))
    for name in ("mean/q/epoch/3", "mean/q/whole/4.1"):
        store.blobs[name] = store.blobs[name].replace(b"RollingMean", b"RollingMaan")
    found = latest(store, ONE.prefix)
    assert found.manifest is not None
    assert found.manifest.epoch == 2
    assert [each.epoch for each in found.wholes] == [3]
    assert ["epoch/3" in str(found.damaged[0]), "whole/4.1" in str(found.damaged[1])] == [True, True]


def test_one_that_has_the_content_of_another():
    store = store_of(("epoch", 2), ("epoch", 3), ("begun", 4, 1, (3, 1)))
    store.blobs["mean/q/epoch/3"] = store.blobs["mean/q/epoch/2"]
    (error,) = latest(store, ONE.prefix).damaged
    assert "blob mean/q/epoch/3 is damaged" in str(error)
    assert "it holds what belongs in mean/q/epoch/2" in str(error)


# -- what is missing

FULL = (
    ("epoch", 3, 1, (2, 1)),
    ("epoch", 4, 2, (3, 1)),
    ("whole", 5, 1, (4, 2)),
    ("whole", 6, 1, (5, 1)),
    ("begun", 4, 2, (3, 1)),
    ("begun", 5, 1, (4, 2)),
    ("begun", 6, 1, (5, 1)),
)
"""Two batches after the last that is settled."""


def test_nothing_is_missing():
    found = latest(store_of(*FULL), ONE.prefix)
    assert not found.missing
    assert not unfinished(found, 7)


@pytest.mark.parametrize(
    ("gone", "missed"),
    [
        ("begun", "begun/4.2: it is missing; every attempt leaves it, and the last stays"),
        ("epoch/4", "epoch/4: it is missing; mean/q/whole/5.1 follows it"),
        ("whole/5.1", "epoch/5: it is missing; mean/q/whole/6.1 follows it"),
        ("log/4.2.0.a.0", "log/4.2.0.a.0: it is missing; mean/q/epoch/4 needs it"),
        ("log/6.1.0.a.0", "log/6.1.0.a.0: it is missing; mean/q/whole/6.1 needs it"),
    ],
)
def test_what_is_missing_is_missed(gone, missed):
    store = store_of(*FULL)
    for name in [name for name in store.blobs if name.startswith(f"mean/q/{gone}")]:
        del store.blobs[name]
    assert f"mean/q/{missed}" in [": ".join(each) for each in latest(store, ONE.prefix).missing]


def test_all_manifests_of_batches_are_missing():
    store = store_of(*FULL)
    del store.blobs["mean/q/epoch/3"], store.blobs["mean/q/epoch/4"]
    assert latest(store, ONE.prefix).missing[0][0] == "mean/q/epoch/4"


def test_a_batch_that_has_begun_and_left_no_more():
    store = store_of(*FULL)
    del store.blobs["mean/q/whole/6.1"]
    found = latest(store, ONE.prefix)
    assert not found.missing
    assert unfinished(found, 7) == "mean/q/whole/6.1"
    assert not unfinished(found, 6)  # Spark runs it again


def test_operators_that_have_vanished():
    store = store_of(("epoch", 2), ("begun", 2))
    note_operators(store, "q", QueryRecord({"mean": 0, "count": 7}))
    bad = verify(store)[0]
    assert (bad.name, bad.why) == ("count/q/", "all of it is missing; operator count came in batch 7")
