"""A worker's sessions: regions of every kind share its time by their weights, however many feeders they have."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import ProtocolError
from evenflow.model.messages import OpenOrdered
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import packed
from evenflow.runtime.worker.rows.outbox import Outbox
from evenflow.runtime.worker.rows.sessions import Sessions

ROWS = pa.record_batch({"id": [1, 2, 3]})


class Operators(dict):
    fetch = dict.get


class Feeder:
    """A connection of a feeder that always has another frame."""

    def __init__(self, site, region, operator):
        self.site, self.region = site, region
        self.unsent, self.reading, self.open, self.peer = 0, True, True, region
        self.answers = []
        site.sessions.enter(self)
        self.say(Frame(Kind.OPEN, packed(OpenOrdered(operator, region))))
        self.say(Frame(Kind.SCHEMA, memoryview(ROWS.schema.serialize())))

    def say(self, frame):
        self.site.sessions.receive(self, frame, 0.0)

    def send(self, frame):
        self.answers.append((frame.kind, frame.sequence))


class Site:
    """A worker on whose clock nothing takes time but the operators; they take the seconds in `costs`."""

    def __init__(self, qos, **costs):
        self.now = 0.0
        self.had = {}
        operators = Operators({name: SimpleNamespace(process=self.takes(cost)) for name, cost in costs.items()})
        self.open = {}
        assembly = SimpleNamespace(
            operators=operators, sessions=self.open, outbox=Outbox(0, self.open), pace=None, keyed=None, behind=False
        )
        self.sessions = Sessions(assembly, qos, lambda: self.now)

    def takes(self, cost):
        def process(batch):
            self.now += cost
            return batch

        return process

    def serve(self, *feeders, turns=1):
        """Serve so many frames; whose they were."""
        served = []
        for turn in range(turns):
            for feeder in feeders:
                if feeder not in self.sessions.waiting:
                    feeder.say(Frame(Kind.DATA, memoryview(ROWS.serialize()), turn))
            self.sessions.choose_readers(1)
            assert not any(feeder.reading for feeder in feeders if feeder in self.sessions.waiting)
            before, waited = self.now, set(self.sessions.waiting)
            assert list(self.sessions.serve_waiting()) == []
            (gone,) = waited - set(self.sessions.waiting)
            served.append(gone)
            self.had[gone.region] = self.had.get(gone.region, 0.0) + self.now - before
        return served


@pytest.mark.parametrize(("qos", "share"), [({}, 1 / 2), ({"a": 3.0}, 3 / 4), ({"b": 4.0}, 1 / 5)])
def test_ordered_regions_share_a_worker_by_weight(qos, share):
    """Whatever their frames cost: the region with long ones, and four feeders, gets no more for it."""
    site = Site(qos, short=0.01, long=0.04)
    feeders = [Feeder(site, "a", "short"), *(Feeder(site, "b", "long") for _ in range(4))]
    served = site.serve(*feeders, turns=1000)
    assert site.had["a"] / site.now == pytest.approx(share, abs=0.02)
    frames = np.array([sum(feeder is each for each in served) for feeder in feeders[1:]])
    assert frames.max() - frames.min() <= 1  # its feeders take turns


def test_a_region_alone_has_the_worker():
    site = Site({"b": 9.0}, op=0.01)
    feeder = Feeder(site, "a", "op")
    assert site.serve(feeder, turns=5) == [feeder] * 5
    assert feeder.answers == [(Kind.RESULT, turn) for turn in range(5)]


def test_rows_that_come_before_their_schema():
    site = Site({}, op=0.01)
    early = Feeder(site, "a", "op")
    site.open[early].schema = None
    with pytest.raises(ProtocolError, match="frame 0 came before its operator and its schema"):
        site.serve(early)
    assert not site.sessions.ready
