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
    WorkerJoined,
    WorkerReport,
)
from evenflow.errors import ProtocolError


def event_of(now: float, peer: Peer, message: dict[str, Any]) -> Event:
    """The event that a message is."""
    match message["type"]:
        case "worker":
            return _worker(now, peer, message)
        case "feeder":
            return _feeder(now, peer, message)
        case "begin":
            return FeederBegan(now, peer, int(message["partition"]))
        case "failed":
            return FeederFailed(now, peer, str(message["reason"]))
        case "arrived":
            return FeederArrivals(now, peer, message["units"], message["unit_rows"])
        case "drain":
            return FeederDraining(now, peer)
        case "unread":
            return FeederUnread(now, peer)
        case "end":
            segments = {str(writer): int(count) for writer, count in message.get("segments", {}).items()}
            return FeederEnded(now, peer, segments, float(message.get("seconds", 0.0)))
        case "heartbeat":
            return WorkerReport(now, peer, int(message["rows"]), int(message["frames"]), float(message["busy_s"]))
        case "ready":
            return OperatorReady(now, peer, str(message["operator"]))
        case "fed":
            connections = {int(worker): counts for worker, counts in message["connections"].items()}
            again = (int(message.get("resent", 0)), int(message.get("rerouted", 0)), message["overhead"])
            return FeederReport(now, peer, float(message["feeding_s"]), int(message["rows_out"]), connections, *again)
        case "consumed":
            return _consumed(now, peer, message)
        case "move":
            what = (str(message["region"]), int(message["move"]), str(message["outcome"]))
            return MoveReport(now, peer, *what, str(message["reason"]), int(message["bytes"]))
        case "loaded":
            return _loaded(now, peer, message)
        case "saved":
            of = (str(message["region"]), str(message["evaluation"]), int(message["epoch"]), str(message["name"]))
            return UnitsSaved(now, peer, *of, message["units"], int(message["bytes"]))
        case kind:
            raise ProtocolError(f"there is no message '{kind}'")


def _worker(now: float, peer: Peer, message: dict[str, Any]) -> WorkerJoined:
    stage, attempt = message["task"]
    return WorkerJoined(
        now,
        peer,
        int(message["worker"]),
        str(message["host"]),
        int(message["port"]),
        int(message["pid"]),
        (int(stage), int(attempt)),
        int(message.get("mover", 0)),
        int(message.get("deep", 0)),
    )


def _feeder(now: float, peer: Peer, message: dict[str, Any]) -> FeederJoined:
    return FeederJoined(
        now,
        peer,
        str(message["region"]),
        int(message["partition"]),
        int(message["attempt"]),
        str(message["query"]),
        int(message["epoch"]),
        str(message.get("stage", "")),
        kinds=int(message.get("kinds", 1)),
        own_stage=str(message.get("own_stage", "")),
        run=str(message.get("run", "")),
    )


def _consumed(now: float, peer: Peer, message: dict[str, Any]) -> ConsumerReport:
    return ConsumerReport(
        now,
        peer,
        str(message["region"]),
        float(message["seconds"]),
        float(message["idle_s"]),
        float(message["busy_s"]),
        int(message["rows"]),
        int(message["bytes"]),
        message["units"],
        message["unit_rows"],
        message["sized"],
        message["sizes"],
        int(message["memory"]),
        int(message["resident"]),
        int(message["spilled"]),
        message["on_disk"],
        {str(name): int(count) for name, count in message.get("counts", {}).items()},
    )


def _loaded(now: float, peer: Peer, message: dict[str, Any]) -> StateLoaded:
    return StateLoaded(
        now,
        peer,
        str(message["region"]),
        str(message["evaluation"]),
        int(message["load"]),
        str(message["error"]),
        int(message["bytes"]),
        int(message["rows"]),
        float(message["seconds"]),
    )
