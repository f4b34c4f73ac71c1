"""One hierarchy of errors. Each message names the thing, the value and the remedy."""

from __future__ import annotations

import difflib
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "BlobMissing",
    "ClusterStartError",
    "ClusterStopped",
    "CorruptState",
    "EvenflowError",
    "FunctionError",
    "HandshakeError",
    "InvalidArgument",
    "MemoryBudget",
    "MissingPackage",
    "ProtocolError",
    "RegionStalled",
    "SimulationError",
    "SpillError",
    "StateGone",
    "StateLost",
    "StoreError",
    "StoreInUse",
    "StoreMissing",
    "WorkerLost",
]


class EvenflowError(Exception):
    """The base of all errors that Evenflow raises on purpose."""


class InvalidArgument(EvenflowError, ValueError):
    """The caller gave a value that cannot work."""


class MissingPackage(EvenflowError):
    """A package that only one of Evenflow's extras brings is not installed; the message names the extra."""


class ClusterStopped(EvenflowError):
    """The cluster was stopped, or its driver is gone."""


class ClusterStartError(EvenflowError):
    """The workers could not all be started."""


class WorkerLost(EvenflowError):
    """A worker was lost while it held rows of a task; Spark's retry of the task repairs it."""


class RegionStalled(EvenflowError):
    """No worker of a region answered within the stall timeout."""


class FunctionError(EvenflowError):
    """The user's function raised, or returned something that does not fit the declared schema."""

    worker: int | None = None
    """Where it ran, if that is known."""


class ProtocolError(EvenflowError):
    """A peer sent bytes against the protocol; only its own connection is closed."""


class StateGone(ProtocolError):
    """A worker refuses rows that were on their way when it dropped the state that they are for."""


class HandshakeError(ProtocolError):
    """A peer does not prove that it has the cluster's secret, or takes too long."""


class SimulationError(EvenflowError):
    """A simulation cannot go on: it asks for what is not simulated, or nothing in it moves any more."""


class StateLost(EvenflowError):
    """The state of a keyed operator is not the right one: rows would be counted twice, or not at all."""


class StoreError(EvenflowError):
    """An operation of a store failed; the caller decides whether to try again."""


class StoreMissing(StoreError):
    """There is no checkpoint at the place that was given."""


class StoreInUse(StoreError):
    """Another cluster uses the checkpoint."""


class BlobMissing(StoreError):
    """A blob that was asked for is not in the store."""


class CorruptState(EvenflowError):
    """A blob does not hold what was written to it; the message names the blob and the place in it."""


class MemoryBudget(EvenflowError):
    """State that must be in memory at once does not fit into a worker's memory budget."""


class SpillError(EvenflowError):
    """State or rows could not be written to the local disk, or read from it; unwritten state is still in memory."""


@contextmanager
def extra(name: str, what: str, where: str = "") -> Iterator[None]:
    """Import in this block what only `pip install 'evenflow[name]'` brings; `what` needs it, at `where`."""
    try:
        yield
    except ImportError as error:
        raise MissingPackage(f"{what}: {error}; run `pip install 'evenflow[{name}]'`{where}") from error


MOST_TEXT = 1_000_000
"""Characters of an error's text that are passed on: a message has a limit, and nobody reads more."""


def described(error: BaseException) -> str:
    """The class and the text of an error; the class alone if making the text fails."""
    try:
        return f"{type(error).__name__}: {error}"[:MOST_TEXT]
    except Exception:  # an exception whose own text fails
        return type(error).__name__


SEVERAL_ACTIONS = "persist() the DataFrame before the first of several actions on it"
"""The remedy for an error that comes again each time the query is restarted."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not empty; its class if there is none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def close_to(name: str, known: Iterable[str]) -> str:
    """A question about an unknown name, with a space behind it: the names it may stand for; empty if there are none."""
    lower = {other.lower(): other for other in sorted(set(known))}
    close = [lower[other] for other in difflib.get_close_matches(name.lower(), lower, 3, 0.6)]
    return "did you mean " + " or ".join(f"'{other}'" for other in close) + "? " if close else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the names it may stand for, or all names."""
    names = sorted(set(known))
    close = close_to(name, names)
    if close:
        return close.rstrip()
    if not names:
        return "there are none"
    return "there are: " + ", ".join(f"'{other}'" for other in names[:30]) + (", ..." if len(names) > 30 else "")
