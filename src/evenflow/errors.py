"""One hierarchy of errors. Each message names the thing, the value and the remedy."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class EvenflowError(Exception):
    """Anything Evenflow raises on purpose."""


class InvalidArgument(EvenflowError, ValueError):
    """A value given by the caller that cannot work."""


class ClusterStopped(EvenflowError):
    """The cluster was stopped, or its driver is gone."""


class ClusterStartError(EvenflowError):
    """The workers could not all be started."""


class WorkerLost(EvenflowError):
    """A worker went away while it held rows of a task; Spark's retry of the task makes it whole."""


class RegionStalled(EvenflowError):
    """No worker of a region answered within the stall timeout."""


class FunctionError(EvenflowError):
    """The user's function raised, or returned something that does not fit the declared schema."""


class ProtocolError(EvenflowError):
    """A peer sent bytes that are not ours; its connection is closed and nobody else is hurt."""


class HandshakeError(ProtocolError):
    """A peer does not hold the cluster's secret, or is too slow to show it."""


class StateLost(EvenflowError):
    """The state of a keyed operator is not what it must be: rows of it would be counted twice, or not at all."""


class StoreError(EvenflowError):
    """A store could not do what it was asked; whether to try again is for the caller to say."""


class StoreInUse(StoreError):
    """Another cluster works on the checkpoint."""


class BlobMissing(StoreError):
    """A blob that was asked for is not in the store."""


class CorruptState(EvenflowError):
    """A blob does not hold what was written to it; names the blob and the place."""


class MemoryBudget(EvenflowError):
    """State that must be in memory as a whole does not fit into a worker's memory budget."""


class SpillError(EvenflowError):
    """State or rows could not be written to the local disk, or read from it; what could not be written is in memory."""


def described(error: BaseException) -> str:
    """What an error is and says; one that cannot even say what it is has its class."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own text fails
        return type(error).__name__


SEVERAL_ACTIONS = "persist() the DataFrame before the first of several actions on it"
"""The remedy for what fails in the same way however often a query is started again."""


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: those it may be, or those that there are."""
    names = sorted(set(known))
    lower = {other.lower(): other for other in names}
    close = [lower[other] for other in difflib.get_close_matches(name.lower(), lower, 3, 0.6)]
    if close:
        return "did you mean " + " or ".join(f"'{other}'" for other in close) + "?"
    if not names:
        return "there are none"
    return "there are: " + ", ".join(f"'{other}'" for other in names[:30]) + (", ..." if len(names) > 30 else "")
