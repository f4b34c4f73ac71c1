"""For tests and experiments: emulated capacity, and whether a keyed operator keeps the laws of moving state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenflow.model.capacity import Emulate

if TYPE_CHECKING:
    from evenflow.operators.keyed import KeyedOperator

__all__ = ["Emulate", "check_operator"]


def check_operator(
    operator: KeyedOperator,
    rows: Any,
    *,
    key: str | Sequence[str],
    units: int = 8,
    rounds: int = 10,
    copies: int = 3,
    seed: int = 0,
) -> None:
    """Raise an AssertionError that says which law the operator breaks, and for which unit; needs no Spark.

    `rows` is a sample, a RecordBatch, Table or DataFrame, with key column or columns `key`. The laws:

    - operator: it can be pickled, and `schema`, if it has one, tells the columns of its results;
    - columns: with `adds`, results begin with their rows; `process` needs no column that `reads` does not name;
    - origin: results that are not one for each row come with the place of the row they come from, not falling;
    - units: the results of a unit depend on its rows only;
    - batches: the results do not depend on how the rows are cut into batches;
    - empty: `extract` gives None for a unit without rows, and after it has been called;
    - pickle: what `extract` gives can be pickled;
    - move: the results do not change if units are moved between copies all the time.

    Results are compared row by row, floats to nine digits. Each of the `rounds` cuts the rows anew, with batches of 0
    and of 1 among them, and moves units between `copies` copies; `seed` decides how.
    """
    from evenflow.operators.laws import Trial

    Trial(operator, rows, key=key, units=units, rounds=rounds, copies=copies, seed=seed).run()
