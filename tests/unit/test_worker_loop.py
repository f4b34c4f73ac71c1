"""A worker's loop: what it tells the controller of frames that it refuses."""

import random

import pytest

from evenflow.model.messages import ForgetEvaluation, ToController, WorkerTrouble
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import Reader, control
from tests.support.fuzz_wire import ToWorker


@pytest.fixture
def site():
    made = ToWorker()
    yield made
    made._worker.close()


def troubles(site):
    """What the controller has heard of troubles."""
    told = (Reader(ToController).read(frame) for frame in site._worker._controller.sent if frame.kind is Kind.CONTROL)
    return [message.reason for message in told if isinstance(message, WorkerTrouble)]


def give_rows(site):
    site._give(site._honest, site._rows(random.Random(1))[1])


def test_rows_that_were_on_their_way_when_their_evaluation_failed_are_no_trouble(site):
    give_rows(site)
    assert not site._honest.dropped
    site._worker.received(site._worker._controller, control(ForgetEvaluation("r", "honest")))
    give_rows(site)
    assert site._honest.dropped
    assert troubles(site) == []


def test_a_frame_that_makes_no_sense_is_one(site):
    site._give(site._honest, Frame(Kind.RESULT))
    assert site._honest.dropped
    assert troubles(site) == ["a feeder sent a RESULT frame"]
