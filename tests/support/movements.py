"""Movements of one region, asked for and told in short."""

import numpy as np

from evenflow.control.moves.movements import Movements
from evenflow.control.workers import WorkerLife
from evenflow.model import MoveUnits, RoutingTable
from evenflow.model.entries import EventEntry
from tests.support.records import fields_of

FEEDERS = [21, 22]


def movements(owners=(0, 0, 1, 1, 2, 2), workers=3):
    """Worker w is peer 10 + w."""
    lives = {worker: WorkerLife(10 + worker, f"h{worker}", 900 + worker) for worker in range(workers)}
    return Movements("r", RoutingTable(0, np.array(owners, np.int32)), workers=lives)


def move(units, source, target):
    return MoveUnits("r", tuple(units), source, target, "it is hot")


def ask(moves, units, source, target, time=0.0, feeders=FEEDERS, sizes=None):
    return brief(moves.ask(time, move(units, source, target), sizes or {}, feeders))


def brief(instructions):
    """Instructions in short: (peer, message, move) and (event, move or units)."""
    out = []
    for each in instructions:
        if isinstance(each, EventEntry):
            out.append((each.event, fields_of(each).get("move", fields_of(each).get("units"))))
        else:
            out.append((each.peer, type(each.message).__name__, each.message.move))
    return out
