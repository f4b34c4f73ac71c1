"""Log segments: what was written comes back, and no damage passes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import CorruptState, InvalidArgument
from evenflow.state.checkpoint.segments import HEADER_BYTES, AppliedRows, SegmentWriter, Tenure, read_segment

SCHEMA = pa.schema({"text": pa.string(), "hash": pa.int64()})

texts = st.lists(st.tuples(st.none() | st.text(max_size=5), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=5)
tenures = st.builds(Tenure, st.integers(1, 2**63), st.lists(st.integers(0, 2**31 - 1), max_size=5))
records = st.lists(texts | tenures, max_size=6)


def batch(rows):
    columns = [pa.array([row[place] for row in rows], SCHEMA.field(place).type) for place in (0, 1)]
    return pa.record_batch(columns, SCHEMA)


def written(contents, kind=memoryview):
    writer = SegmentWriter(SCHEMA)
    for content in contents:
        if isinstance(content, Tenure):
            writer.tenure(content.move, content.units)
        else:
            writer.rows(kind(batch(content).serialize()))
    parts = writer.finish()
    whole = b"".join(parts)
    assert writer.nbytes == len(whole)
    assert writer.records == len(contents)
    return whole


def read(content, name="q/log/1.1.0.a.0"):
    schema, found = read_segment(content, name)
    assert schema == SCHEMA
    return list(found)


@given(records, st.sampled_from([bytes, bytearray, memoryview]))
def test_round_trip(contents, kind):
    expected = [each if isinstance(each, Tenure) else AppliedRows(batch(each)) for each in contents]
    assert read(written(contents, kind)) == expected


@given(records, st.data())
def test_any_bit_flipped(contents, data):
    whole = bytearray(written(contents))
    whole[data.draw(st.integers(0, len(whole) - 1), "place")] ^= 1 << data.draw(st.integers(0, 7), "bit")
    with pytest.raises(CorruptState, match=r"blob q/log/1\.1\.0\.a\.0 is damaged at byte \d+"):
        read(bytes(whole))


def test_every_byte_counts():
    whole = written([[("a", 1)], Tenure(3, [1, 2, 3])])
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        with pytest.raises(CorruptState):
            read(damaged)


@given(records, st.data())
def test_any_truncation(contents, data):
    whole = written(contents)
    with pytest.raises(CorruptState, match="is damaged at byte"):
        read(whole[: data.draw(st.integers(0, len(whole) - 1), "length")])


@given(records, st.binary(min_size=1, max_size=100))
def test_bytes_after_the_end(contents, more):
    with pytest.raises(CorruptState):
        read(written(contents) + more)


def pieces(contents):
    """A segment cut into its records."""
    writer, found, at = SegmentWriter(SCHEMA), [], 0
    for content in contents:
        writer.tenure(*content)
    whole = b"".join(writer.finish())
    while at < len(whole):
        length = int.from_bytes(whole[at + 8 : at + 16], "little")
        end = at + HEADER_BYTES + length + -length % 32
        found.append(whole[at:end])
        at = end
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda all: [*all[:1], *all[2:]],
        lambda all: [*all[:2], *all[1:]],
        lambda all: [all[0], all[2], all[1], *all[3:]],
        lambda all: all[:-1],
        lambda all: [*all[:-2], all[-1]],
        lambda all: all[1:],
        lambda all: [*all, all[-1]],
        lambda all: [],
    ],
    ids=["dropped", "doubled", "swapped", "end", "last", "schema", "two ends", "nothing"],
)
def test_records_keep_their_places(change):
    all = pieces([(1, [5]), (2, [5]), (3, [5])])
    assert len(read(b"".join(all))) == 3
    with pytest.raises(CorruptState):
        read(b"".join(change(all)))


def test_a_segment_without_a_schema():
    last = pieces([])[-1]
    with pytest.raises(CorruptState):
        read_segment(last, "x")


def test_bodies_are_not_copied():
    body = bytearray(memoryview(batch([("a", 1)]).serialize()))
    writer = SegmentWriter(SCHEMA)
    writer.rows(body)
    assert any(getattr(part, "obj", None) is body for part in writer.finish())


def test_rows_are_aligned_and_use_the_memory_given():
    content = np.frombuffer(written([[("a", 1), ("b", 2)]] * 2), np.uint8).copy()
    for record in read(content):
        address = record.batch.column(1).buffers()[1].address
        assert address % 8 == 0
        assert 0 <= address - content.ctypes.data < content.nbytes


def test_what_cannot_be_written():
    writer = SegmentWriter(SCHEMA)
    with pytest.raises(InvalidArgument, match="numbered from 1"):
        writer.tenure(0, [1])
    assert writer.finish() is writer.finish()
    with pytest.raises(InvalidArgument, match="finished"):
        writer.rows(b"")


def test_a_segment_under_the_name_of_another():
    writer = SegmentWriter(SCHEMA)
    whole = b"".join(writer.finish("q/log/3.1.0.a.0"))
    assert list(read_segment(whole, "q/log/3.1.0.a.0")[1]) == []
    with pytest.raises(CorruptState, match=r"q/log/4\.1\.0\.a\.0 is damaged .* or is of another blob"):
        list(read_segment(whole, "q/log/4.1.0.a.0")[1])
