"""For tests and experiments: emulated capacity, and checks of your own operators and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evenflow.model.capacity import Emulate

if TYPE_CHECKING:
    from evenflow.operators.keyed import KeyedOperator
    from evenflow.state.store.base import Store

__all__ = ["Emulate", "check_operator", "check_store"]


def check_operator(
    operator: KeyedOperator,
    rows: Any,
    *,
    key: str | Sequence[str],
    units: int = 8,
    rounds: int = 10,
    copies: int = 3,
    seed: int = 0,
    time: str | None = None,
) -> None:
    """Raise an AssertionError that says which law the operator breaks, and for which unit; needs no Spark.

    `rows` is a sample, a RecordBatch, Table or DataFrame, with key column or columns `key`. The laws:

    - operator: it can be pickled, and `schema`, if it has one, gives the columns of its results;
    - columns: with `adds`, results begin with their rows; `process` needs no column that `reads` does not name;
    - origin: results that are not one for each row come with the place of their row, in rising order;
    - units: the results of a unit depend on its own rows only;
    - batches: the results do not depend on how the rows are cut into batches;
    - empty: `extract` gives None for a unit without rows, and after it has been called;
    - pickle: what `extract` gives can be pickled;
    - move: the results do not change if units are moved between copies all the time;
    - time: for operators with `on_time` (then `time` names the column of the time) or `on_end`: the results do not
      change if units are moved, or told the time in other groups, while rows come in the order of their time.

    Results are compared row by row, floats to nine digits. Each of the `rounds` cuts the rows into batches anew, some
    with 0 rows or 1 row, and moves units between `copies` copies; `seed` decides how.
    """
    from evenflow.operators.laws.time_laws import TimeTrial

    TimeTrial(operator, rows, time=time, key=key, units=units, rounds=rounds, copies=copies, seed=seed).run()


def check_store(make: Callable[[], Store], *, large: int = 100 * 1024 * 1024) -> None:
    """Raise an AssertionError that says which law a store breaks; `make` gives a new, empty store each time.

    - round trip: `get` gives what was put, in memory of its own, and raises `BlobMissing` if there is no such blob;
    - parts: a blob is its parts one after the other, however many;
    - ranges: `get` gives as many bytes as there are between `start` and `start + length`;
    - overwriting: the last put wins;
    - listing: `names` gives all names with a prefix, wherever the prefix ends, sorted, and their sizes in bytes;
    - deleting: a blob may be deleted twice, or without having been put;
    - names: `part` makes a valid name of any text, and different names of different texts;
    - bad names: invalid names are refused;
    - atomic: a put that fails leaves what was there before;
    - threads: several threads may use the store at a time, and put the same name;
    - fencing: after a second claim, puts and deletions of the first have no effect, and its owner is told so;
    - large: a blob may have `large` bytes.

    It cannot check whether a blob survives a loss of power, or the death of its writer.
    """
    from evenflow.state.store.conformance import check

    check(make, large)
