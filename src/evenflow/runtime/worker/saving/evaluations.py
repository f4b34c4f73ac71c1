"""Carries out what `loads` decides about the state of evaluations: drops state, has it loaded, goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Container

from evenflow.model.checkpoint import AttemptKey
from evenflow.model.messages import EvaluationOrder, LoadState, SaveAgain, WorkerAlive
from evenflow.operators.hosted import Hosted
from evenflow.runtime.worker import events
from evenflow.runtime.worker.machine import drive
from evenflow.runtime.worker.rows.instances import let_go
from evenflow.runtime.worker.rows.regions import LocalRegions
from evenflow.runtime.worker.saving.checkpointer import Checkpointer, SendMessage
from evenflow.runtime.worker.saving.loader import Loaded, Loader
from evenflow.runtime.worker.saving.loads import Loads

ALIVE_S = 1.0
"""While state is loaded in the worker's own loop, the controller hears this often that the worker is alive."""


class EvaluationStates:
    """The state of whole evaluations on one worker: asks `Loads` what to do with it, and does that."""

    def __init__(
        self,
        tell: SendMessage,
        regions: LocalRegions,
        checkpointer: Checkpointer | None,
        loader: Loader | None,
        clock: Callable[[], float],
    ) -> None:
        self._loads = Loads()
        self._tell = tell
        self._regions = regions
        self._checkpointer = checkpointer
        self._loader = loader
        self._clock = clock
        self._told = 0.0
        if loader is not None:
            loader.progress = self._say_alive

    @property
    def over(self) -> Container[tuple[str, str]]:
        """Regions and evaluations that have ended."""
        return self._loads.over

    def check_rows(self, region: str, evaluation: str, attempt: AttemptKey | None) -> None:
        """Refuse rows for an evaluation that is over, or whose state is dropped (`Loads.check_rows`)."""
        self._loads.check_rows(region, evaluation, attempt)

    def is_dropped(self, region: str, evaluation: str) -> bool:
        """Whether the state of an evaluation was dropped and is not loaded yet."""
        return self._loads.is_dropped(region, evaluation)

    def handle(self, event: events.LoadEvent) -> None:
        """Let the machine decide about an event, and carry out its instructions."""
        drive(self._loads.handle, self._carry_out, event)

    def obey(self, order: EvaluationOrder) -> None:
        """Do what the controller says about the state of an evaluation."""
        if isinstance(order, SaveAgain):
            if self._checkpointer is not None:
                self._checkpointer.save_again(order)
        elif self._loader is not None or not isinstance(order, LoadState):
            self.handle(order)

    def collect(self) -> None:
        """Begin the loads that are due; take the results of others."""
        if self._loader is None:
            return
        if self._loads.waiting:
            self.handle(events.LoopRoundEvent())
        while not self._loader.inbox.empty():
            loaded = self._loader.inbox.get()
            self.handle(
                events.LoadEndedEvent(
                    order=loaded.order,
                    loaded=loaded,
                    error=loaded.error,
                    bytes=loaded.bytes,
                    rows=loaded.rows,
                    seconds=loaded.seconds,
                )
            )

    def _carry_out(self, instruction: events.LoadInstruction) -> events.LoadEvent | None:
        match instruction:
            case events.TellInstruction(message):
                self._tell(message)
            case events.ClearStateInstruction(region, evaluation):
                self._regions.drop(region, evaluation)
            case events.ForgetLogInstruction(region, evaluation):
                if self._checkpointer is not None:
                    self._checkpointer.forget(region, evaluation)
            case events.StartLoadInstruction(order):
                return self._start(order)
            case events.UseLoadedInstruction(order, loaded):
                self._use(order, loaded)
            case events.DropLoadedInstruction(loaded):
                let_go(loaded.instance)
        return None

    def _start(self, order: LoadState) -> events.LoadBegunEvent | None:
        hosted: object = self._regions.code(order.operator)
        if hosted is None or self._loader is None:
            return None
        if not isinstance(hosted, Hosted):
            return events.LoadBegunEvent(order, "the operator could not be loaded on this worker")
        self._loader.start(order, hosted)
        return events.LoadBegunEvent(order)

    def _use(self, order: LoadState, loaded: Loaded) -> None:
        assert loaded.instance is not None
        if self._checkpointer is not None:
            self._checkpointer.resume(order, loaded.saved, loaded.touched)
        region = self._regions.receiving(order.region, order.operator)
        region.use(order.evaluation, loaded.instance, loaded.repeat)

    def _say_alive(self) -> None:
        """Tell the controller now and then that this worker is alive while it loads."""
        now = self._clock()
        if now - self._told >= ALIVE_S:
            self._told = now
            self._tell(WorkerAlive())
