"""The workers of a cluster: which are live, their addresses, their budgets and their counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evenflow.control.events import (
    Instruction,
    MemoryAskedEvent,
    Peer,
    ReportsAskedEvent,
    SendInstruction,
    WarnInstruction,
)
from evenflow.model import WorkerStatus
from evenflow.model.entries import MemoryAskedEntry, MemoryRefusedEntry, MemorySetEntry
from evenflow.model.messages import MemorySet, SendReport, SetMemory, WorkerAddress, WorkerHello


@dataclass(frozen=True, slots=True)
class WorkerLife:
    """One incarnation of a worker, and its addresses."""

    peer: Peer
    host: str
    transfer_port: int
    """The port for other workers that send units to it."""
    port: int = 0
    """The port for feeders of ordered regions."""
    deep: int = 0
    """The port for feeders of keyed operators, whose sockets have deep buffers."""
    pid: int = 0
    incarnation: int = 0
    key: str = field(default="", repr=False)
    """The key for tickets of movements to it."""


@dataclass(slots=True)
class WorkerRecord:
    """The controller's record of one worker, in its present incarnation or its last."""

    id: int
    state: str = "starting"
    life: WorkerLife = WorkerLife(-1, "", 0)
    task: tuple[int, int] = (0, 0)
    heard: float = 0.0
    rows: int = 0
    frames: int = 0
    busy_s: float = 0.0
    ready: set[str] = field(default_factory=set)
    """The operators that it has loaded."""
    why: str = ""
    """Why it was lost, if that is known."""
    answered: int = 0
    """The number of the latest question that it has answered with a report."""
    memory: int = 0
    """The budget in bytes that the user has given it since the cluster started; 0 if it has its first one."""


class Workers:
    """All workers of a cluster."""

    def __init__(self, count: int) -> None:
        self._all = {number: WorkerRecord(number) for number in range(count)}
        self._live: dict[Peer, WorkerRecord] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._all

    def __getitem__(self, number: int) -> WorkerRecord:
        return self._all[number]

    def of(self, peer: Peer) -> WorkerRecord | None:
        """The live worker behind a peer; None if the peer is not one."""
        return self._live.get(peer)

    def join(self, time: float, peer: Peer, hello: WorkerHello) -> WorkerLife:
        """A new incarnation of a worker has joined, and replaces the one before."""
        before, memory = self._all[hello.worker].life, self._all[hello.worker].memory
        self._live.pop(before.peer, None)
        incarnation = before.incarnation + 1
        life = WorkerLife(
            peer=peer,
            host=hello.host,
            transfer_port=hello.transfer_port,
            port=hello.port,
            deep=hello.deep,
            pid=hello.pid,
            incarnation=incarnation,
            key=hello.key,
        )
        record = WorkerRecord(hello.worker, state="live", life=life, task=hello.task, heard=time, memory=memory)
        self._all[hello.worker] = self._live[peer] = record
        return life

    def leave(self, peer: Peer, state: str) -> WorkerRecord | None:
        """A peer has left; returns the worker that it was, if it was one."""
        worker = self._live.pop(peer, None)
        if worker is not None:
            worker.state = state
        return worker

    @property
    def live(self) -> dict[int, WorkerLife]:
        """The present lives of the live workers, by id."""
        return {worker.id: worker.life for worker in self._all.values() if worker.state == "live"}

    @property
    def reasons(self) -> dict[int, str]:
        """Why workers were lost, as far as that is known."""
        return {worker.id: worker.why for worker in self._all.values() if worker.why and worker.state != "live"}

    def ready(self, operator: str) -> bool:
        """Whether every live worker has an operator loaded."""
        return all(operator in worker.ready for worker in self._live.values())

    # -- memory

    def ask_memory(self, event: MemoryAskedEvent) -> Iterator[Instruction]:
        """Tell the workers their new budgets, and note these for workers that are started in their place."""
        for number, memory in event.memory.items():
            worker = self[number]
            worker.memory = memory
            yield MemoryAskedEntry(time=event.time, worker=number, memory=memory)
            if worker.state == "live":
                yield SendInstruction(worker.life.peer, SetMemory(memory))

    def memory_set(self, time: float, worker: WorkerRecord, told: MemorySet) -> Iterator[Instruction]:
        """A worker has another budget, or says why not."""
        worker.memory = told.memory
        if not told.error:
            yield MemorySetEntry(
                time=time,
                worker=worker.id,
                memory=told.memory,
                resident=told.resident,
                spilled=told.spilled,
                seconds=round(told.seconds, 6),
            )
            return
        yield MemoryRefusedEntry(
            time=time,
            worker=worker.id,
            memory=told.memory,
            resident=told.resident,
            spilled=told.spilled,
            asked=told.asked,
            reason=told.error,
        )
        text = f"worker {worker.id} keeps {told.memory} bytes of memory for state, and does not change to {told.asked}"
        yield WarnInstruction(f"{text}: {told.error}")

    # -- questions

    def ask_reports(self, event: ReportsAskedEvent) -> Iterator[Instruction]:
        """Have the live workers report."""
        for peer in self._live:
            yield SendInstruction(peer, SendReport(event.number))

    def reported(self, number: int) -> bool:
        """Whether every live worker has answered a question."""
        return all(worker.answered >= number for worker in self._live.values())

    def statuses(self, now: float) -> list[WorkerStatus]:
        """The status of all workers, by id."""
        return [
            WorkerStatus(
                id=worker.id,
                state=worker.state,
                host=worker.life.host,
                pid=worker.life.pid,
                port=worker.life.port,
                incarnation=worker.life.incarnation,
                restarts=max(0, worker.life.incarnation - 1),
                rows=worker.rows,
                frames=worker.frames,
                busy_s=worker.busy_s,
                heard_s=now - worker.heard if worker.life.incarnation else 0.0,
            )
            for worker in self._all.values()
        ]


def listed(workers: Mapping[int, WorkerLife], deep: bool = False) -> tuple[WorkerAddress, ...]:
    """The addresses of workers for feeders; with `deep`, the ports for feeders of keyed operators."""
    return tuple(
        WorkerAddress(worker, life.incarnation, life.host, life.pid, life.deep if deep else life.port)
        for worker, life in workers.items()
    )
