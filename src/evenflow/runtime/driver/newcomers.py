"""Tasks that want to join: facts from Spark and the store are collected before the controller hears of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from evenflow.control.events import FeederJoinedEvent
from evenflow.errors import ProtocolError
from evenflow.model.checkpoint import Saved
from evenflow.model.messages import FeederHello
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.queries import Queries
from evenflow.runtime.driver.stages import Stages
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame

EARLY = 10_000
"""The most messages of one task that are kept while the store is read; a task that waits sends one a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the store has of a query."""

    query: tuple[str, str]
    """The region, and the query's id."""
    saved: Saved | str | None
    """A text says why it cannot be used; None: the state in memory can be."""


class Newcomers:
    """The tasks that have just connected. The first tasks of a stored query wait until the store has been read.

    `found` is called on the checkpoint thread, with the content of the store.
    """

    def __init__(
        self,
        queries: Queries | None,
        stages: Stages | None,
        checkpoint_thread: CheckpointThread | None,
        untouched: Callable[[str, int, str], bool],
        found: Callable[[Found], None],
    ) -> None:
        self._queries, self._stages = queries, stages
        self._checkpoint_thread, self._untouched, self._found = checkpoint_thread, untouched, found
        self.looking: dict[tuple[str, str], list[tuple[Channel, FeederJoinedEvent]]] = {}
        """By region and query, the tasks that wait until the store has been read for it."""
        self.early: dict[Channel, list[Frame]] = {}
        """By connection of such a task, the frames that came from it meanwhile."""
        self._runs: dict[tuple[str, str], str] = {}
        """By region and query, the newest start of the query that is known to have the operators it had."""

    def joined(self, time: float, peer: int, hello: FeederHello) -> FeederJoinedEvent:
        """The event of a task that joins, with the facts of its stage that Spark gives."""
        if self._queries is not None:
            self._queries.meet(hello.query, hello.run)
        facts = None
        if self._stages is not None and hello.mark:
            facts = self._stages.facts(hello.own_stage or hello.stage, hello.mark, hello.execution)
        return FeederJoinedEvent(
            time=time,
            peer=peer,
            region=hello.region,
            partition=hello.partition,
            attempt=hello.attempt,
            query=hello.query,
            epoch=hello.epoch,
            stage=hello.stage,
            run=hello.run,
            task=hello.task,
            kinds=hello.kinds,
            own_stage=hello.own_stage,
            facts=facts,
        )

    def introduce(self, channel: Channel, feeder: FeederJoinedEvent, unknown: bool) -> FeederJoinedEvent | None:
        """The event for the controller; None if the task has to wait for the store.

        `unknown`: the controller does not know the task's query yet.
        """
        kept = self._checkpoint_thread is not None and self._checkpoint_thread.keeps(feeder.region) is not None
        query = feeder.region, feeder.query
        if not unknown and not (kept and feeder.query and self._runs.get(query) != feeder.run):
            return feeder
        if feeder.epoch and unknown:
            feeder = replace(feeder, untouched=self._untouched(feeder.query, feeder.epoch, feeder.region))
        if self._checkpoint_thread is None or not kept:
            return feeder
        if query not in self.looking:  # from then on: if the look cannot be begun, a retry must not wait for its end
            if unknown:
                self._checkpoint_thread.look(*query, feeder.epoch, feeder.first, partial(self._looked, query))
            else:
                self._checkpoint_thread.look_again(*query, feeder.epoch, lambda why: self._looked(query, why or None))
        self.looking.setdefault(query, []).append((channel, feeder))
        self.early[channel] = []
        return None

    def _looked(self, query: tuple[str, str], saved: Saved | str | None) -> None:
        """On the checkpoint thread: the store has been read for a query."""
        self._found(Found(query, saved))

    def keep(self, channel: Channel, frame: Frame) -> bool:
        """Keep a frame for later if its sender waits; returns whether it does."""
        if channel not in self.early:
            return False
        if len(self.early[channel]) >= EARLY:
            raise ProtocolError(f"it said {EARLY} things before it was known what the store has of its query")
        self.early[channel].append(frame)
        return True

    def found(self, found: Found) -> Iterator[tuple[Channel, FeederJoinedEvent]]:
        """The tasks that have waited for this and are still there."""
        for channel, feeder in self.looking.pop(found.query):
            if not isinstance(found.saved, str):
                self._runs[found.query] = feeder.run
            if channel in self.early:
                yield channel, replace(feeder, saved=found.saved)

    def release(self, channel: Channel) -> Iterable[Frame]:
        """A task no longer waits, or has gone; returns the frames that came from it meanwhile."""
        return self.early.pop(channel, ())
