"""A small part of the fuzz (`benchmarks/fuzz.py` has the rest), and anything at all as a message."""

from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack
from tests.support import fuzz, fuzz_store, fuzz_wire
from tests.support.fuzz_wire import Line, Movements, ToController, ToWorker

from evenflow.model import messages
from evenflow.runtime.wire.frames import Frame, Kind

FEW = {"messages to the controller": 600, "frames to a worker": 400, "frames of graphs to a worker": 600}
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner), max_leaves=8
)
TYPES = [each.__name__ for each in get_args(messages.ToController | messages.Opening)]
FIELDS = ("type", "worker", "operator", "region", "evaluation", "units", "unit_rows", "feeder", "epoch", "attempt")
TYPED = st.tuples(st.sampled_from([*TYPES, "x"]), st.dictionaries(st.sampled_from(FIELDS[1:]), VALUES))
BODIES = (
    st.binary(max_size=200)
    | (st.dictionaries(st.sampled_from(FIELDS), VALUES) | VALUES).map(msgpack.encode)
    | TYPED.map(lambda drawn: msgpack.encode({"type": drawn[0]} | drawn[1]))
)


@pytest.mark.parametrize("kind", fuzz.TARGETS)
def test_a_part_of_the_fuzz(kind):
    found = fuzz.run(kind, 1, FEW.get(kind, 1500))
    assert found["refused"] > found["cases"] / 3
    assert found["peak_mb"] - found["first_mb"] < 64


def test_the_shares_make_up_the_whole():
    assert abs(sum(fuzz.shares(1_000_000).values()) - 1_000_000) < 10
    assert fuzz.shares(1_000_000).keys() == fuzz.TARGETS.keys()


@pytest.fixture(scope="module")
def controller():
    return ToController()


@pytest.fixture(scope="module")
def a_worker():
    return ToWorker()


@given(st.lists(BODIES, min_size=1, max_size=3), st.booleans())
@settings(max_examples=50)
def test_any_message_hurts_only_its_own_connection_to_the_controller(controller, bodies, known):
    line = Line()
    if known:
        controller._say(line, controller._hello(1))
    for body in bodies:
        if not line.dropped:
            controller._driver._received(line, Frame(Kind.CONTROL, body))
    if not line.dropped:
        controller._driver._lost(line, "it is over", True)
    controller._check()
    controller._begin()


@given(st.sampled_from(Kind), BODIES, st.sampled_from(range(5)), st.integers(0, 2**64 - 1))
@settings(max_examples=80)
def test_any_frame_hurts_only_its_own_connection_to_a_worker(a_worker, kind, body, after, sequence):
    line = Line()
    a_worker._worker.opened(line)
    honest = [*a_worker._opening("fuzz"), a_worker._rows(Random(0))[1], Frame(Kind.DRAIN)][:after]
    for frame in (*honest, Frame(kind, body, sequence)):
        if not line.dropped:
            a_worker._give(line, frame)
    if not line.dropped:
        a_worker._worker.lost(line, "it is over")
    assert not a_worker._worker.stopped
    a_worker._check(Random(sequence))


@given(BODIES, st.integers(0, 2**64 - 1), st.sampled_from(Kind))
def test_no_label_gets_in_without_a_ticket(body, move, kind):
    target, line = Movements(), Line()
    target._direct._received(line, Frame(kind, body, move))
    assert line.dropped
    assert isinstance(target._direct.inbox.get(), fuzz_wire.direct_transfer.DeliveryRefusedEvent)


# -- what is wrong shows


def test_a_worker_that_ends_shows(monkeypatch):
    monkeypatch.setattr(fuzz_wire.worker.Worker, "_turn_out", lambda _self, _channel, error: _raise(error))
    with pytest.raises(fuzz_wire.Wrong, match="frames to a worker, seed 1, case"):
        fuzz.run("frames to a worker", 1, 200)


def test_a_damaged_blob_that_is_read_shows(monkeypatch):
    monkeypatch.setattr(fuzz_store, "decode", lambda blob, _name: len(blob))
    with pytest.raises(fuzz_wire.Wrong, match="was changed, and read all the same"):
        fuzz.run("manifests", 1, 200)


def test_a_ticket_that_nobody_checks_shows(monkeypatch):
    monkeypatch.setattr(fuzz_wire.Label, "check", lambda *_: None)
    with pytest.raises(fuzz_wire.Wrong, match="let in that was not announced"):
        fuzz.run("movements", 1, 500)


def _raise(error):
    raise error
