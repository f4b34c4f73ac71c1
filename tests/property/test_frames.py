"""The decoder against any bytes: the frames that were sent, or an error, or not enough yet. Never anything else."""

import contextlib
import random
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.errors import ProtocolError
from evenflow.runtime.wire import frames
from evenflow.runtime.wire.frames import HEADER, HEADER_BYTES, MAX_BODY, START, Decoder, Encoder, Frame, Kind

LIMIT = 256
"""Bodies in these tests have at most this many bytes."""
U32, U64 = 2**32 - 1, 2**64 - 1
LENGTH_AT = 8
"""Where the body's length stands in the header."""

seeds = st.integers(0, U64) | st.sampled_from([0, U64 - 1, U64])
frame = st.builds(
    Frame,
    kind=st.sampled_from(Kind),
    body=st.binary(max_size=LIMIT),
    sequence=st.integers(0, U64),
    micros=st.integers(0, U32),
    part=st.integers(0, U32),
    more=st.booleans(),
    told=st.booleans(),
    taken=st.booleans(),
)
some_frames = st.lists(frame, min_size=1, max_size=6)


def wire(frames, seed):
    """Each frame as bytes, as one connection sends them."""
    encoder = Encoder(seed, LIMIT)
    return [b"".join(encoder.encode(frame)) for frame in frames]


def decode(data, seed, cuts=()):
    """What a receiver makes of `data` arriving in pieces; the frames, and whether it ended in an error."""
    decoder, frames = Decoder(seed, LIMIT), []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        for start, end in pairwise(edges):
            frames.extend(decoder.feed(data[start:end]))
    except ProtocolError:
        return frames, "error"
    finally:
        assert decoder.target().nbytes <= LIMIT
    return frames, "clean" if decoder.clean else "waiting"


@given(some_frames, seeds, st.lists(st.integers(0), max_size=20))
def test_round_trip_under_any_chunking(frames, seed, cuts):
    assert decode(b"".join(wire(frames, seed)), seed, cuts) == (frames, "clean")


@given(st.lists(frame, min_size=1, max_size=2), seeds)
def test_round_trip_byte_by_byte(frames, seed):
    data = b"".join(wire(frames, seed))
    assert decode(data, seed, range(len(data))) == (frames, "clean")


@given(some_frames, seeds, st.data())
def test_any_byte_flipped(frames, seed, data):
    sent = wire(frames, seed)
    damaged = bytearray(b"".join(sent))
    place = data.draw(st.integers(0, len(damaged) - 1), "place")
    damaged[place] ^= data.draw(st.integers(1, 255), "flip")
    found, end = decode(bytes(damaged), seed)
    unharmed = sum(1 for count in range(1, len(sent) + 1) if len(b"".join(sent[:count])) <= place)
    assert found == frames[:unharmed]
    assert end != "clean"


@given(some_frames, seeds, st.data())
def test_any_truncation(frames, seed, data):
    sent = wire(frames, seed)
    whole = b"".join(sent)
    length = data.draw(st.integers(0, len(whole) - 1), "length")
    complete = sum(1 for count in range(1, len(sent) + 1) if len(b"".join(sent[:count])) <= length)
    on_an_edge = length == len(b"".join(sent[:complete]))
    assert decode(whole[:length], seed) == (frames[:complete], "clean" if on_an_edge else "waiting")


@given(frame, seeds, st.integers(LIMIT + 1, U32))
def test_any_oversized_length_is_refused_before_anything_is_allocated(given_frame, seed, length):
    [sent] = wire([given_frame], seed)
    damaged = sent[:LENGTH_AT] + length.to_bytes(4, "little") + sent[LENGTH_AT + 4 :]
    decoder = Decoder(seed, LIMIT)
    with pytest.raises(ProtocolError, match=f"frame 0 announces {length} bytes, over the limit of {LIMIT}"):
        list(decoder.feed(damaged[:HEADER_BYTES]))
    assert decoder.target().nbytes <= HEADER_BYTES


@given(frame, seeds, st.integers(0, LIMIT))
def test_any_other_length(given_frame, seed, length):
    assume(length != len(given_frame.body))
    [sent] = wire([given_frame], seed)
    damaged = sent[:LENGTH_AT] + length.to_bytes(4, "little") + sent[LENGTH_AT + 4 :]
    found, end = decode(damaged + bytes(LIMIT), seed)
    assert (found, end) == ([], "error")


@given(some_frames, seeds, st.data())
def test_replayed_frame(frames, seed, data):
    sent = wire(frames, seed)
    again = data.draw(st.integers(0, len(sent) - 1), "again")
    where = data.draw(st.integers(again + 1, len(sent)), "where")
    sent.insert(where, sent[again])
    assert decode(b"".join(sent), seed) == (frames[:where], "error")


@given(st.lists(frame, min_size=2, max_size=6), seeds, st.data())
def test_dropped_frame(frames, seed, data):
    sent = wire(frames, seed)
    gone = data.draw(st.integers(0, len(sent) - 2), "gone")
    del sent[gone]
    assert decode(b"".join(sent), seed) == (frames[:gone], "error")


@given(st.lists(frame, min_size=2, max_size=6), seeds, st.data())
def test_swapped_frames(frames, seed, data):
    sent = wire(frames, seed)
    first = data.draw(st.integers(0, len(sent) - 2), "first")
    second = data.draw(st.integers(first + 1, len(sent) - 1), "second")
    sent[first], sent[second] = sent[second], sent[first]
    assert decode(b"".join(sent), seed) == (frames[:first], "error")


@given(some_frames, seeds, seeds, st.data())
def test_frame_from_another_connection(frames, seed, other, data):
    place = data.draw(st.integers(0, len(frames) - 1), "place")
    assume(other != seed)
    sent, recorded = wire(frames, seed), wire(frames, other)
    sent[place] = recorded[place]
    assert decode(b"".join(sent), seed) == (frames[:place], "error")


@given(st.binary(max_size=4 * LIMIT), seeds, st.lists(st.integers(0), max_size=5))
def test_garbage(data, seed, cuts):
    found, end = decode(data, seed, cuts)
    assert found == []
    assert end == ("clean" if not data else "waiting" if len(data) < HEADER_BYTES else "error")


@given(
    st.binary(min_size=HEADER_BYTES, max_size=4 * LIMIT), seeds, st.sampled_from(Kind), st.integers(0, 7), st.binary()
)
def test_garbage_with_a_valid_beginning(data, seed, kind, flags, tail):
    start = HEADER.pack(START, kind, flags, len(tail), 0, 0, 0)[:12]
    found, end = decode(start + data + tail, seed)
    assert found == []
    assert end in ("waiting", "error")


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"HTTP", r"frame 0 starts with b'HTTP', not b'EVFL'"),
        (4, b"\x01", r"frame 0 has version 1, this side speaks 2: install the same evenflow"),
        (5, b"\x00", r"frame 0 has kind 0 and flags 0x0, which do not exist"),
        (5, b"\x63", r"frame 0 has kind 99 and flags 0x0"),
        (6, b"\x08", r"frame 0 has kind 1 and flags 0x8"),
        (20, b"\x01", r"frame 0 fails its checksum: its bytes were changed, or it was replayed or left out"),
    ],
)
def test_messages(at, value, message):
    [sent] = wire([Frame(Kind.CONTROL, b"x")], 7)
    with pytest.raises(ProtocolError, match=message):
        list(Decoder(7, LIMIT).feed(sent[:at] + value + sent[at + len(value) :]))


def test_a_header_alone_reserves_little():
    """It may announce 256 MB: that much is not set aside before it comes."""
    head = HEADER.pack(START, Kind.DATA, 0, MAX_BODY, 0, 0, 0) + bytes(8)
    tracemalloc.start()
    try:
        assert list(Decoder(0).feed(head)) == []
        assert tracemalloc.get_traced_memory()[1] < 1.5 * frames.FIRST_BODY < MAX_BODY / 20
    finally:
        tracemalloc.stop()


@given(st.integers(0, 5000), seeds, st.lists(st.integers(0), max_size=10))
def test_large_bodies_in_growing_steps(size, seed, cuts):
    body = random.Random(size).randbytes(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "FIRST_BODY", 300)
        decoder = Decoder(seed)
        data = b"".join(part for _ in range(2) for part in Encoder(seed).encode(Frame(Kind.DATA, body)))
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        found = []
        with contextlib.suppress(ProtocolError):  # the second is the first again
            for start, end in pairwise(edges):
                found += decoder.feed(data[start:end])
                assert len(decoder._body) <= max(300, 2 * end)
    assert found == [Frame(Kind.DATA, body)]


def test_nobody_sends_more_than_the_limit():
    with pytest.raises(ProtocolError, match=f"a frame of {LIMIT + 1} bytes is over the limit of {LIMIT} bytes"):
        Encoder(0, LIMIT).encode(Frame(Kind.DATA, bytes(LIMIT + 1)))
    assert MAX_BODY < 2**31


def test_a_very_long_service_time_fits():
    [sent] = wire([Frame(Kind.RESULT, micros=2**40)], 0)
    assert next(Decoder(0, LIMIT).feed(sent)).micros == U32


def test_bodies_may_be_any_buffer():
    for body in (b"abcdefgh", bytearray(b"abcdefgh"), memoryview(b"abcdefgh").cast("H")):
        [sent] = wire([Frame(Kind.DATA, body)], 0)
        assert next(Decoder(0, LIMIT).feed(sent)).body == b"abcdefgh"
