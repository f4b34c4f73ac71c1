"""The stored state of a query: for each unit its newest snapshot, and its rows in the logs since then."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model.checkpoint import NOTHING, AttemptKey, Base, BatchLog, SavedUnits

Marks = npt.NDArray[np.bool_]


class History:
    """The logs of settled batches, as far as some unit needs them, and the snapshots."""

    def __init__(self, units: int) -> None:
        self._units = units
        self._logs: list[BatchLog] = []
        self._snapshots: dict[str, SavedUnits] = {}
        self._newest = np.full(units, -1, np.int64)
        """The batch of each unit's newest snapshot; -1 if it has none."""
        self._rows_in: dict[int, Marks] = {}
        """By batch, the units that had rows in it; batches for which that is not known are missing."""

    def resume(self, base: Base) -> None:
        """Begin with the state in the store; it is not known which units had rows in its batches."""
        self._logs = list(base.logs)
        for snapshot in base.snapshots:
            self.snapshot(snapshot)

    @property
    def key(self) -> AttemptKey:
        """The batch that was settled last, and the attempt at it that counts."""
        return (self._logs[-1].epoch, self._logs[-1].attempt) if self._logs else NOTHING

    @property
    def base(self) -> Base:
        """The state at the end of that batch."""
        epoch, attempt = self.key
        return Base(epoch=epoch, attempt=attempt, snapshots=self._useful(), logs=tuple(self._logs))

    def arrived(self, epoch: int, units: npt.NDArray[np.int32] | slice | list[int]) -> None:
        """Note that these units have rows in a batch."""
        self._rows_in.setdefault(epoch, np.zeros(self._units, np.bool_))[units] = True

    def append(self, log: BatchLog) -> None:
        """Add the log of a settled batch; units whose rows have not arrived in it have none there."""
        self._rows_in.setdefault(log.epoch, np.zeros(self._units, np.bool_))
        self._logs.append(log)

    def snapshot(self, saved: SavedUnits) -> None:
        """Add a snapshot of units at the end of a batch."""
        self._snapshots[saved.name] = saved
        self._newest[saved.units] = np.maximum(self._newest[saved.units], saved.epoch)

    def trim(self, epoch: int) -> tuple[str, ...]:
        """Forget logs and snapshots that no unit needs, while batch `epoch` runs; returns those snapshots."""
        known = set(self._snapshots)
        last = self._logs[-1:]  # always kept: it tells the batch of the state
        self._logs = [log for log in self._logs[:-1] if self._needed(log.epoch).any()] + last
        kept = {log.epoch for log in self._logs}
        self._rows_in = {each: marks for each, marks in self._rows_in.items() if each in kept or each >= epoch}
        self._snapshots = {useful.name: useful for useful in self._useful()}
        return tuple(sorted(known - self._snapshots.keys()))

    def _needed(self, epoch: int) -> Marks:
        """The units whose rows in a batch are in no snapshot; if it is not known which had rows, all may have."""
        rows = self._rows_in.get(epoch)
        missing: Marks = self._newest < epoch
        return missing if rows is None else missing & rows

    def _useful(self) -> tuple[SavedUnits, ...]:
        """The snapshots that are the newest of some unit, from old to new."""
        claimed = np.zeros(self._units, np.bool_)
        useful = []
        for kept in sorted(self._snapshots.values(), key=lambda each: -each.epoch):
            if not claimed[kept.units].all():
                useful.append(kept)
                claimed[kept.units] = True
        return tuple(reversed(useful))
