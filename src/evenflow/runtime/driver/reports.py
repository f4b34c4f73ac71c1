"""What workers and feeders tell the controller: JSON in, events out."""

from __future__ import annotations

from typing import Any

from evenflow.control.events import (
    ConsumerReport,
    Event,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederJoined,
    FeederReport,
    FeederUnread,
    MoveReport,
    OperatorReady,
    Peer,
    StateLoaded,
    UnitsSaved,
    WorkerAlive,
    WorkerJoined,
    WorkerReport,
    WorkerTrouble,
)
from evenflow.errors import ProtocolError
from evenflow.runtime.wire.messages import Message


def event_of(now: float, peer: Peer, message: Message) -> Event:
    """The event that a message is; `ProtocolError` if it is none, or not all of it is there."""
    match message.text("type"):
        case "worker":
            return _worker(now, peer, message)
        case "feeder":
            return _feeder(now, peer, message)
        case "begin":
            return FeederBegan(now, peer, message.whole("partition"))
        case "failed":
            return FeederFailed(now, peer, message.text("reason"))
        case "arrived":
            return FeederArrivals(now, peer, *_paired(message, "units", "unit_rows"))
        case "drain":
            return FeederDraining(now, peer)
        case "unread":
            return FeederUnread(now, peer)
        case "end":
            return FeederEnded(now, peer, message.counts("segments", {}), message.real("seconds", 0.0))
        case "heartbeat":
            return WorkerReport(now, peer, message.whole("rows"), message.whole("frames"), message.real("busy_s"))
        case "ready":
            return OperatorReady(now, peer, message.text("operator"))
        case "fed":
            return _fed(now, peer, message)
        case "consumed":
            return _consumed(now, peer, message)
        case "move":
            what = (message.text("region"), message.whole("move"), message.text("outcome"))
            return MoveReport(now, peer, *what, message.text("reason"), message.whole("bytes"))
        case "loaded":
            return _loaded(now, peer, message)
        case "saved":
            of = (message.text("region"), message.text("evaluation"), _epoch(message, "epoch"), message.text("name"))
            return UnitsSaved(now, peer, *of, message.array("units"), message.whole("bytes"))
        case "alive":
            return WorkerAlive(now, peer)
        case "trouble":
            return WorkerTrouble(now, peer, message.text("what"), message.text("reason"), message.flag("ends"))
        case kind:
            raise ProtocolError(f"there is no message '{kind:.50}'")


def _worker(now: float, peer: Peer, message: Message) -> WorkerJoined:
    task = message.wholes("task")
    if len(task) != 2:
        raise ProtocolError(f"a worker's task is {task!r:.100}: it must be a stage and a task attempt")
    return WorkerJoined(
        now,
        peer,
        message.whole("worker"),
        message.text("host"),
        message.whole("port", most=65535),
        message.whole("pid"),
        (task[0], task[1]),
        message.whole("mover", 0, most=65535),
        message.whole("deep", 0, most=65535),
        message.text("key", ""),
    )


def _feeder(now: float, peer: Peer, message: Message) -> FeederJoined:
    return FeederJoined(
        now,
        peer,
        message.text("region"),
        message.whole("partition"),
        message.whole("attempt"),
        message.text("query"),
        message.whole("epoch"),
        message.text("stage", ""),
        own_stage=message.text("own_stage", ""),
        run=message.text("run", ""),
        task=message.whole("task", 0),
        kinds=message.whole("kinds", 1),
    )


def _fed(now: float, peer: Peer, message: Message) -> FeederReport:
    given = message.get("connections")
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise ProtocolError(f"a feeder's connections are {given!r:.100}: they must be counters by worker")
    for worker in given:
        if not (worker.isascii() and worker.isdigit() and len(worker) < 10):
            raise ProtocolError(f"a feeder has a connection to {worker!r:.100}, which is no worker's number")
    connections = {int(worker): _counters(Message(counts)) for worker, counts in given.items()}
    overhead = None if message.get("overhead") is None else message.real("overhead")
    again = (message.whole("resent", 0), message.whole("rerouted", 0), overhead)
    return FeederReport(now, peer, message.real("feeding_s"), message.whole("rows_out"), connections, *again)


def _counters(counts: Message) -> dict[str, float]:
    return {name: counts.real(name) for name in counts}


def _consumed(now: float, peer: Peer, message: Message) -> ConsumerReport:
    return ConsumerReport(
        now,
        peer,
        message.text("region"),
        message.real("seconds"),
        message.real("idle_s"),
        message.real("busy_s"),
        message.whole("rows"),
        message.whole("bytes"),
        *_paired(message, "units", "unit_rows"),
        *_paired(message, "sized", "sizes"),
        message.whole("memory"),
        message.whole("resident"),
        message.whole("spilled"),
        message.array("on_disk"),
        message.counts("counts", {}),
    )


def _loaded(now: float, peer: Peer, message: Message) -> StateLoaded:
    return StateLoaded(
        now,
        peer,
        message.text("region"),
        message.text("evaluation"),
        message.whole("load"),
        message.text("error"),
        message.whole("bytes"),
        message.whole("rows"),
        message.real("seconds"),
    )


def _paired(message: Message, units: str, values: str) -> tuple[Any, Any]:
    """Units, and something of each."""
    found = message.array(units), message.array(values)
    if len(found[0]) != len(found[1]):
        raise ProtocolError(f"{units} and {values} of a message have {len(found[0])} and {len(found[1])} entries")
    return found


def _epoch(message: Message, name: str) -> int:
    """A batch, or -1 for what was before the first."""
    return -1 if message.get(name) == -1 else message.whole(name)
