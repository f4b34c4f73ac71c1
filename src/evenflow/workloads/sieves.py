"""What the operators of schemes do with rows: keep some by a hash, and prepare them for a join.

They are classes at the top of a module, so that workers find them by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KEYS = 20
"""Different values of the join key `k`, from 0 on."""
NOBODY = -1
"""A join key that no row of the other side has."""

_ADD, _M1, _M2 = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class Sieve:
    """Keeps a share of the rows, chosen by a hash of all their ids and a salt: the same rows every time."""

    salt: int
    share: float

    @property
    def __name__(self) -> str:
        """What pictures call it."""
        return f"keeps {self.share:.0%}"

    def __call__(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Whether each row is kept."""
        mark = _mixed(np.full(rows.num_rows, self.salt, np.uint64) * _ADD)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if name.startswith("id"):
                mark = _mixed(mark + column.to_numpy(zero_copy_only=False).astype(np.uint64) * _ADD)
        return np.asarray((mark >> np.uint64(11)).astype(np.float64) * 2.0**-53 < self.share)


@dataclass(frozen=True)
class RightSide:
    """A sieve before the right side of a join: keeps a share of the rows, and gives columns of a name of their own.

    Rows whose key is in `met` are paired; the others get a key that nobody has.
    """

    sieve: Sieve
    met: tuple[int, ...]
    suffix: str

    @property
    def __name__(self) -> str:
        """What pictures call it."""
        return f"{self.sieve.__name__}, to join"

    @property
    def schema(self) -> str:
        """The columns that it gives."""
        return f"id{self.suffix} long, k{self.suffix} long"

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are kept, with the columns of `schema`."""
        kept = rows.filter(pa.array(self.sieve(rows)))
        keys = kept.column("k").to_numpy()
        keys = np.where(np.isin(keys, self.met), keys, NOBODY)
        return pa.RecordBatch.from_arrays(
            [kept.column("id"), pa.array(keys)], names=[f"id{self.suffix}", f"k{self.suffix}"]
        )


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finisher of splitmix64."""
    value = (value ^ (value >> np.uint64(30))) * _M1
    value = (value ^ (value >> np.uint64(27))) * _M2
    return value ^ (value >> np.uint64(31))
