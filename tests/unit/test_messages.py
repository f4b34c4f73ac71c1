"""Messages on the wire: any message survives the round trip, any bytes give a message or `ProtocolError`."""

import tracemalloc
import zlib
from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as kinds
from msgspec import msgpack

from evenflow.errors import ProtocolError
from evenflow.model import messages
from evenflow.model.messages import (
    MOST_ENTRIES,
    Batches,
    ConsumerReport,
    Counts,
    FeederArrivals,
    FeederHello,
    MarkedUnits,
    Message,
    Opening,
    OperatorFailed,
    RowsDurable,
    ToController,
    ToFeeder,
    ToWorker,
    Units,
    WorkerReport,
    WorkerTrouble,
)
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import (
    ARRAY_BYTES,
    BODY_BYTES,
    ENDED,
    FAILURE,
    MARKED,
    OPENING,
    SMALL,
    TO_CONTROLLER,
    TO_FEEDER,
    TO_WORKER,
    control,
    packed,
)
from evenflow.runtime.worker.moves.label import _LABEL, Label

READERS = {
    TO_CONTROLLER: get_args(ToController),
    TO_WORKER: get_args(ToWorker),
    TO_FEEDER: get_args(ToFeeder),
    OPENING: get_args(Opening),
    MARKED: (MarkedUnits,),
    ENDED: (RowsDurable,),
    FAILURE: (OperatorFailed,),
    _LABEL: (Label,),
}
"""What each reader takes."""
PAIRED = {"unit_rows": "units", "sizes": "sized", "bucket_rows": "buckets", "pending": "on_disk"}
PAIRED |= dict.fromkeys(("rows_in", "rows_out", "micros", "calls", "bytes_out"), "units")


def arrays(kind, smallest=0, largest=5):
    """Any array that a field of this kind may have."""
    dtype = np.dtype("<i4" if kind is Units else "<i8")
    numbers = st.integers(-1 if kind is Batches else 0, np.iinfo(dtype).max)
    return st.builds(np.array, st.lists(numbers, min_size=smallest, max_size=largest), st.just(dtype))


def values(kind):
    """Any value that a field may have, by its type."""
    match kind:
        case kinds.IntType():
            return st.integers(kind.ge if kind.ge is not None else -(2**63), kind.le or 2**63 - 1)
        case kinds.FloatType():
            return st.floats(kind.ge, kind.le)
        case kinds.StrType():
            return st.text(min_size=kind.min_length or 0, max_size=20)
        case kinds.BoolType():
            return st.booleans()
        case kinds.NoneType():
            return st.none()
        case kinds.LiteralType():
            return st.sampled_from(kind.values)
        case kinds.UnionType():
            return st.one_of(*map(values, kind.types))
        case kinds.TupleType():
            return st.tuples(*map(values, kind.item_types))
        case kinds.VarTupleType():
            return st.lists(values(kind.item_type), max_size=3).map(tuple)
        case kinds.ListType():
            return st.lists(values(kind.item_type), max_size=3)
        case kinds.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=3)
        case kinds.CustomType():
            return arrays(kind.cls)
        case kinds.StructType():
            return built(kind)
    raise AssertionError(f"there is no way to make a {kind}")


@st.composite
def built(draw, kind):
    fields = {}
    for field in kind.fields:
        first = fields.get(PAIRED.get(field.name))
        fields[field.name] = draw(values(field.type) if first is None else arrays(Counts, len(first), len(first)))
    return kind.cls(**fields)


def any_of(cls):
    return values(kinds.type_info(cls))


def plain(value):
    """With lists for arrays, so that messages can be compared."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.tolist())
    if isinstance(value, msgspec.Struct):
        return (type(value), [plain(getattr(value, name)) for name in value.__struct_fields__])
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


EVERY = [(reader, cls) for reader, classes in READERS.items() for cls in classes]


@pytest.mark.parametrize(("reader", "cls"), EVERY, ids=lambda each: getattr(each, "__name__", ""))
@given(data=st.data())
@settings(max_examples=20)
def test_any_message_survives_the_round_trip(reader, cls, data):
    message = data.draw(any_of(cls))
    assert plain(reader.decode(packed(message), "it")) == plain(message)


def test_every_message_has_a_reader():
    made = {cls for cls in Message.__subclasses__() if cls.__module__.startswith(messages.__name__)}
    assert made == {cls for _, cls in EVERY} - {Label}
    assert {cls.__name__ for cls in made} <= set(messages.__all__)
    assert all(cls.__doc__ for cls in made)


EXTENSIONS = st.builds(msgpack.Ext, st.integers(-128, 127) | st.sampled_from([1, 2]), st.binary())
NUMBERS = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
SCALARS = st.none() | NUMBERS | st.text() | st.binary() | EXTENSIONS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6)


@st.composite
def almost(draw, cls):
    """A message of this class in which fields are something else, missing or unknown."""
    fields = msgpack.decode(packed(draw(any_of(cls))))
    for name in draw(st.lists(st.sampled_from([*fields, "else"]), max_size=3)):
        fields[name] = draw(VALUES)
    for name in draw(st.lists(st.sampled_from([*fields]), max_size=1)):
        del fields[name]
    return msgpack.encode(fields)


@pytest.mark.parametrize("reader", READERS)
@given(data=st.data())
@settings(max_examples=50)
def test_any_bytes_give_a_message_or_a_protocol_error(reader, data):
    one = st.sampled_from(READERS[reader]).flatmap(almost)
    body = data.draw(st.binary() | VALUES.map(msgpack.encode) | one)
    try:
        found = reader.decode(body, "it")
    except ProtocolError:
        return
    assert isinstance(found, READERS[reader])
    assert plain(reader.decode(packed(found), "it")) == plain(found)


def test_a_message_is_a_control_frame():
    frame = control(WorkerReport(1, 2, 0.5))
    assert frame.kind is Kind.CONTROL
    assert TO_CONTROLLER.read(frame) == WorkerReport(1, 2, 0.5)


REPORT = {"type": "WorkerReport", "rows": 1, "frames": 1, "busy_s": 1.0}


def packed_array(code, size, data):
    return msgpack.Ext(code, size.to_bytes(8, "little") + data)


UNITS, ROWS = packed_array(1, 4, b"\1\0\0\0"), packed_array(2, 8, b"\1" + bytes(7))
ARRIVALS = {"type": "FeederArrivals", "units": UNITS, "unit_rows": ROWS}
WRONG = "holds a message 'WorkerReport' that is not right: "
NO_ARRAY = "holds a message 'FeederArrivals' that is not right: .*"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({}, "does not hold a message: Object missing required field `type`"),
        ([1], "does not hold a message: Expected `object`, got `array`"),
        ({"type": "Nonsense"}, "holds a message 'Nonsense', which is not known here"),
        ({"type": "Shutdown", "reason": "x"}, "holds a message 'Shutdown', which is not known here"),
        ({"type": "WorkerReport"}, WRONG + "Object missing required field `rows`"),
        (REPORT | {"speed": 1}, WRONG + "Object contains unknown field `speed`"),
        (REPORT | {"rows": "x"}, WRONG + r"Expected `int`, got `str` - at `\$.rows`"),
        (REPORT | {"rows": True}, WRONG + r"Expected `int`, got `bool` - at `\$.rows`"),
        (REPORT | {"rows": 1.5}, WRONG + r"Expected `int`, got `float` - at `\$.rows`"),
        (REPORT | {"rows": -1}, WRONG + r"Expected `int` >= 0 - at `\$.rows`"),
        (REPORT | {"rows": 2**63}, WRONG + r"Expected `int` <= 9223372036854775807 - at `\$.rows`"),
        (REPORT | {"busy_s": float("inf")}, WRONG + r"Expected `float` <= .* - at `\$.busy_s`"),
        (REPORT | {"busy_s": float("nan")}, WRONG + r"Expected `float` >= .* - at `\$.busy_s`"),
        (REPORT | {"busy_s": None}, WRONG + "Expected `float`, got `None` - at `\\$.busy_s`"),
        (ARRIVALS | {"units": [1, 2]}, NO_ARRAY + r"- at `\$.units`"),
        (ARRIVALS | {"units": 5}, NO_ARRAY + r"- at `\$.units`"),
        (ARRIVALS | {"units": [[[]] * 9] * 9}, NO_ARRAY + r"Expected `ext`, got `array` - at `\$.units`"),
        (ARRIVALS | {"units": {"": [{}]}}, NO_ARRAY + r"Expected `ext`, got `object` - at `\$.units`"),
        (ARRIVALS | {"units": ROWS}, NO_ARRAY + r"it holds '<i8', not '<i4' - at `\$.units`"),
        (ARRIVALS | {"unit_rows": UNITS}, NO_ARRAY + r"it holds '<i4', not '<i8' - at `\$.unit_rows`"),
        (ARRIVALS | {"units": packed_array(9, 4, bytes(4))}, NO_ARRAY + r"holds 'extension 9', not .* at `\$.units`"),
        (ARRIVALS | {"units": packed_array(-1, 4, bytes(4))}, NO_ARRAY + r"holds 'extension -1', not .* at `\$.units`"),
        (ARRIVALS | {"units": msgpack.Ext(1, b"abc")}, NO_ARRAY + r"an array has no size - at `\$.units`"),
        (ARRIVALS | {"units": packed_array(1, 5, bytes(5))}, NO_ARRAY + r"- at `\$.units`"),
        (ARRIVALS | {"units": packed_array(1, 4, b"\xff" * 4)}, NO_ARRAY + r"numbers from 0 on - at `\$.units`"),
        (ARRIVALS | {"units": packed_array(1, 400, b"x" * 4)}, NO_ARRAY + r"cannot be unpacked.* at `\$.units`"),
        (ARRIVALS | {"units": packed_array(1, 40, zlib.compress(bytes(44)))}, NO_ARRAY + "has not the 40 bytes"),
        (ARRIVALS | {"units": packed_array(1, 44, zlib.compress(bytes(44))[:-1])}, NO_ARRAY + "has not the 44 bytes"),
        (ARRIVALS | {"units": packed_array(1, 0, b"")}, NO_ARRAY + "it has 0 units and 1 unit_rows: there must be one"),
    ],
)
def test_what_is_wrong_is_said_by_name(message, said):
    with pytest.raises(ProtocolError, match=f"^a CONTROL frame {said}"):
        TO_CONTROLLER.read(Frame(Kind.CONTROL, bytearray(msgpack.encode(message))))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\xff\xfe", b"\x91" * 100_000, b"\x81\xa4type\xa1\xff"])
def test_nonsense(body):
    with pytest.raises(ProtocolError, match="a CONTROL frame does not hold a message"):
        TO_CONTROLLER.read(Frame(Kind.CONTROL, bytearray(body)))


def test_bombs_are_not_unpacked():
    """A small body must not become gigabytes: arrays of one message have a limit together."""
    rows = np.zeros(ARRAY_BYTES // 12 + 1, np.int64)
    units = rows.astype(np.int32)
    body = packed(FeederArrivals(units, rows))
    assert len(body) < ARRAY_BYTES / 100
    with pytest.raises(ProtocolError, match=f"its arrays take more than {ARRAY_BYTES} bytes"):
        TO_CONTROLLER.decode(body, "it")
    for _ in range(3):
        assert len(TO_CONTROLLER.decode(packed(FeederArrivals(units[:9], rows[:9])), "it").units) == 9


NESTED = b"\xdc\xff\xff" + b"\x90" * 0xFFFF
"""An array of empty arrays: as plain objects it takes 70 times its bytes."""


def with_field(message, name, body):
    """A message in whose field stands this body."""
    return msgpack.encode(message | {name: msgspec.Raw(body)})


REPORTED = {"type": "FeederReport", "feeding_s": 0.0, "rows_out": 0}
EMPTY_COUNTS = b"\xdf" + (MOST_ENTRIES + 1).to_bytes(4, "big") + b"\x00\x80" * (MOST_ENTRIES + 1)
NAMES = b"\xdd" + (MOST_ENTRIES + 1).to_bytes(4, "big") + b"\xa1x" * (MOST_ENTRIES + 1)


@pytest.mark.parametrize(
    ("reader", "body", "said"),
    [
        (TO_CONTROLLER, with_field(ARRIVALS, "units", NESTED), "Expected `ext`, got `array`"),
        (TO_CONTROLLER, with_field(ARRIVALS, "unit_rows", b"\x92" + NESTED * 2), "Expected `ext`, got `array`"),
        (TO_CONTROLLER, with_field(ARRIVALS, "else", NESTED), "unknown field `else`"),
        (TO_CONTROLLER, with_field(REPORTED, "connections", EMPTY_COUNTS), f"length <= {MOST_ENTRIES}"),
        (TO_WORKER, with_field({"type": "Prepare"}, "operators", NAMES), f"length <= {MOST_ENTRIES}"),
        (_LABEL, with_field({}, "touched", b"\x81\xa0" + NESTED), "Expected `ext`, got `array`"),
        (_LABEL, with_field({}, "touched", EMPTY_COUNTS), f"length <= {MOST_ENTRIES}"),
        (_LABEL, with_field({}, "evaluations", NAMES), f"length <= {MOST_ENTRIES}"),
    ],
    ids=range(8),
)
def test_bodies_are_refused_before_they_become_objects(reader, body, said):
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=said):
            reader.decode(body, "it")
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [Kind.CONTROL, Kind.OPEN, Kind.END, Kind.ERROR])
def test_a_body_over_the_limit_is_not_decoded(kind):
    said = f"a {kind.name} frame has {BODY_BYTES + 1} bytes, over the limit of {BODY_BYTES} bytes for a message"
    for reader in READERS:
        with pytest.raises(ProtocolError, match=said):
            reader.read(Frame(kind, bytes(BODY_BYTES + 1)))


def test_a_message_for_which_memory_is_not_enough_is_refused(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(zlib, "decompressobj", full)
    rows = np.zeros(SMALL, np.int64)
    with pytest.raises(ProtocolError, match="holds a message 'FeederArrivals' that is not right"):
        TO_CONTROLLER.decode(packed(FeederArrivals(rows.astype(np.int32), rows)), "it")


def test_arrays_of_another_dtype_are_not_sent():
    with pytest.raises(TypeError, match=r"FeederArrivals\.units holds '<i8', not '<i4'"):
        packed(FeederArrivals(np.arange(2), np.arange(2)))
    label = Label(1, "r", "", 0, [1], ["q"], "", {"q": np.zeros(1, np.int32)})
    with pytest.raises(TypeError, match=r"Label\.touched holds '<i4', not '<i8'"):
        label.packed()


@pytest.mark.parametrize("seed", range(3))
def test_large_arrays_are_compressed_if_that_helps(seed):
    noise = np.random.default_rng(seed).integers(0, 2**62, SMALL)
    even = np.full(SMALL, 7)
    for array, least, most in ((noise, array_bytes := noise.nbytes, 1.01), (even, 0, 0.02)):
        body = packed(FeederArrivals(np.zeros(SMALL, np.int32), array))
        assert least * 0.9 <= len(body) <= array_bytes * most
        assert (TO_CONTROLLER.decode(body, "it").unit_rows == array).all()


def test_numpys_numbers_are_plain_ones():
    found = TO_CONTROLLER.decode(packed(WorkerReport(np.int64(3), np.int32(4), np.float64(0.5))), "it")
    assert [type(value) for value in (found.rows, found.frames, found.busy_s)] == [int, int, float]


def test_texts_that_are_no_unicode_arrive_all_the_same():
    """Errors of users' code have any text."""
    found = TO_CONTROLLER.decode(packed(WorkerTrouble("\ud800", "ü")), "it")
    assert found == WorkerTrouble("\\ud800", "ü")
    units, rows = np.arange(2, dtype=np.int32), np.arange(2)
    report = ConsumerReport("r", 1.0, 0.5, 0.5, 1, 9, units, rows, units, rows, units, rows, counts={"\udcff": 1})
    found = TO_CONTROLLER.decode(packed(report), "it")
    assert found.counts == {"\\udcff": 1}
    assert found.sizes.tolist() == [0, 1]


def test_what_is_no_message_is_not_sent():
    with pytest.raises(TypeError, match="object does not go into a message"):
        packed(FeederHello("r", 0, 0, object(), 0))
