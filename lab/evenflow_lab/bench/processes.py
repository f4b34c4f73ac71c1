"""Processor time and memory of processes."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def children(name: str = "") -> list[psutil.Process]:
    """The processes below this one, directly or not, whose name has a word in it."""
    return [each for each in psutil.Process().children(recursive=True) if name in each.name()]


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Seconds of processor time so far; 0 for a process that has ended."""
    times = (process.cpu_times() for process in processes if process.is_running())
    return float(sum(each.user + each.system for each in times))


def resident_mb(process: psutil.Process) -> float:
    """Resident memory, in millions of bytes."""
    return float(process.memory_info().rss) / 1e6
