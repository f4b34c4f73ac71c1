"""Amounts in arguments of `Cluster`, checked: workers, units, seconds, and sizes in bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of, whole_of
from evenflow.model.routing import MOST_UNITS

LEAST_MEMORY = LEAST_LOG = 64 * 1024
MOST_SKEW = 1024**3
MOST_BYTES = 1 << 62
LONGEST_S = 1e9
"""Thirty years: what waits longer overflows somewhere."""
LEAST_PERIOD_S, MOST_PERIOD_S = 0.001, 3600
"""More often, and a process would do nothing but report; beyond, a poller cannot wait as long."""


def workers_of(workers: int) -> int:
    """The number of workers."""
    if not 1 <= whole_of(workers) < 1 << 31:
        raise InvalidArgument(f"workers={workers!r}: a cluster needs at least 1 worker, and a whole number of them")
    return whole_of(workers)


def period_of(period: float) -> float:
    """The seconds between samples."""
    if not LEAST_PERIOD_S <= number_of(period) <= MOST_PERIOD_S:
        raise InvalidArgument(f"period={period!r}: give seconds from {LEAST_PERIOD_S} to {MOST_PERIOD_S}")
    return number_of(period)


def seconds_of(**given: float) -> float:
    """The seconds that are given by name; refuses all but a number above 0."""
    ((name, value),) = given.items()
    if not 0 < number_of(value) <= LONGEST_S:
        raise InvalidArgument(f"{name}={value!r}: give seconds, above 0 and at most {LONGEST_S:g}")
    return number_of(value)


def check_units(units: int | None, workers: int) -> int:
    """The number of units; refuses one that is not at least the number of workers, or too large."""
    if not workers <= whole_of(units) <= MOST_UNITS:
        raise InvalidArgument(f"units={units!r}: give a number from {workers} (the workers) to {MOST_UNITS:,}")
    return whole_of(units)


def check_move(units: Any, target: Any, most: int, workers: int) -> list[int]:
    """The units to be moved, as a list; refuses wrong units, and a target that is no worker."""
    listed: list[Any] = list(units) if isinstance(units, Iterable) and not isinstance(units, str) else [None]
    if not all(_among(unit, most) for unit in listed) or not _among(target, workers):
        raise InvalidArgument(
            f"units {units!r:.100} to worker {target!r:.100}: give a list of units from 0 to {most - 1}, and a worker "
            f"from 0 to {workers - 1}"
        )
    return [int(unit) for unit in listed]


def _among(number: Any, count: int) -> bool:
    return 0 <= whole_of(number) < count


def bytes_of(memory: str | int | None) -> int:
    """A budget in bytes, given in the way of Spark's memory settings; 0 for none."""
    if memory is None:
        return 0
    size = _parsed_size(memory)
    if size is None or size < LEAST_MEMORY:
        raise InvalidArgument(f'memory={memory!r}: give bytes as a whole number, or a string like "512m", from 64k up')
    return size


def budgets_of(memory: str | int | Mapping[int, str | int], workers: int, limited: bool) -> dict[int, int]:
    """By worker, a new budget in bytes; refuses a cluster without budgets, and numbers of no worker."""
    if not limited:
        raise InvalidArgument(
            "this cluster has no memory budget: give Cluster(memory=...) one, and it can be changed while it runs"
        )
    if memory is None or (isinstance(memory, Mapping) and not memory):
        raise InvalidArgument(f'memory={memory!r}: give bytes, or a string like "512m", or these by worker')
    if not isinstance(memory, Mapping):
        return dict.fromkeys(range(workers), bytes_of(memory))
    for worker, size in memory.items():
        if not _among(worker, workers):
            raise InvalidArgument(f"memory has worker {worker!r}: give workers from 0 to {workers - 1}")
        if size is None:
            raise InvalidArgument(f'memory of worker {worker} is None: give bytes, or a string like "512m"')
    return {int(worker): bytes_of(size) for worker, size in memory.items()}


def gap_of(t_gap: float | Literal["read"] | None, limited: bool) -> float | Literal["read"] | None:
    """How units on disk take turns; refuses it in a cluster without a memory budget."""
    seconds = number_of(t_gap)
    if t_gap is not None and not 0 <= seconds <= LONGEST_S and not (isinstance(t_gap, str) and t_gap == "read"):
        raise InvalidArgument(f't_gap={t_gap!r}: give seconds from 0 up, "read", or nothing')
    if t_gap is not None and not limited:
        raise InvalidArgument(f"t_gap={t_gap!r} and no memory: nothing goes to disk without a memory budget, give both")
    return t_gap if t_gap is None or t_gap == "read" else seconds


def room_of(skew_bytes: str | int | None) -> int:
    """The bytes of rows that may wait in a feeder; 0 is allowed."""
    size = _parsed_size(skew_bytes)
    if size is None or size > MOST_SKEW:
        raise InvalidArgument(
            f'skew_bytes={skew_bytes!r}: give bytes as a whole number, or a string like "256k", from 0 to 1g'
        )
    return size


def rows_of(queue_rows: int | None) -> int:
    """How many rows of a task may be on their way through a graph."""
    if not 1 <= whole_of(queue_rows) < 1 << 62:
        raise InvalidArgument(f"queue_rows={queue_rows!r}: give a whole number of rows, at least 1")
    return whole_of(queue_rows)


def queue_of(queue_bytes: str | int | None) -> int:
    """How many bytes of rows of a task may be on their way through a graph."""
    size = _parsed_size(queue_bytes)
    if size is None or size < LEAST_MEMORY:
        raise InvalidArgument(
            f'queue_bytes={queue_bytes!r}: give bytes as a whole number, or a string like "16m", from 64k up'
        )
    return size


def log_size_of(event_log_size: str | int) -> int:
    """The bytes that all pieces of the event log may have together."""
    size = _parsed_size(event_log_size)
    if size is None or size < LEAST_LOG:
        raise InvalidArgument(
            f'event_log_size={event_log_size!r}: give bytes as a whole number, or a string like "256m", from 64k up'
        )
    return size


def _parsed_size(text: object) -> int | None:
    """Bytes, given as a whole number or like "512m"; None if they are not."""
    if not isinstance(text, str):
        return whole_of(text) if 0 <= whole_of(text) <= MOST_BYTES else None
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?)i?b?", text.strip().lower())
    size = int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " ")) if match else MOST_BYTES + 1
    return size if size <= MOST_BYTES else None
