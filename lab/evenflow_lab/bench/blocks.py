"""A keyed operator whose state has a given size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.keyed import KeyedOperator

Block = npt.NDArray[np.uint8]


@dataclass
class Blocks(KeyedOperator):
    """A block of random bytes for each unit that has had a row; a batch of rows touches those of its units."""

    order_sensitive: ClassVar[bool] = False

    block_bytes: int
    blocks: dict[int, Block] = field(default_factory=dict)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def process(
        self, rows: pa.RecordBatch, units: npt.NDArray[np.int32], keys: npt.NDArray[np.int64]
    ) -> pa.RecordBatch:
        """Change a byte of each unit's block."""
        for unit in np.unique(units).tolist():
            if unit not in self.blocks:
                self.blocks[unit] = np.random.default_rng(unit).integers(0, 256, self.block_bytes, np.uint8)
            self.blocks[unit][0] ^= 1
        return rows

    def extract(self, unit: int) -> Block | None:
        return self.blocks.pop(unit, None)

    def install(self, unit: int, state: Block) -> None:
        self.blocks[unit] = state if state.flags.writeable else state.copy()

    def size(self, unit: int) -> int:
        """The bytes of the block; 0 if there is none."""
        return self.blocks[unit].nbytes if unit in self.blocks else 0
