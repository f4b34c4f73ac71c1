"""The queries of one keyed operator whose state is stored: what is noted of their tasks, and when state is loaded.

`epochs` says of each query which attempt counts and what state it starts from. Here that becomes messages: workers are
told to load, or to drop what they have; tasks that their attempt has been given up; the store what has become durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from evenflow.control.attempts import SavedUnits
from evenflow.control.epochs import Epochs
from evenflow.control.evaluations import Evaluations, evaluation_of
from evenflow.control.events import (
    Cancel,
    FeederArrivals,
    FeederEnded,
    FeederJoined,
    Instruction,
    Record,
    Save,
    StateLoaded,
    Stored,
    Tell,
    UnitsSaved,
)
from evenflow.control.movement import Movements


@dataclass
class StoredQueries:
    """All such queries of one region."""

    region: str
    operator: str
    evaluations: Evaluations
    movements: Movements
    asked: dict[str, float] = field(default_factory=dict)
    """By query, when workers were last told to load."""

    # -- tasks

    def join(self, feeder: FeederJoined) -> Iterator[Instruction]:
        """A task of a query has come: note what batch is done, and load the state to start from if it is not there."""
        name = evaluation_of(feeder)
        epochs = self.evaluations.stored.get(name)
        if epochs is None:
            return
        for peer in sorted(epochs.dropped):
            yield Tell(peer, {"type": "lost", "reason": "another attempt at its batch has begun"})
        epochs.dropped.clear()
        yield from self._broken(feeder.query, epochs)
        if epochs.settled:
            base, stale = epochs.settle()
            yield Save(self.region, feeder.query, "epoch", base, stale)
        if epochs.outdated:
            epochs.loading.clear()
        if not epochs.current and not epochs.loading:
            yield from self._load(feeder.time, name, epochs)

    def arrived(self, feeder: FeederJoined, event: FeederArrivals) -> None:
        """Rows a task has taken in since it last said so."""
        epochs = self.evaluations.stored.get(evaluation_of(feeder))
        if epochs is not None:
            epochs.arrived(feeder.epoch, event.units)

    def ended(self, feeder: FeederJoined, event: FeederEnded, begun: bool) -> Iterator[Instruction]:
        """All rows of a task are durable with the workers: have it noted, and let the task end then."""
        epochs = self.evaluations.stored.get(evaluation_of(feeder))
        if epochs is None:
            return
        if not begun:
            epochs.noted(feeder.peer)
            return
        through = epochs.end(feeder, event.segments)
        if through is not None:
            peer, since, waited = feeder.peer, event.time, event.seconds
            yield Save(self.region, feeder.query, "task", through, peer=peer, since=since, waited_s=waited)

    def noted(self, feeder: FeederJoined, event: Stored) -> Iterator[Instruction]:
        """The store has been told of a task."""
        epochs = self.evaluations.stored.get(evaluation_of(feeder))
        if epochs is not None:
            epochs.noted(feeder.peer)
        yield Tell(feeder.peer, {"type": "committed"})
        times = {"log_s": round(event.save.waited_s, 6), "note_s": round(event.time - event.save.since, 6)}
        yield Record(event.time, "task-durable", {"region": self.region, "query": feeder.query} | times)

    def poison(self, time: float, name: str, why: str, event: str = "attempt-poisoned") -> Iterator[Instruction]:
        """The attempt at a query's present batch cannot count: its tasks are told, state in memory goes."""
        epochs = self.evaluations.stored[name]
        held, now = epochs.held, epochs.attempt
        counted = now is not None and not now.poisoned
        feeders = epochs.poison(why)
        yield from self._broken(name.removeprefix("query "), epochs)
        yield Record(time, event, {"region": self.region, "evaluation": name, "epoch": epochs.epoch, "why": why})
        for peer in sorted(feeders):
            yield Tell(peer, {"type": "lost", "reason": why})
        if held is not None:
            for site in self.movements.sites.values():
                yield Tell(site.peer, {"type": "drop", "region": self.region, "evaluation": name})
        if now is not None and now.poisoned and counted and now.stage:
            yield Cancel(now.stage, f"region {self.region}: {why}")

    def _broken(self, query: str, epochs: Epochs) -> Iterator[Instruction]:
        """Have it noted what cannot count: a user's function may go on as if nothing had failed."""
        for task in epochs.broken:
            yield Save(self.region, query, "broken", task)
        epochs.broken.clear()

    # -- state

    @property
    def busy(self) -> bool:
        """Whether state is being loaded, or waits for that."""
        return any(epochs.loading or epochs.wanted for epochs in self.evaluations.stored.values())

    def load(self, time: float) -> Iterator[Instruction]:
        """Load state that tasks wait for and nobody loads yet."""
        for name, epochs in self.evaluations.stored.items():
            if epochs.wanted and not epochs.loading:
                yield from self._load(time, name, epochs)

    def _load(self, time: float, name: str, epochs: Epochs) -> Iterator[Instruction]:
        """Have all workers load the state of their units; movements under way end first, new ones wait."""
        assert epochs.attempt is not None
        epochs.drop()  # from now on movements do not carry it
        self.movements.held = True
        if not self.movements.sites or self.movements.under_way:
            return  # tried again when that changes
        self.movements.deal(self.evaluations.stateless)
        base = epochs.load(self.movements.sites)
        message = {
            "type": "load",
            "region": self.region,
            "evaluation": name,
            "operator": self.operator,
            "count": self.movements.table.units,
            "load": epochs.loads,
            "epoch": epochs.epoch,
            "attempt": epochs.attempt.number,
            "snapshots": [{"name": saved.name, "epoch": saved.epoch} for saved in base.snapshots],
            "logs": [{"epoch": log.epoch, "attempt": log.attempt, "segments": dict(log.segments)} for log in base.logs],
        }
        fields = {"region": self.region, "evaluation": name, "epoch": base.epoch, "snapshots": len(base.snapshots)}
        yield Record(time, "loading", fields)
        self.asked[name] = time
        for worker, site in self.movements.sites.items():
            yield Tell(site.peer, message | {"units": self.movements.table.units_of(worker)})

    def awaited(self) -> Iterator[tuple[int, float]]:
        """Workers whose part of some state tasks wait for, and since when."""
        for name, epochs in self.evaluations.stored.items():
            for worker in epochs.loading if epochs.wanted else ():
                yield worker, self.asked.get(name, 0.0)

    def loaded(self, worker: int, event: StateLoaded) -> Iterator[Instruction]:
        """A worker has its part of the state."""
        epochs = self.evaluations.stored.get(event.evaluation)
        if epochs is None or worker not in epochs.loading or event.load != epochs.loads:
            return
        fields = {"region": self.region, "evaluation": event.evaluation, "worker": worker, "error": event.error}
        fields |= {"bytes": event.bytes, "rows": event.rows, "seconds": round(event.seconds, 6)}
        yield Record(event.time, "loaded", fields)
        if event.error:
            why = f"worker {worker} cannot load state: {event.error}"
            yield from self.poison(event.time, event.evaluation, why)
        else:
            epochs.loaded(worker)

    def saved(self, event: UnitsSaved) -> Iterator[Instruction]:
        """A worker has saved units; if that is not used, it has to save them again."""
        epochs = self.evaluations.stored.get(event.evaluation)
        if epochs is not None and not epochs.reported(SavedUnits(event.name, event.epoch, event.units)):
            fields = {"region": self.region, "evaluation": event.evaluation, "epoch": event.epoch}
            yield Record(event.time, "snapshot-too-late", fields | {"units": len(event.units)})
            yield Tell(event.peer, {"type": "unsaved", **fields, "units": event.units})
