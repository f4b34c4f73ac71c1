"""Divides a frame: rows for units that leave this worker, and rows for units that stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import xor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.graph.hosted import HostedGraph
from evenflow.runtime.wire.flows import FlowHead, flow_frame
from evenflow.runtime.wire.frames import Frame
from evenflow.runtime.worker.rows.codec import batch_parts, read_rows


class Divided(NamedTuple):
    """A frame in two."""

    leaving: list[Frame]
    staying: Frame | None
    """The rest of the frame, with the frame's id; None if all of it leaves."""
    new: int
    """The XOR of the new ids under which a part leaves; 0 if the frame is not divided."""


def divided(
    frame: Frame, head: FlowHead, graph: HostedGraph, units: npt.NDArray[np.bool_], new_id: Callable[[], int]
) -> Divided:
    """Divide a frame by the marked units of a graph, which leave.

    A frame for an operator with several units has keys, and is divided by rows. All other frames are for ports that get
    all rows, and are divided by ports.
    """
    plan = graph.plan
    nodes = [plan.nodes[plan.ports[port].node] for port in head.ports]
    node = nodes[0]
    if node.units > 1 and not node.operator.lanes:
        rows = read_rows(head.rows, graph.schemas[head.ports[0]])
        _, local, _ = graph.rows_of(head.ports[0], rows)
        leaves = units[node.first + local]
        if leaves.all() or not leaves.any():
            return _whole(frame, bool(leaves.all()))
        leaving, staying = (rows.filter(pa.array(mask)) for mask in (leaves, ~leaves))
        frames = [_frame(new_id(), frame, head, head.ports, *part) for part in batch_parts(leaving)]
        (rest,) = batch_parts(staying, True)
        return Divided(frames, _frame(frame.sequence, frame, head, head.ports, *rest), _xor(frames))
    away = [bool(units[each.first + head.turn % each.units]) for each in nodes]
    if all(away) or not any(away):
        return _whole(frame, all(away))
    both = ([port for port, gone in zip(head.ports, away, strict=True) if gone is which] for which in (True, False))
    rows = head.row_count, head.rows
    moved = _frame(new_id(), frame, head, next(both), *rows)
    return Divided([moved], _frame(frame.sequence, frame, head, next(both), *rows), moved.sequence)


def _whole(frame: Frame, leaves: bool) -> Divided:
    return Divided([frame], None, 0) if leaves else Divided([], frame, 0)


def _frame(identity: int, frame: Frame, head: FlowHead, ports: Sequence[int], count: int, rows: memoryview) -> Frame:
    return flow_frame(identity, frame.part, head.turn, head.feeder, ports, rows, count)


def _xor(frames: Sequence[Frame]) -> int:
    return reduce(xor, (frame.sequence for frame in frames), 0)
