"""What a case is, and how a seed gives one."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.differential.values import COLLATED, COMPARED, KEYS, KINDS, SUMMED

SUMS = ("sum", "mean", "std")
ALL = ("count", "min", "max", *SUMS)

OPERATORS = ("rolling-rows", "rolling-seconds", "running", "last", "distinct", "join-rows", "join-seconds", "tally")
"""`tally` counts rows: what comes out does not depend on their order, so it needs none."""
NEWER = ("aggregates-rows", "aggregates-seconds", "aggregates-running", "sided-rows", "sided-seconds")
"""Operators that seeds from `FIRST_NEWER` on draw, too: those below keep the cases that they had."""
FIRST_NEWER = 2000
LAGGING = ("sided-rows", "sided-seconds", "join-rows", "join-seconds", "two-streams")
"""What seeds from `FIRST_LAGGING` on draw: two streams, of which one is read at one file a micro-batch, one at four."""
FIRST_LAGGING = 6000
RULES = ("length", "filtered", "where", "time", "endless", "length-batch", "time-batch", "pattern", "two-streams")
BATCH = ("collect", "twice", "write", "select", "take", "limit", "tail", "show", "persist", "iterator", "empty")
STREAM = ("parquet", "memory", "foreach", "foreach-persist", "foreach-empty", "restart", "stopped")
CHECKPOINTED = ("restart", "stopped")
"""Actions that need state which survives the query."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case; everything about it follows from these values."""

    seed: int
    what: str
    """An operator or a rule."""
    how: str
    """The aggregate, where there is one."""
    value: str
    keys: tuple[str, ...]
    nested: bool
    """Whether the key is one struct of these columns."""
    action: str
    rows: int
    distinct: int
    partitions: int
    after: int
    """The partitions after a restart."""
    batches: int
    """Micro-batches; 0 is a batch DataFrame."""
    shuffled: bool
    """Whether rows come in any order within a batch; else each partition has them in order of time."""
    lateness: int
    """Seconds that rows may be behind, over the ends of micro-batches, too; 0 is none."""
    window: int
    """Rows or seconds."""
    workers_store: bool
    """Whether the cluster has a checkpoint."""
    lags: bool = False
    """Whether rows with tag L are read more slowly than those with tag R."""

    @property
    def streaming(self) -> bool:
        return self.batches > 0

    @property
    def rule(self) -> bool:
        return self.what in RULES

    @property
    def ordered(self) -> bool:
        """Whether order has to be asked for."""
        several = self.partitions > 1 or self.after > 1 or self.what.startswith("sided")
        return self.what != "tally" and (several or self.shuffled or self.lateness > 0)

    @property
    def waiting(self) -> bool:
        """Whether rows wait until time has passed: something has to move it on."""
        return self.streaming and (self.rule or self.lateness > 0)

    def __str__(self) -> str:
        kind = f"{self.batches} micro-batches" if self.streaming else "a batch"
        how = f" of {self.how}({self.value})" if self.how else f" of {self.value}"
        key = ("struct " if self.nested else "") + ", ".join(self.keys)
        parts = f"{self.partitions}, then {self.after}" if self.action in CHECKPOINTED else f"{self.partitions}"
        order = "".join(
            (
                ", shuffled" if self.shuffled else "",
                f", {self.lateness} s late" if self.lateness else "",
                ", order asked for" if self.ordered else "",
                ", checkpoint" if self.workers_store else "",
                ", one side lags" if self.lags else "",
            )
        )
        return (
            f"seed {self.seed}: {self.what}{how} over {self.window} by {key}; {kind} of {self.rows} rows, "
            f"{self.distinct} keys, partitions {parts}{order}; {self.action}"
        )


def draw(seed: int) -> Case:
    """The case of a seed."""
    drawn = random.Random(f"differential {seed}")
    streaming = drawn.random() < 0.35
    what = drawn.choice(OPERATORS if drawn.random() < 0.6 else RULES)
    newer = random.Random(f"newer {seed}")
    if seed >= FIRST_NEWER and newer.random() < 0.25:
        what = newer.choice(NEWER)
    action = drawn.choice(STREAM if streaming else BATCH)
    value, how = _value(drawn, what)
    keys = tuple(drawn.choice(COLLATED if drawn.random() < 0.25 else KEYS) for _ in range(drawn.choice((1, 1, 2, 3))))
    partitions = drawn.choice((1, 2, 3, 4, 6, 8))
    if streaming:
        partitions = min(partitions, 4)
    # Rules go by their time; operators may be asked to, and must be where rows come in any order.
    late = streaming and drawn.random() < 0.5
    case = Case(
        seed=seed,
        what=what,
        how=how,
        value=value,
        keys=keys,
        nested=what not in RULES and drawn.random() < 0.15,
        action=action,
        rows=drawn.randint(150, 400),
        distinct=drawn.randint(1, 12),
        partitions=partitions,
        after=drawn.choice((1, 2, 3)) if action in CHECKPOINTED else 1,
        batches=drawn.randint(2, 3) if streaming else 0,
        shuffled=drawn.random() < 0.4,
        lateness=drawn.randint(5, 60) if late else 0,
        window=drawn.choice((1, 3, 7, 20)),
        workers_store=action in CHECKPOINTED or (streaming and drawn.random() < 0.4),
    )
    return _lagging(case) if seed >= FIRST_LAGGING else case


def _lagging(case: Case) -> Case:
    """A stream of a case's rows, one side of which lags; a file for each micro-batch."""
    drawn = random.Random(f"lagging {case.seed}")
    what, action = drawn.choice(LAGGING), drawn.choice(STREAM)
    late = what != "sided-seconds" or drawn.random() < 0.5
    return replace(
        case,
        what=what,
        how="",
        value=drawn.choice(tuple(KINDS)),
        # a row that ends a stream has a key that no other has: for booleans that is null, which meets nobody in a join
        keys=tuple("int" if kind == "boolean" else kind for kind in case.keys),
        nested=what not in RULES and case.nested,
        action=action,
        partitions=1,
        after=drawn.choice((1, 2)) if action in CHECKPOINTED else 1,
        batches=drawn.randint(5, 8),
        lateness=drawn.randint(5, 60) if late else 0,
        workers_store=action in CHECKPOINTED or case.workers_store,
        lags=True,
    )


def _value(drawn: random.Random, what: str) -> tuple[str, str]:
    """The kind of the column, and the aggregate of it."""
    if what in ("last", "distinct"):
        return drawn.choice((*KINDS, *COLLATED)), ""
    if what in ("tally", "pattern", "two-streams", "join-rows", "join-seconds", *NEWER):
        return drawn.choice(tuple(KINDS)), ""
    how = drawn.choice(ALL)
    if how in SUMS:
        return drawn.choice(SUMMED), how
    return drawn.choice(COMPARED), how
