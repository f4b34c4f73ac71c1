"""The surroundings of a worker: clock, pollers, threads, stores and limits. Tests give their own.

Modules for the store are imported when they are used: a worker without an operator stays small.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.runtime.wire.poller import Poller
from evenflow.runtime.worker.limits import LIMITS, WorkerLimits
from evenflow.runtime.worker.moves.direct_transfer import TRANSFER_BUFFER, DirectTransfer

if TYPE_CHECKING:
    from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
    from evenflow.runtime.worker.rows.instances import Instances
    from evenflow.runtime.worker.saving.blob_writer import BlobWriter
    from evenflow.runtime.worker.saving.loader import Loader
    from evenflow.state.store.sealed import Place

Clock = Callable[[], float]
"""Seconds since some moment."""
Wake = Callable[[], None]
"""Makes the worker's loop look for news of its threads."""


def _direct_transfer(secret: bytes, clock: Clock, wake: Wake, key: str, limits: WorkerLimits) -> DirectTransfer:
    return DirectTransfer(Poller(secret, clock, TRANSFER_BUFFER), wake, key, part_bytes=limits.part_bytes)


def _blob_writer(where: str | Place, wake: Wake) -> BlobWriter:
    from evenflow.runtime.worker.saving.blob_writer import BlobWriter

    made = BlobWriter(where, wake)
    made.begin()  # a thread that cannot start must not look like a failure of the rows that are logged first
    return made


def _loader(where: str | Place, wake: Wake, instances: Instances) -> Loader:
    from evenflow.runtime.worker.saving.loader import Loader

    return Loader(where, wake, instances)


def _store_transfer(where: str | Place, cluster: str, wake: Wake) -> StoreTransfer:
    from evenflow.runtime.worker.moves.store_transfer import StoreTransfer

    return StoreTransfer(where, cluster, wake)


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """How one worker gets its clock, its threads and its limits."""

    clock: Clock = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    poller: Callable[[bytes, Clock, int], Poller] = Poller
    """Made from the cluster's secret, the clock and the bytes of a socket's buffer."""
    direct_transfer: Callable[[bytes, Clock, Wake, str, WorkerLimits], DirectTransfer] = _direct_transfer
    blob_writer: Callable[[str | Place, Wake], BlobWriter] = _blob_writer
    loader: Callable[[str | Place, Wake, Instances], Loader] = _loader
    store_transfer: Callable[[str | Place, str, Wake], StoreTransfer] = _store_transfer
    random_bits: Callable[[int], int] = secrets.randbits
    limits: WorkerLimits = LIMITS


REAL = WorkerEnvironment()
