"""Every kind of blob of a checkpoint: whatever is changed in one is refused by its name, and nothing is deleted."""

import re

import numpy as np
import pyarrow as pa
import pytest

from evenflow.control.events import SaveInstruction
from evenflow.errors import CorruptState, StoreError
from evenflow.model.checkpoint import Base, BatchLog, Begun, Saved, SavedUnits, WholeAttempt
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.operator_names import Kept
from evenflow.runtime.worker.moves.direct_transfer import Parcel
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.state.checkpoint.chain import QueryRecord, note_operators, record_name
from evenflow.state.checkpoint.segments import SegmentWriter
from evenflow.state.checkpoint.survey import verify, verify_claims
from evenflow.state.checkpoint.unit_snapshots import check_units, pack_units
from evenflow.state.store.blob_names import log_name, move_name, units_name
from evenflow.state.store.claims.fence import FencedView
from evenflow.state.store.disk import LOCK_FILE
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import Place, key_of

SCHEMA = pa.schema({"x": pa.int64()})
SECRET = "correct horse battery staple"
LIFE = "0.7"
KINDS = {
    "format": "evenflow.json",
    "claim": "evenflow.claims/",
    "list": "evenflow.queries/",
    "begun": "mean/q/begun/2",
    "whole": "mean/q/whole/2",
    "epoch": "mean/q/epoch/1",
    "segment": "mean/q/log/2",
    "snapshot": "mean/q/units/0",
    "movement": "evenflow.moves/",
}


def place(where, keyed):
    return Place(where, key_of(SECRET)) if keyed else where


def put_segment(store, name):
    segment = SegmentWriter(SCHEMA)
    segment.rows(memoryview(pa.record_batch([pa.array([1, 2, 3])], SCHEMA).serialize()))
    store.put(name, segment.finish(name))


def make(where, keyed):
    """A checkpoint with all kinds: two batches settled, one whole, under two claims, and units on their way."""
    for life in range(2):
        thread = CheckpointThread(place(str(where), keyed), "a test")
        try:
            thread.add("mean", Kept("mean", 8))
            for epoch in (0, 1) if life == 0 else (2,):
                _batch(thread, epoch)
        finally:
            thread.close()
    with open_store(place(where, keyed)) as store:
        name = move_name("mean", "cluster", 3)
        store.put(name, pack_units({3: [b"units on their way"]}, name=name))


def _batch(thread, epoch):
    store, before = thread._store, (epoch - 1, 1 if epoch else 0)
    if not epoch:
        assert thread.saved("mean", "q", 0, new=True) == Saved(Base())
    order = [Begun(epoch, 1, before, "run"), WholeAttempt(epoch, 1, {LIFE: 1}, (0,), 3, before, "run")]
    if epoch < 2:
        snapshot = units_name("mean/q/", epoch - 1 if epoch else 0, LIFE, 0)
        store.put(snapshot, pack_units({0: np.arange(20)}, name=snapshot))
        saved = SavedUnits(snapshot, 0, np.zeros(1, np.int32))
        order.append(Base(epoch, 1, (saved,), (BatchLog(epoch, 1, {LIFE: 1}, (0,)),)))
    put_segment(store, log_name("mean/q/", epoch, 1, LIFE, 0))
    for content in order:
        assert thread._tried(SaveInstruction("mean", "q", "", content)) == ""


def files(where):
    return {
        str(path.relative_to(where)): path.read_bytes()
        for path in sorted(where.rglob("*"))
        if path.is_file() and path.name != LOCK_FILE
    }


def taken(where, keyed):
    """What a cluster says that takes the checkpoint for the batch after; empty if all is well."""
    try:
        thread = CheckpointThread(place(str(where), keyed), "the next")
    except (StoreError, CorruptState) as error:
        return f"{error}"
    try:
        thread.add("mean", Kept("mean", 8))
        found = thread.saved("mean", "q", 3, new=False)
        return found if isinstance(found, str) else ""
    finally:
        thread.close()


def looked_at(where, keyed):
    """What `evenflow state verify` says."""
    try:
        with open_store(place(where, keyed), create=False) as store:
            bad = verify_claims(store) or verify(FencedView(store))
    except (StoreError, CorruptState) as error:
        return f"{error}"
    return "; ".join(f"{each.name}: {each.why}" for each in bad)


def changes(content):
    """The content with something changed: each of some bits, each digit, the end cut off, something at its end."""
    for place in {0, 1, len(content) // 3, len(content) // 2, len(content) - 2}:
        yield content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
    if content.startswith(b"{"):
        for match in re.finditer(rb"[0-9]", content):
            at = match.start()
            yield content[:at] + (b"%d" % ((int(match[0]) + 1) % 10)) + content[at + 1 :]
    yield content[: len(content) // 2]
    yield b""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with a key"])
def made(request, tmp_path_factory):
    where = tmp_path_factory.mktemp("state") / "state"
    make(where, request.param)
    assert looked_at(where, request.param) == ""
    return where, request.param


def test_the_table_has_all_kinds(made):
    where, keyed = made
    own = {"evenflow.key"} if keyed else set()
    unknown = [name for name in files(where) if not name.startswith(tuple(KINDS.values())) and name not in own]
    assert [name for name in unknown if not re.fullmatch(r"mean/q/(log|begun|whole|epoch|units)/-?[01].*", name)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_refused_by_name(made, kind):
    where, keyed = made
    name = max(name for name in files(where) if name.startswith(KINDS[kind]))
    path, before = where / name, files(where)
    plain = name.partition("~")[0]
    for wrong in changes(before[name]):
        path.write_bytes(wrong)
        assert plain in looked_at(where, keyed), wrong
        path.write_bytes(before[name])
    assert files(where) == before


@pytest.mark.parametrize("kind", ["format", "claim", "list", "begun", "whole", "epoch", "snapshot"])
def test_a_change_is_refused_before_anything_is_deleted_and_may_be_put_back(made, kind):
    """What is left of a refused start, a claim, is in nobody's way."""
    where, keyed = made
    name = max(name for name in files(where) if name.startswith(KINDS[kind]))
    path, before = where / name, files(where)
    for wrong in list(changes(before[name]))[::7]:
        path.write_bytes(wrong)
        assert name.partition("~")[0] in taken(where, keyed), wrong
        path.write_bytes(before[name])
        now = files(where)
        moves = KINDS["movement"]
        assert {each: now.get(each) for each in before if not each.startswith(moves)} == {
            each: text for each, text in before.items() if not each.startswith(moves)
        }
    assert taken(where, keyed) == ""


@pytest.mark.parametrize("kind", ["claim", "list", "begun", "whole", "epoch", "segment", "snapshot"])
def test_the_content_of_another_blob_is_refused(made, kind):
    where, keyed = made
    name = max(name for name in files(where) if name.startswith(KINDS[kind]))
    plain, folder = name.partition("~")[0], name.rpartition("/")[0]
    with open_store(place(where, keyed)) as store:
        right = bytes(store.get(name))
        note_operators(store, "p", QueryRecord({"mean": 0}))
        snapshot = units_name("mean/q/", 1, LIFE, 5)
        store.put(snapshot, pack_units({0: np.arange(20)}, name=snapshot))
        beside = store.names(f"{folder}/") + store.names("mean/q/begun/")  # of whole attempts there is only one
        other = next(other for other, _ in beside if other.partition("~")[0] != plain)
        store.put(name, [bytes(store.get(other))])
        store.delete([record_name("p"), snapshot])
    assert plain in looked_at(where, keyed)
    with open_store(place(where, keyed)) as store:
        store.put(name, [right])
    assert looked_at(where, keyed) == ""


def test_units_on_their_way_carry_the_name_of_their_blob(tmp_path):
    transfer = StoreTransfer(str(tmp_path / "state"), "c", lambda: None)
    transfer._put("mean", Parcel(3, [b"x"]))
    transfer.close()
    with open_store(tmp_path / "state") as store:
        right, other = move_name("mean", "c", 3), move_name("mean", "c", 4)
        content = bytes(store.get(right))
        check_units(lambda start, length: content[start : start + length], right)
        with pytest.raises(CorruptState, match=re.escape(other)):
            check_units(lambda start, length: content[start : start + length], other)
