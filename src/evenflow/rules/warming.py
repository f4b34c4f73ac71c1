"""Compiles the code of rules before their first row comes, without calling any user's function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.slots import Slots
from evenflow.rules.engine import Engine
from evenflow.rules.patterns.matching import Patterns

REHEARSAL = {
    "running": "select avg(x), min(x), stddev(x), count(*) from T",
    "length": "select sum(x) from T.win:length(3)",
    "time": "select avg(x), stddev(x) from T.win:time(3 sec) group by g",
    "group": "select max(x) from T.win:length(3) group by g",
    "listed": "select count(distinct g), first(x), max(g), prev(x) from T.win:length(3) where x > 0 group by g",
    "timed list": "select last(g), prev(2, x) from T.win:time(3 sec)",
    "join": "select max(A.x), avg(A.x - B.x) from T.std:lastevent() A, T.win:length(3) B having count(*) > 0",
    "timed join": "select A.x as a, B.x as b from T.std:lastevent() A, T.win:time(3 sec) B",
    "batch": "select sum(x) from T.win:length_batch(3)",
    "pattern": "every a=T(x > 5) -> b=T(x < a.x and g = a.g) where timer:within(10 sec)",
    "alarm": "select a.x as x from pattern [every a=T(x > 5) -> (timer:interval(1 sec) and not b=T(x < a.x))]",
    "paced": "select x from T output last every 3 sec",
    "begun": "select x from T output first every 3 sec",
    "timed batch": "select x from T.win:time_batch(3 sec)",
}


def warm_up(engine: Engine, rows: pa.Schema, rehearsal: Callable[[], KeyedOperator]) -> None:
    """Run an operator with the rules of REHEARSAL on made-up rows, and the engine's patterns on no rows."""
    for state in engine.world.states:
        if isinstance(state, Patterns):
            state.warm_up(rows)
    count = 200  # more keys than there are slots at first
    numbers = np.arange(count, dtype=np.int64)
    some = pa.record_batch(
        {
            "x": pa.array(numbers.astype(np.float64), mask=numbers % 7 == 0),
            "g": pa.array((numbers % 3).astype(str)),
            "t": pa.array(numbers - numbers % 2 * 2),
            "k": pa.array(numbers % 2),
        }
    )
    units = (numbers % 2).astype(np.int32)
    kinds = [pa.float64()] if not engine.world.exact else [pa.float64(), pa.decimal128(30, 2)]
    for kind in kinds:
        rows = some.set_column(0, "x", some.column(0).cast(kind))
        actor = rehearsal()
        for keys in (numbers % 2, numbers):
            actor.process(rows, units, keys)
        actor.sizes(np.array([0, 1], np.int32))
        actor.install(1, actor.extract(1))
        actor.on_time(1 << 50, np.array([0, 1], np.int32))  # later than all rows
    slots = Slots()
    slots.forget(slots.find(units, numbers))  # happens in rules only after more rows than these
