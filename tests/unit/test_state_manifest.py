"""Manifests: names and JSON, there and back; the newest that can be read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import CorruptState, StoreError
from evenflow.state.manifest import (
    BlobName,
    Log,
    Manifest,
    decode,
    encode,
    epoch_name,
    latest,
    log_name,
    parse,
    prefix_of,
    put_epoch,
    put_task,
    read_manifest,
    task_name,
    units_name,
)
from tests.unit.state_memory import Memory

number = st.integers(0, 10**12)
writer = st.builds(lambda worker, life: f"{worker}.{life}", number, st.text("0123456789abcdef", min_size=1))
text = st.text(max_size=8)
log = st.builds(Log, number, number, st.dictionaries(writer, number, max_size=3))
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
    written=st.floats(0, 1e10),
)

LOG = Log(3, 1, {"0.a": 2, "1.b": 1})
ONE = Manifest("mean", "q", "RollingMean", 64, 3, 1, (0, 1), ("mean/q/units/2.0.a.0",), (LOG,))


@given(text, text, number, number, writer, number)
def test_names_there_and_back(region, query, epoch, attempt, writer, count):
    prefix = prefix_of(region, query)
    names = {
        log_name(prefix, epoch, attempt, writer, count): BlobName(region, query, "log", epoch, attempt, writer, count),
        units_name(prefix, epoch, writer, count): BlobName(region, query, "units", epoch, writer=writer, number=count),
        task_name(prefix, epoch, attempt, count): BlobName(region, query, "task", epoch, attempt, number=count),
        epoch_name(prefix, epoch): BlobName(region, query, "epoch", epoch),
    }
    assert {name: parse(name) for name in names} == names
    assert {parsed.prefix for parsed in names.values()} == {prefix}


@pytest.mark.parametrize(
    "name",
    ["", "a", "a/b/epoch", "a/b/epoch/", "a/b/epoch/x", "a/b/epoch/1.2", "a/b/other/1", "a/b/task/1.2", "a/epoch/1"],
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


def test_a_newer_format():
    with pytest.raises(StoreError, match="blob x has format 2, this evenflow reads up to 1: install a newer one"):
        decode(encode(replace(ONE, format=2)), "x")


def test_what_a_manifest_needs():
    assert list(ONE.blobs()) == [
        "mean/q/units/2.0.a.0",
        "mean/q/log/3.1.0.a.0",
        "mean/q/log/3.1.0.a.1",
        "mean/q/log/3.1.1.b.0",
    ]


def store_with(*epochs, tasks=()):
    store = Memory()
    for epoch in epochs:
        put_epoch(store, replace(ONE, epoch=epoch))
    for epoch, attempt, partition in tasks:
        put_task(store, replace(ONE, epoch=epoch, attempt=attempt, partitions=(partition,), snapshots=()))
    return store


def test_writing_says_when():
    store = Memory()
    assert put_epoch(store, ONE) == "mean/q/epoch/3"
    assert read_manifest(store, "mean/q/epoch/3").written > 1e9
    with pytest.raises(StoreError, match="it is about one"):
        put_task(store, ONE)


def test_nothing_yet():
    found = latest(Memory(), ONE.prefix)
    assert (found.manifest, found.tasks, found.damaged) == (None, (), ())


def test_the_latest_by_number_not_by_letter():
    found = latest(store_with(2, 9, 10, tasks=[(10, 1, 0), (11, 2, 0), (11, 10, 1), (11, 2, 1)]), ONE.prefix)
    assert found.manifest is not None
    assert found.manifest.epoch == 10
    assert [(task.epoch, task.attempt, task.partitions) for task in found.tasks] == [
        (11, 2, (0,)),
        (11, 2, (1,)),
        (11, 10, (1,)),
    ]


def test_other_queries_do_not_matter():
    store = store_with(2)
    put_epoch(store, replace(ONE, query="q2", epoch=7))
    put_epoch(store, replace(ONE, region="mean2", epoch=8))
    found = latest(store, ONE.prefix)
    assert found.manifest is not None
    assert found.manifest.epoch == 2


def test_a_damaged_one_is_passed_over_and_told():
    store = store_with(2, 3, tasks=[(3, 1, 0), (4, 1, 0)])
    for name in ("mean/q/epoch/3", "mean/q/task/4.1.0"):
        store.blobs[name] = store.blobs[name].replace(b"RollingMean", b"RollingMaan")
    found = latest(store, ONE.prefix)
    assert found.manifest is not None
    assert found.manifest.epoch == 2
    assert [task.epoch for task in found.tasks] == [3]
    assert ["epoch/3" in str(found.damaged[0]), "task/4.1.0" in str(found.damaged[1])] == [True, True]
