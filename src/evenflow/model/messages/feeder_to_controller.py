"""What feeders tell the controller."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from evenflow.model.latency import Latencies
from evenflow.model.messages.base import Counts, Message, MessagePart, Real, Table, Units, Whole, check_pairs

MOST_KEYS, MOST_KEY_TEXT = 10, 100
"""Units whose keys a message tells, and characters of each, at most."""
KeyText = Annotated[str, Meta(max_length=MOST_KEY_TEXT)]


class FeederHello(Message, frozen=True):
    """Feeder to controller, first on its connection: for which region, and which task of Spark it is."""

    region: str
    partition: Whole
    attempt: Whole
    """Spark's number of this try within its stage."""
    query: str
    epoch: Whole
    stage: str = ""
    """Spark's stage id; of a task with ticks, that of the rows."""
    own_stage: str = ""
    """Of a task with ticks: its own stage id."""
    run: str = ""
    """Which start of the query it belongs to."""
    task: Whole = 0
    """Spark's number of this try of the task: no two are alike."""
    kinds: Whole = 1
    """How many stages, one behind the other, an evaluation has that feed the operator."""
    mark: str = ""
    """Text that shows where in Spark's plan the operator is; empty if nobody looks for it."""
    execution: str = ""
    """Spark's number of the action."""


class FeederBegan(Message, frozen=True):
    """Feeder of a keyed operator to controller, on its first row."""

    partition: Whole
    """Of the operator's input, which need not be the task's own number."""


class FeederArrivals(Message, frozen=True):
    """Feeder of a keyed operator to controller, ten times a second: rows by unit taken in since it last said so."""

    units: Units
    unit_rows: Counts
    keys: Annotated[dict[Whole, KeyText], Meta(max_length=MOST_KEYS)] = {}
    """By unit with many rows, the value of its most frequent key; only if the user asked for values of keys."""

    def __post_init__(self) -> None:
        check_pairs(units=self.units, unit_rows=self.unit_rows)


class FlowProgress(Message, frozen=True):
    """Feeder of a graph to controller, once a second: what has come to it since it last said so."""

    arrived: Table[Whole, Whole]
    """Rows by source, also those that are not sent yet."""
    latencies: Latencies
    """How long results took."""
    waiting: Table[Whole, Whole] = {}
    """Rows by source that were sent and are not through now."""


class FeederDraining(Message, frozen=True):
    """Feeder of a keyed operator to controller: it has taken in all its rows, and waits for the last results."""


class FeederEnded(Message, frozen=True):
    """Feeder of a keyed operator to controller: it has had answers to all its rows."""

    segments: Table[str, Whole] = {}
    """With a store: by worker, the segments of its log in which the rows are."""
    seconds: Real = 0.0
    """How long workers took to make the last of them durable."""
    left: Table[str, Whole] = {}
    """In an attempt that repeats another one: by worker, the logged rows that had not come again by then."""


class FeederUnread(Message, frozen=True):
    """Feeder of a keyed operator to controller: Spark wants no more of it, since its action has rows enough."""


MOST_ERROR = 4_000
"""Characters of a task's error that are told, at most: the error itself, and where it was raised."""


class FeederFailed(Message, frozen=True):
    """Feeder to controller, before it leaves: its task fails, and with it the evaluation of a keyed operator."""

    reason: str
    """At most MOST_ERROR characters."""
    worker: Whole | None = None
    """Where the operator failed, if it did."""


class ConnectionCounts(MessagePart, frozen=True):
    """What went over one connection since the last report."""

    blocked_s: Real = 0.0
    rows_sent: Whole = 0
    frames_sent: Whole = 0
    rows_done: Whole = 0
    frames_done: Whole = 0
    busy_s: Real = 0.0
    incarnation: Whole | None = None
    """The worker's incarnation that these are about; None stands for the present one."""
    under_way_s: Real = 0.0
    """Seconds that frames were under way, summed over the frames."""
    latencies: Latencies = Latencies()
    """How long rows took from when they were sent until the worker had answered, or taken them in."""


class FeederReport(Message, frozen=True):
    """Feeder to controller, once a period and at its end: what it did since its last report."""

    feeding_s: Real
    rows_out: Whole
    connections: Table[Whole, ConnectionCounts]
    """By worker."""
    resent: Whole = 0
    """Frames sent again to another worker."""
    rerouted: Whole = 0
    """Frames that did not go to the worker whose turn it was."""
    overhead: Real | None = None
    """What a call of the function costs beside its rows, in rows; None if not known."""
    rows_in: Whole = 0
    """Rows that arrived."""
    latencies: Latencies = Latencies()
    """How long rows took from their arrival until their results left; of a graph, `FlowProgress` has them."""
    shed: Whole = 0
    """Rows that were dropped (`ShedRows`)."""


FeederMessage = (
    FeederBegan
    | FeederArrivals
    | FlowProgress
    | FeederDraining
    | FeederEnded
    | FeederUnread
    | FeederFailed
    | FeederReport
)
"""What a feeder says to its region after its hello."""
