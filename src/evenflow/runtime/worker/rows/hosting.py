"""The keyed host of a worker and what works beside it, made when a keyed operator is used for the first time.

numpy and pyarrow are not imported before: a worker without an operator stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError, described
from evenflow.model.messages import MemorySet
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.environment import WorkerEnvironment
from evenflow.runtime.worker.rows.operator_cache import OperatorCache

if TYPE_CHECKING:
    from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
    from evenflow.runtime.worker.rows.instances import Answer, Instances
    from evenflow.runtime.worker.rows.keyed import KeyedHost
    from evenflow.runtime.worker.saving.blob_writer import BlobWriter
    from evenflow.runtime.worker.saving.checkpointer import AnswerEnd, Checkpointer, SendMessage
    from evenflow.runtime.worker.saving.loader import Loader

KEY_BITS = 128
"""Of a worker's key for tickets of movements."""


class Hosting:
    """Owns the worker's threads; all but the direct transfer's start with the host."""

    def __init__(
        self,
        settings: Settings,
        worker: int,
        environment: WorkerEnvironment,
        tell: SendMessage,
        wake: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._environment = environment
        self._tell = tell
        self._wake = wake
        self._memory = settings.memory
        """Bytes of state in memory, at most; 0 for no limit."""
        self.operators = OperatorCache(tell)
        key = f"{environment.random_bits(KEY_BITS):032x}"
        about = settings.secret, environment.clock, wake, key, environment.limits
        self.direct_transfer = environment.direct_transfer(*about)
        self.host: KeyedHost | None = None
        self.store_transfer: StoreTransfer | None = None
        self._blob_writer: BlobWriter | None = None
        self._loader: Loader | None = None

    def made(self, give: Callable[[list[Answer]], None], answer_end: AnswerEnd) -> KeyedHost:
        """The host, which sends results with `give` and answers to END frames with `answer_end`."""
        if self.host is None:
            from evenflow.runtime.worker.rows.instances import Instances
            from evenflow.runtime.worker.rows.keyed import KeyedHost

            instances = Instances(self._memory, self._environment.clock, self._settings.t_gap)
            checkpointer = self._checkpointer(answer_end, instances) if self._settings.checkpoint else None
            self.host = KeyedHost(
                self._tell,
                self.direct_transfer,
                self.operators.fetch,
                checkpointer,
                instances,
                give,
                self.store_transfer,
                self._loader,
                self._environment.clock,
            )
        return self.host

    def _checkpointer(self, answer_end: AnswerEnd, instances: Instances) -> Checkpointer:
        from evenflow.runtime.worker.saving.checkpointer import Checkpointer

        environment, where = self._environment, self._settings.place
        writer = f"{self._worker}.{environment.random_bits(48)}"
        self.store_transfer = environment.store_transfer(where, self._settings.cluster, self._wake)
        self._blob_writer = environment.blob_writer(where, self._wake)
        self._loader = environment.loader(where, self._wake, instances)
        return Checkpointer(writer, self._tell, answer_end, self._blob_writer, environment.limits)

    def set_memory(self, memory: int) -> None:
        """Have another budget from now on; the controller hears what came of it."""
        began, error = self._environment.clock(), ""
        try:
            if not self._memory:
                raise EvenflowError("the workers of this cluster have no memory budget that could be changed")
            if self.host is not None:
                self.host.regions.set_memory(memory)
            self._memory = memory
        except BaseException as refused:  # the user's code, when state is pickled; or a disk that is full
            error = described(refused)
        resident, spilled = self.host.regions.memory()[1:] if self.host is not None else (0, 0)
        self._tell(MemorySet(memory, self._memory, resident, spilled, self._environment.clock() - began, error))

    @property
    def due(self) -> bool:
        """Whether threads may have brought something."""
        return self.host is not None or not self.direct_transfer.inbox.empty()

    @property
    def full(self) -> bool:
        """Whether the store is so far behind that no rows should be taken."""
        checkpointer = self.host.checkpointer if self.host is not None else None
        return checkpointer is not None and checkpointer.full

    def check_threads(self) -> None:
        """A worker one of whose threads has ended cannot keep its word: it ends, and says why."""
        for part in (self.direct_transfer, self._blob_writer, self.store_transfer):
            if part is not None and part.failure:
                raise EvenflowError(f"the {part.owner}'s thread has failed: {part.failure}")

    def parts(self) -> Iterator[Any]:
        """Parts in the order in which they are closed."""
        for part in (self.direct_transfer, self.store_transfer, self._loader, self._blob_writer, self.host):
            if part is not None:
                yield part
