"""The workers of a cluster: which of them are live, where each is found, what each has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.control.events import Peer
from evenflow.model import WorkerStatus
from evenflow.model.messages import WorkerAddress, WorkerHello


@dataclass(frozen=True, slots=True)
class Site:
    """One life of a worker, and where it is found."""

    peer: Peer
    host: str
    transfer_port: int
    """The port on which other workers bring it units."""
    port: int = 0
    deep: int = 0
    """The ports for feeders: of ordered regions, and of keyed operators."""
    pid: int = 0
    incarnation: int = 0
    key: str = field(default="", repr=False)
    """For tickets of movements to it."""


@dataclass(slots=True)
class Worker:
    """One worker, in its present life or the last."""

    id: int
    state: str = "starting"
    site: Site = Site(-1, "", 0)
    task: tuple[int, int] = (0, 0)
    heard: float = 0.0
    rows: int = 0
    frames: int = 0
    busy_s: float = 0.0
    ready: set[str] = field(default_factory=set)
    """Operators it has loaded."""
    why: str = ""
    """Why it is lost, if that is known."""


class Workers:
    """All workers of a cluster."""

    def __init__(self, count: int) -> None:
        self._all = {number: Worker(number) for number in range(count)}
        self._live: dict[Peer, Worker] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._all

    def __getitem__(self, number: int) -> Worker:
        return self._all[number]

    def of(self, peer: Peer) -> Worker | None:
        """The live worker that a peer is."""
        return self._live.get(peer)

    def join(self, time: float, peer: Peer, hello: WorkerHello) -> Site:
        """A worker begins a life; if it has another, that is over."""
        before = self._all[hello.worker].site
        self._live.pop(before.peer, None)
        incarnation = before.incarnation + 1
        site = Site(peer, hello.host, hello.transfer_port, hello.port, hello.deep, hello.pid, incarnation, hello.key)
        self._all[hello.worker] = self._live[peer] = Worker(hello.worker, "live", site, hello.task, time)
        return site

    def leave(self, peer: Peer, state: str) -> Worker | None:
        """A worker's life is over."""
        worker = self._live.pop(peer, None)
        if worker is not None:
            worker.state = state
        return worker

    @property
    def sites(self) -> dict[int, Site]:
        """The live workers, by id."""
        return {worker.id: worker.site for worker in self._all.values() if worker.state == "live"}

    @property
    def reasons(self) -> dict[int, str]:
        """Why workers were lost, as far as that is known."""
        return {worker.id: worker.why for worker in self._all.values() if worker.why and worker.state != "live"}

    def ready(self, operator: str) -> bool:
        """Whether every live worker has an operator loaded."""
        return all(operator in worker.ready for worker in self._live.values())

    def statuses(self, now: float) -> list[WorkerStatus]:
        """All workers, by id."""
        return [
            WorkerStatus(
                id=worker.id,
                state=worker.state,
                host=worker.site.host,
                pid=worker.site.pid,
                port=worker.site.port,
                incarnation=worker.site.incarnation,
                restarts=max(0, worker.site.incarnation - 1),
                rows=worker.rows,
                frames=worker.frames,
                busy_s=worker.busy_s,
                heard_s=now - worker.heard if worker.site.incarnation else 0.0,
            )
            for worker in self._all.values()
        ]


def listed(sites: Mapping[int, Site], deep: bool = False) -> tuple[WorkerAddress, ...]:
    """The workers as feeders are told of them; `deep`: with the port for feeders of keyed operators."""
    return tuple(
        WorkerAddress(worker, site.incarnation, site.host, site.pid, site.deep if deep else site.port)
        for worker, site in sites.items()
    )
