"""Decides about the state of whole evaluations on a worker: when it is dropped, loaded, and over.

Of several orders to load the same state, the latest counts; state that was loaded for an earlier one is thrown away.
Between an order to drop state and the end of its loading no rows are accepted: otherwise a unit that is not loaded yet
would be saved as a unit without state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.errors import ProtocolError, StateGone
from evenflow.model.checkpoint import AttemptKey
from evenflow.model.messages import ForgetEvaluation, LoadState, StateLoaded
from evenflow.runtime.worker.events import (
    ClearStateInstruction,
    DropLoadedInstruction,
    ForgetLogInstruction,
    LoadBegunEvent,
    LoadEndedEvent,
    LoadEvent,
    LoadInstruction,
    LoopRoundEvent,
    StartLoadInstruction,
    TellInstruction,
    UseLoadedInstruction,
)
from evenflow.runtime.worker.moves.movements import remember

EvaluationKey = tuple[str, str]
"""A region and an evaluation."""


@dataclass(slots=True)
class Loads:
    """All evaluations of one worker."""

    over: dict[EvaluationKey, None] = field(default_factory=dict)
    """The latest evaluations that have ended."""
    _orders: dict[EvaluationKey, LoadState] = field(default_factory=dict)
    """The latest order to load of each evaluation, until it has ended."""
    _begun: set[tuple[str, str, int]] = field(default_factory=set)
    """Loads that have begun, also loads that a later order has replaced."""
    _dropped: dict[EvaluationKey, AttemptKey | None] = field(default_factory=dict)
    """Evaluations whose state is dropped and not loaded yet, and the batch and attempt for which it will be loaded."""

    def handle(self, event: LoadEvent) -> list[LoadInstruction]:
        """Handle one event; return the instructions."""
        match event:
            case LoopRoundEvent():
                waiting = self._orders.items()
                return [StartLoadInstruction(order) for key, order in waiting if (*key, order.load) not in self._begun]
            case LoadBegunEvent(order, failure):
                self._begun.add((order.region, order.evaluation, order.load))
                return [_report(LoadEndedEvent(order, None, failure))] if failure else []
            case LoadEndedEvent():
                return self._ended(event)
        key = event.region, event.evaluation
        clear = ClearStateInstruction(event.region, event.evaluation)
        self._dropped.setdefault(key)
        match event:
            case LoadState():
                self._orders[key] = event
                self._dropped[key] = event.epoch, event.attempt
            case ForgetEvaluation():
                remember(self.over, key, None)
                self._orders.pop(key, None)
                self._dropped.pop(key)
                return [ForgetLogInstruction(event.region, event.evaluation), clear]
        return [clear]

    @property
    def waiting(self) -> bool:
        """Whether there are loads that have not ended."""
        return bool(self._orders)

    def is_dropped(self, region: str, evaluation: str) -> bool:
        """Whether the state of an evaluation was dropped and is not loaded yet."""
        return (region, evaluation) in self._dropped

    def check_rows(self, region: str, evaluation: str, attempt: AttemptKey | None) -> None:
        """Refuse rows for an evaluation that is over, or whose state is dropped; `attempt` is None if it is not stored.

        Rows of an earlier attempt than the state is loaded for were on their way when it was dropped. Rows of that
        attempt itself must not come before the state is loaded: they are an error of the protocol.
        """
        key = region, evaluation
        if key in self.over:
            raise StateGone(f"rows of region {region} came for {evaluation}, which is over")
        if attempt is None or key not in self._dropped:
            return
        loaded_for = self._dropped[key]
        if loaded_for is not None and attempt >= loaded_for:
            raise ProtocolError(f"rows of region {region} came for {evaluation} before its state was loaded")
        raise StateGone(f"rows of region {region} came for {evaluation}, whose state was dropped")

    def _ended(self, event: LoadEndedEvent) -> list[LoadInstruction]:
        order = event.order
        key = order.region, order.evaluation
        self._begun.discard((*key, order.load))
        if self._orders.get(key) is not order:
            return [DropLoadedInstruction(event.loaded)]
        del self._orders[key]
        if event.error:
            return [_report(event)]
        self._dropped.pop(key, None)
        return [UseLoadedInstruction(order, event.loaded), _report(event)]


def _report(event: LoadEndedEvent) -> TellInstruction:
    """Tell the controller the result of a load."""
    order = event.order
    return TellInstruction(
        StateLoaded(
            region=order.region,
            evaluation=order.evaluation,
            load=order.load,
            error=event.error,
            bytes=event.bytes,
            rows=event.rows,
            seconds=event.seconds,
        )
    )
