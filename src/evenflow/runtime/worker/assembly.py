"""The assembly: makes the parts of one worker, each once, and gives each the parts that it calls.

Parts of keyed regions and graphs are made together when the first of these is opened: numpy and pyarrow are not
imported before, so a worker without an operator stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError, described
from evenflow.model.messages import MemorySet
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.poller import Poller
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.environment import WorkerEnvironment
from evenflow.runtime.worker.graphs.peers import Peers
from evenflow.runtime.worker.rows.emulation import EmulatedSpeed
from evenflow.runtime.worker.rows.operator_cache import OperatorCache
from evenflow.runtime.worker.rows.outbox import Outbox
from evenflow.runtime.worker.rows.session import Session

if TYPE_CHECKING:
    from evenflow.operators.hosted import Hosted
    from evenflow.runtime.worker.graphs.flows import Flows
    from evenflow.runtime.worker.graphs.kinds import PeerKind
    from evenflow.runtime.worker.graphs.unit_rows import WaitingGraphRows
    from evenflow.runtime.worker.moves.direct_transfer import DirectTransfer
    from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
    from evenflow.runtime.worker.moves.unit_mover import GraphRows
    from evenflow.runtime.worker.rows.instances import Answer, Instances
    from evenflow.runtime.worker.rows.keyed import KeyedServer
    from evenflow.runtime.worker.rows.keyed_kind import KeyedKind
    from evenflow.runtime.worker.saving.blob_writer import BlobWriter
    from evenflow.runtime.worker.saving.checkpointer import Checkpointer, SendMessage
    from evenflow.runtime.worker.saving.loader import Loader

KEY_BITS = 128
"""Bits of a worker's key for tickets of movements."""
WRITER_BITS = 48
"""Bits of the number that stands for one life of a worker in the names of its blobs."""
ID_BITS = 64
"""Bits of the id of a frame of a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedParts:
    """The parts that serve keyed regions and graphs."""

    server: KeyedServer
    flows: Flows
    kind: KeyedKind
    """The kind of feeders that open a keyed region or a graph."""
    peer_kind: PeerKind


class Assembly:
    """The parts of one worker."""

    def __init__(
        self, *, settings: Settings, worker: int, environment: WorkerEnvironment, poller: Poller, tell: SendMessage
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._environment = environment
        self._clock = environment.clock
        self._tell = tell
        self._wake = poller.wake
        self._memory = settings.memory
        """Bytes of state in memory, at most; 0 for no limit."""
        self.operators = OperatorCache(tell)
        self.sessions: dict[Channel, Session] = {}
        """All connections over which rows come."""
        self.outbox = Outbox(worker, self.sessions)
        self.peers = Peers(worker, poller, settings.emulate, self._clock)
        self.pace: EmulatedSpeed | None = None
        if settings.emulate is not None:
            sleep = partial(self.peers.sleep, environment.sleep)
            self.pace = EmulatedSpeed(settings.emulate, worker, self._clock, sleep)
        key = f"{environment.random_bits(KEY_BITS):032x}"
        self.direct_transfer = environment.direct_transfer(
            settings.secret, self._clock, self._wake, key, environment.limits
        )
        self.keyed: KeyedParts | None = None
        """None until a keyed region or a graph is opened."""
        self.store_transfer: StoreTransfer | None = None
        self._blob_writer: BlobWriter | None = None
        self._loader: Loader | None = None

    # -- keyed regions and graphs

    def keyed_parts(self) -> KeyedParts:
        """The parts that serve keyed regions and graphs, made at the first call."""
        if self.keyed is None:
            self.keyed = self._keyed_parts()
        return self.keyed

    def _keyed_parts(self) -> KeyedParts:
        from evenflow.runtime.worker.graphs.kinds import GraphKind, KeyedOrGraphKind, PeerKind
        from evenflow.runtime.worker.rows.instances import Instances

        unit_rows = self._unit_rows()
        instances = Instances(self._memory, self._clock, self._settings.t_gap)
        checkpointer = self._checkpointer(instances) if self._settings.checkpoint else None
        server = keyed_server(
            tell=self._tell,
            code=self.operators.fetch,
            give=self.outbox.give,
            instances=instances,
            graph_rows=unit_rows,
            direct_transfer=self.direct_transfer,
            checkpointer=checkpointer,
            store_transfer=self.store_transfer,
            loader=self._loader,
            clock=self._clock,
        )
        flows = self._flows(server, unit_rows)
        operators, outbox, clock = self.operators, self.outbox, self._clock
        graphs = GraphKind(server=server, operators=operators, outbox=outbox, clock=clock, flows=flows)
        kind = KeyedOrGraphKind(
            server=server,
            operators=operators,
            outbox=outbox,
            clock=clock,
            graphs=graphs,
            find_graph=unit_rows.find_graph,
        )
        return KeyedParts(server=server, flows=flows, kind=kind, peer_kind=PeerKind(flows))

    def _unit_rows(self) -> WaitingGraphRows:
        from evenflow.runtime.worker.graphs.lookup import GraphLookup
        from evenflow.runtime.worker.graphs.queue import RowQueue
        from evenflow.runtime.worker.graphs.routings import Routings
        from evenflow.runtime.worker.graphs.unit_rows import WaitingGraphRows

        find_graph, queue = GraphLookup(self.operators).find, RowQueue()
        return WaitingGraphRows(
            feeders={},
            queue=queue,
            routings=Routings(self._worker, find_graph, queue),
            find_graph=find_graph,
            peers=self.peers,
            new_id=partial(self._environment.random_bits, ID_BITS),
        )

    def _flows(self, server: KeyedServer, unit_rows: WaitingGraphRows) -> Flows:
        from evenflow.runtime.worker.graphs.flows import Flows
        from evenflow.runtime.worker.graphs.passage import Surroundings

        around = Surroundings(
            worker=self._worker,
            server=server,
            peers=self.peers,
            routings=unit_rows.routings,
            pace=self.pace,
            clock=self._clock,
            new_id=unit_rows.new_id,
        )
        turn_s = self._environment.limits.turn_s
        return Flows(around=around, unit_rows=unit_rows, outbox=self.outbox, turn_s=turn_s)

    def _checkpointer(self, instances: Instances) -> Checkpointer:
        from evenflow.runtime.worker.saving.checkpointer import Checkpointer

        environment, where = self._environment, self._settings.place
        writer = f"{self._worker}.{environment.random_bits(WRITER_BITS)}"
        self.store_transfer = environment.store_transfer(where, self._settings.cluster, self._wake)
        self._blob_writer = environment.blob_writer(where, self._wake)
        self._loader = environment.loader(where, self._wake, instances)
        return Checkpointer(writer, self._tell, self.outbox.answer_end, self._blob_writer, environment.limits)

    def set_memory(self, memory: int) -> None:
        """Change the memory budget, and tell the controller whether that worked."""
        began, error = self._clock(), ""
        regions = self.keyed.server.regions if self.keyed is not None else None
        try:
            if not self._memory:
                raise EvenflowError("the workers of this cluster have no memory budget that could be changed")
            if regions is not None:
                regions.set_memory(memory)
            self._memory = memory
        except BaseException as refused:  # the user's code, when state is pickled; or a disk that is full
            error = described(refused)
        resident, spilled = regions.memory()[1:] if regions is not None else (0, 0)
        self._tell(MemorySet(memory, self._memory, resident, spilled, self._clock() - began, error))

    # -- threads

    @property
    def due(self) -> bool:
        """Whether threads may have brought something."""
        return self.keyed is not None or not self.direct_transfer.inbox.empty()

    @property
    def behind(self) -> bool:
        """Whether the store is so far behind that no rows should be taken."""
        checkpointer = self.keyed.server.checkpointer if self.keyed is not None else None
        return checkpointer is not None and checkpointer.full

    def check_threads(self) -> None:
        """Raise if a thread has ended before its time: the worker cannot go on without it."""
        for part in (self.direct_transfer, self._blob_writer, self.store_transfer):
            if part is not None and part.failure:
                raise EvenflowError(f"the {part.owner}'s thread has failed: {part.failure}")

    def closing(self) -> Iterator[Callable[[], None]]:
        """Calls that close the parts, in their order."""
        server = self.keyed.server if self.keyed is not None else None
        for part in (self.direct_transfer, self.store_transfer, self._loader, self._blob_writer, server):
            if part is not None:
                yield part.close


def keyed_server(
    *,
    tell: SendMessage,
    code: Callable[[str], Hosted | None],
    give: Callable[[list[Answer]], None],
    instances: Instances,
    graph_rows: GraphRows,
    direct_transfer: DirectTransfer,
    checkpointer: Checkpointer | None,
    store_transfer: StoreTransfer | None,
    loader: Loader | None,
    clock: Callable[[], float],
) -> KeyedServer:
    """The keyed server with its parts; `give` sends answers to feeders."""
    from evenflow.runtime.worker.moves.unit_mover import UnitMover
    from evenflow.runtime.worker.rows.keyed import KeyedServer
    from evenflow.runtime.worker.rows.regions import LocalRegions
    from evenflow.runtime.worker.saving.evaluations import EvaluationStates

    regions = LocalRegions(code, instances, give)
    evaluations = EvaluationStates(tell, regions, checkpointer, loader, clock)
    mover = UnitMover(
        tell=tell,
        direct_transfer=direct_transfer,
        regions=regions,
        over=evaluations.over,
        graph_rows=graph_rows,
        checkpointer=checkpointer,
        store_transfer=store_transfer,
    )
    return KeyedServer(
        tell=tell, regions=regions, evaluations=evaluations, mover=mover, checkpointer=checkpointer, clock=clock
    )
