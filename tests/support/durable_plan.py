"""What happens in a history with a store: its plan, and the queries that Spark runs, batch after batch."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.support.keyed_plan import Plan, Task


@dataclass
class DurablePlan(Plan):
    """What a history is made of."""

    epochs: int = 4
    partitions: int = 2
    """Pieces that the rows of a batch are in, as files are; Spark partitions are made of them."""
    reshapes: float = 0.3
    """How often an evaluation has another number of Spark partitions than the one before."""
    loses: float = 0.0
    """How often blobs are gone, or are those of another time, when a driver goes on."""
    copies: float = 0.3
    """How often that is one of the two checkpoints as a whole, put back to an earlier time."""
    transfer: str = "direct"
    """How units move."""
    store_fails: float = 0.0
    """How often an operation of the store fails."""
    again: float = 0.3
    """How often a batch is evaluated more than once."""
    retries: float = 0.5
    """How often a task that failed is tried again within its stage."""
    same_run: float = 0.2
    """How often a stage that failed is run again within one run of the query."""
    zombies: float = 0.3
    """How often tasks of a stage that failed live on for a while."""
    slots: int = 9
    """Tasks of a stage that run at a time."""
    renames: float = 0.0
    """How often the operator has another name when a driver goes on; half of the users do not say which it had."""
    hasty: float = 0.2
    """How often Spark goes on before the controller has heard that tasks are over."""

    @classmethod
    def drawn(cls, rng):
        """A random plan."""
        kinds = (
            *("kill-worker", "kill-worker", "kill-worker", "driver", "driver", "kill-feeder", "kill-feeder"),
            *("restart", "restart", "freeze", "cut", "cut", "replace", "store", "store"),
        )
        count = rng.choice((0, 1, 1, 2, 3, 5, 8))
        plan = cls(
            workers=rng.choice((1, 2, 3, 3, 4)),
            late=rng.choice((0, 0, 0, 1)),
            regions=1,
            jobs=rng.choice((1, 1, 1, 2)),
            moving=rng.choice((0.0, 0.5, 1.0)),
            asks=rng.choice((0.0, 0.03, 0.1)),
            faults=tuple(rng.choice(kinds) for _ in range(count)),
            ordered=rng.choice((0.0, 0.0, 1.0)),
            rows=rng.choice((4, 12, 30)),
            epochs=rng.choice((2, 3, 5)),
            partitions=rng.choice((1, 2, 3, 4)),
            reshapes=rng.choice((0.0, 0.5, 1.0)),
            loses=rng.choice((0.0, 0.0, 0.5)),
            store_fails=rng.choice((0.0, 0.0, 0.01, 0.1)),
            again=rng.choice((0.0, 0.3, 0.8)),
            retries=rng.choice((0.0, 0.5)),
            same_run=rng.choice((0.0, 0.3)),
            zombies=rng.choice((0.0, 0.5)),
            slots=rng.choice((1, 2, 9)),
            hasty=rng.choice((0.0, 0.0, 0.5)),
            transfer=rng.choice(("direct", "store")),
        )
        plan.renames = 0.5 if count > 1 and not plan.loses else 0.0
        return plan


@dataclass(eq=False)
class Stage:
    """One evaluation of one batch, of all its partitions or of some."""

    query: "Query"
    epoch: int
    number: int
    run: int
    partitions: list[int]
    """Those of it that are evaluated."""
    count: int = 1
    """How many Spark partitions the batch has in it."""
    kept: int | None = None
    """What persists its results, if something does: what is in there is not evaluated again."""
    tasks: list[Task] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """Partitions whose tasks have not been started."""

    @property
    def full(self):
        return len(self.partitions) == self.count

    @property
    def latest(self):
        """The last attempt at each partition."""
        return list({task.partition: task for task in self.tasks}.values())

    @property
    def through(self):
        return not self.waiting and all(task.done and task.error is None for task in self.latest)

    def __str__(self):
        return f"stage {self.number} of run {self.run} of {self.query.name}, batch {self.epoch}"


@dataclass(eq=False)
class Query:
    """A streaming query; what is said here of its progress is in Spark's checkpoint, and survives everything."""

    region: str
    name: str
    epochs: int
    partitions: int
    """Pieces of each batch."""
    ordered: bool
    parallel: int = 1
    """How many Spark partitions they are made into."""
    streaming: bool = True
    failed: bool = False
    epoch: int = 0
    """The batch under way: those before are committed."""
    run: int = 1
    stage: Stage | None = None
    actions: list | None = None
    """What is still to be evaluated of the batch under way: "all", "some", a list of partitions; or "kept", which is
    some of what is persisted, and "rest", which is all of it: nothing is evaluated twice."""
    persists: int = 0
    """How often something was persisted."""
    data: dict = field(default_factory=dict)
    """By batch, the rows of each partition."""
    unbound: set = field(default_factory=set)
    """Batches of which the note of a whole attempt was lost: the next attempt may be another one."""
    sunk: set = field(default_factory=set)
    """Batches that the sink has."""
    stages: list[Stage] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    pause: float = 0.0

    @property
    def evaluation(self):
        return f"query {self.name}"

    @property
    def done(self):
        return self.epoch >= self.epochs and self.stage is None

    def counts(self, epoch):
        """By key, how many rows there are up to the end of a batch."""
        found = Counter()
        for number, parts in self.data.items():
            if number <= epoch:
                for batches in parts:
                    for batch in batches:
                        found.update(batch.column(1).to_pylist())
        return +found

    def mistakes(self, state, epoch):
        """What is wrong with the rows of each key, which are to be those up to the end of a batch, in order."""
        origin = {}
        for number, parts in self.data.items():
            for partition, batches in enumerate(parts if number <= epoch else ()):
                for batch in batches:
                    for row, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        origin[row] = (key, number, partition)
        got = [(row, key) for key, rows in state.items() for row in rows]
        found = {"doubled": len(got) - len({row for row, _ in got})}
        found["lost"] = sorted(origin.keys() - {row for row, _ in got})
        found["stray"] = [(row, key) for row, key in got if origin.get(row, ("?",))[0] != key]
        if not found["stray"]:
            found["disordered"] = [key for key, rows in state.items() if not self._in_order(rows, origin)]
            found["unlike the output"] = list(self._unlike(state, epoch))
        return {what: which for what, which in found.items() if which}

    def _in_order(self, rows, origin):
        """Batches one after the other, and of each partition its rows in order."""
        batches = [origin[row][1] for row in rows]
        parts = defaultdict(list)
        for row in rows:
            parts[origin[row][1:]].append(row)
        return batches == sorted(batches) and all(part == sorted(part) for part in parts.values())

    def _unlike(self, state, epoch):
        """Rows that were given out with another number than they have in the state, by what sinks may have kept."""
        for number in {stage.epoch for stage in self.stages if stage.epoch <= epoch}:
            for task in self.bound(number):
                yield from (row for row, key, nth in task.rows() if state.get(key, [])[nth - 1 : nth] != [row])

    def bound(self, epoch):
        """The tasks whose results have to fit together: those of the first evaluation that was whole, and all since.

        A sink that skips what it has keeps the first, another one takes the last, and a third may have some of each.
        """
        stages = [stage for stage in self.stages if stage.epoch == epoch and epoch not in self.unbound]
        for place, stage in enumerate(stages):
            whole = self._shared(stages, stage)
            if whole:
                return [*whole, *(task for later in stages[place + 1 :] for task in later.tasks if task not in whole)]
        return []

    def _shared(self, stages, stage):
        """The tasks of a stage, and of those that persist their results with it, if together they are whole."""
        if stage.kept is None:
            return stage.latest if stage.full and stage.through else []
        same = (stage.kept, stage.run)
        before = [each for each in stages if (each.kept, each.run) == same and each.number <= stage.number]
        tasks = [task for each in before for task in each.tasks if task.done and task.error is None]
        return tasks if {task.partition for task in tasks} == set(range(stage.count)) else []

    def keys(self, epoch):
        """By key, the rows of one batch."""
        found = defaultdict(list)
        for batches in self.data.get(epoch, ()):
            for batch in batches:
                for row, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    found[key].append(row)
        return found


LOSSES = {"faults": ("driver",) * 4, "loses": 1.0, "jobs": 1, "asks": 0.0, "moving": 0.0}
"""The driver is killed again and again, and blobs of its checkpoint are gone."""
COPIES = LOSSES | {"copies": 1.0, "epochs": 5}
"""As `LOSSES`; one of the two checkpoints is put back to an earlier time."""
RENAMES = {"faults": ("driver", "driver", "kill-worker"), "renames": 1.0, "moving": 1.0, "again": 0.3}
"""Operators have another name after each start of the driver."""
