"""What the state of a query is made of: for each unit its newest snapshot, and its rows in the logs since."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model.checkpoint import NOTHING, Base, BatchLog, Key, SavedUnits

Marks = npt.NDArray[np.bool_]


class History:
    """The logs of the batches that are settled, as far as any unit needs them, and the snapshots."""

    def __init__(self, units: int) -> None:
        self._units = units
        self._logs: list[BatchLog] = []
        self._snapshots: dict[str, SavedUnits] = {}
        self._newest = np.full(units, -1, np.int64)
        """By unit, the batch of its newest snapshot."""
        self._rows_in: dict[int, Marks] = {}
        """By batch, the units that had rows in it, as far as that is known."""

    def resume(self, base: Base) -> None:
        """Begin with what the store has; which units had rows in it nobody has said."""
        self._logs = list(base.logs)
        for snapshot in base.snapshots:
            self.snapshot(snapshot)

    @property
    def key(self) -> Key:
        """The batch that was settled last, and the attempt that counts of it."""
        return (self._logs[-1].epoch, self._logs[-1].attempt) if self._logs else NOTHING

    @property
    def base(self) -> Base:
        """The state at its end."""
        return Base(*self.key, self._useful(), tuple(self._logs))

    def arrived(self, epoch: int, units: npt.NDArray[np.int32] | slice | list[int]) -> None:
        """These units have rows in a batch."""
        self._rows_in.setdefault(epoch, np.zeros(self._units, np.bool_))[units] = True

    def append(self, log: BatchLog) -> None:
        """A batch is settled; of the units of which no rows have come in it has none."""
        self._rows_in.setdefault(log.epoch, np.zeros(self._units, np.bool_))
        self._logs.append(log)

    def snapshot(self, saved: SavedUnits) -> None:
        """Units were saved as they were at the end of a batch."""
        self._snapshots[saved.name] = saved
        self._newest[saved.units] = np.maximum(self._newest[saved.units], saved.epoch)

    def trim(self, epoch: int) -> tuple[str, ...]:
        """Forget what no unit needs any more, in the midst of a batch; the snapshots among it."""
        known = set(self._snapshots)
        last = self._logs[-1:]  # it names the batch that the state is of
        self._logs = [log for log in self._logs[:-1] if self._needed(log.epoch).any()] + last
        kept = {log.epoch for log in self._logs}
        self._rows_in = {each: marks for each, marks in self._rows_in.items() if each in kept or each >= epoch}
        self._snapshots = {useful.name: useful for useful in self._useful()}
        return tuple(sorted(known - self._snapshots.keys()))

    def _needed(self, epoch: int) -> Marks:
        """The units whose rows in a batch are in no snapshot; where it is not known who had rows, all may have."""
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
