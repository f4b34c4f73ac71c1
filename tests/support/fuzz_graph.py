"""Fuzzed senders of rows of graphs: feeders and workers whose frames are not what they should be, to one worker."""

from __future__ import annotations

import pickle
import random
from functools import reduce
from operator import xor
from typing import cast

import numpy as np
import pyarrow as pa

from evenflow.graph.hosted import HostedGraph
from evenflow.model.messages import GraphRouting, OpenKeyed, OpenPeer, PauseUnits
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.flows import MARK, flow_frame, read_mark
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import control, packed
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.loop import Worker
from tests.support.fuzz_wire import FRESH, NO_SOCKETS, SECRET, Line, Wrong, mutated
from tests.support.graph_nodes import SCHEMA
from tests.support.graph_plans import Sketch

HONEST, OTHER = 2**40 + 1, 2**41 + 1
"""Numbers of feeders, which no change hits by chance."""


class ToGraph:
    """Frames of graphs: they cost their sender the connection, or nothing; others are served, and rightly."""

    def __init__(self) -> None:
        self._count = 0
        sketch = Sketch(1)
        sketch.add("mark", sketch.add("keep", 0))
        self._hosted = HostedGraph(sketch.ended().plan())
        self._begin()

    def _begin(self) -> None:
        self._worker = Worker(Settings("fuzz", "nowhere", 1, SECRET, 1.0, 1.0), 0, (0, 0), NO_SOCKETS)
        self._worker.assembly.operators.keep("op", pickle.dumps(self._hosted), set())
        owners = np.zeros(self._hosted.units, np.int32)
        routing = GraphRouting("r", "op", 9, (), owners, 1, ())
        self._worker.received(self._worker._controller, control(routing))
        self._sequence = 0
        self._honest = self._called("honest", self._opening("honest", HONEST))
        if [frame.kind for frame in self._honest.sent] != [Kind.FLUSH]:
            raise Wrong(f"an honest feeder is not let in: {list(self._honest.sent)}")

    def _called(self, name: str, frames: list[Frame]) -> Line:
        line = Line(name)
        self._worker.opened(cast(Channel, line))
        for frame in frames:
            self._give(line, frame)
        return line

    def _opening(self, evaluation: str, feeder: int) -> list[Frame]:
        request = OpenKeyed("op", "r", evaluation, feeder, self._hosted.units, version=1)
        schema = Frame(Kind.SCHEMA, bytes(pa.schema([]).serialize()))
        return [Frame(Kind.OPEN, packed(request)), schema, Frame(Kind.FLUSH)]

    def _rows(self, draw: random.Random, feeder: int) -> Frame:
        columns = [[draw.randrange(1000) for _ in range(draw.randrange(1, 5))]] * len(SCHEMA)
        batch = pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)
        self._sequence += 1
        return flow_frame(self._sequence, 7, 0, feeder, [0], memoryview(batch.serialize()), batch.num_rows)

    def _give(self, line: Line, frame: Frame) -> None:
        """As the worker's loop would."""
        self._worker.received(cast(Channel, line), frame)
        while self._worker._sessions.ready:
            self._worker.serve_waiting()
        self._worker.tend_flows(0.0)

    def case(self, draw: random.Random) -> str:
        """A feeder, or another worker, sends one frame that is not right."""
        self._count += 1
        if self._count % FRESH == 0:
            self._worker.close()
            self._begin()
        rest = [self._rows(draw, OTHER), Frame(Kind.MARKER, MARK.pack(OTHER), 1), Frame(Kind.FLUSH, b"", 1)]
        rest.append(Frame(Kind.DONE, MARK.pack(5), 7))
        frames = [*self._opening("fuzz", OTHER), *rest[: draw.choice((3, 4))]]
        if draw.random() < 0.5:
            frames = [Frame(Kind.OPEN, packed(OpenPeer(1))), *rest[:3], Frame(Kind.PROBE, b"", 5)]
        if draw.random() < 0.2:
            pause = PauseUnits(self._count, "r", (0,), draw.randrange(2))
            self._worker.received(self._worker._controller, control(pause))
        which = draw.randrange(len(frames))
        frames[which] = mutated(draw, frames[which], message=not which)
        line = Line()
        self._worker.opened(cast(Channel, line))
        for frame in frames:
            if not line.dropped:
                self._give(line, frame)
        failed = any(frame.kind is Kind.ERROR for frame in line.sent)
        if not line.dropped:
            self._worker.lost(cast(Channel, line), "it is over")
        self._check(draw)
        return "refused" if line.dropped or failed else "harmless"

    def _check(self, draw: random.Random) -> None:
        """Somebody who makes sense is answered: the frame is processed, with nothing left of it."""
        if self._worker.stopped:
            raise Wrong(f"the worker has ended: {self._worker.stopped}")
        frame = self._rows(draw, HONEST)
        self._honest.sent.clear()
        self._give(self._honest, frame)
        done = [each for each in self._honest.sent if each.kind is Kind.DONE]
        if self._honest.dropped or not done:
            raise Wrong(f"an honest feeder got {len(done)} answers, or was turned out")
        unit_rows = self._worker.assembly.keyed_parts().flows.unit_rows
        if len(unit_rows.queue):
            raise Wrong("frames are left in the queue")
        paused = unit_rows.routings["r"].ways.moving  # type: ignore[union-attr]
        left = reduce(xor, map(read_mark, done))  # a frame may take several turns, each with an answer
        if left != frame.sequence and not paused:
            raise Wrong("an honest feeder's frame is said to have caused others")
