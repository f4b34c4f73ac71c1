"""What happens in a simulated cluster: the plan of a history, and the jobs that Spark runs in it."""

from dataclasses import dataclass, field
from math import inf

from tests.support.keyed_actors import Fiber


@dataclass(eq=False)
class Task:
    """One attempt at one partition."""

    job: "Job"
    partition: int
    attempt: int
    epoch: int
    batches: list
    results: list = field(default_factory=list)
    error: BaseException | None = None
    done: bool = False
    fiber: Fiber | None = None
    heard: bool = False
    """Whether all it had to say has been heard."""
    stage: object = ""
    stops: bool = False
    """Whether it ends once it has given some rows, as under a limit."""
    stopped: bool = False
    """Whether it has, before its end."""

    @property
    def input_ids(self):
        return [row for batch in self.batches for row in batch.column(0).to_pylist()]

    def rows(self):
        """(id, key, nth) of its results so far."""
        return [row for batch in self.results for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]

    def __str__(self):
        return f"{self.job.name}, epoch {self.epoch}, partition {self.partition}, attempt {self.attempt}"


@dataclass(eq=False)
class Job:
    """A streaming query of some micro-batches, or the evaluation of a batch DataFrame."""

    region: str
    name: str
    streaming: bool
    epochs: int
    partitions: int
    ordered: bool
    reads: str = "whole"
    """How each batch is read: at once, in `parts` of one action, `kept` in a cache, or only some of it: a `peek`."""
    epoch: int = 0
    tasks: list = field(default_factory=list)
    failed: bool = False
    evaluation: str = ""
    """What the controller is to call it."""
    rows: list = field(default_factory=list)
    """By partition, the present batch."""
    waiting: list = field(default_factory=list)
    """Stages of it that have not been started."""
    resumes: float = 0.0
    """When the next of them may."""
    checkpointer: int = 0
    """The persisted RDD, if there is one."""
    tidy: bool = False
    """Whether that is unpersisted in the end."""
    unpersisted: bool = False
    peeked: dict = field(default_factory=dict)
    """By batch that was only peeked at, how many partitions it has."""
    fixed: bool = False
    """Whether all batches have the same number of partitions."""

    def __post_init__(self):
        self.evaluation = f"query {self.name}" if self.streaming else f"stage {self.name}"

    @property
    def cached(self):
        """Partitions of the present batch that are persisted, if any are."""
        now = [task for task in self.tasks if task.epoch == self.epoch - 1]
        return {task.partition for task in now if task.done and task.error is None}

    @property
    def broken(self):
        """Tasks that failed and were not tried again."""
        if not any(task.error for task in self.tasks):
            return []
        latest = {(task.epoch, task.partition): task for task in self.tasks}
        return [task for task in latest.values() if task.error is not None]

    @property
    def done(self):
        read = self.epoch == self.epochs and not self.waiting
        return self.failed or (read and all(task.done for task in self.tasks) and not self.broken)


@dataclass
class Plan:
    """What a history is made of."""

    workers: int = 3
    late: int = 0
    """Workers that are not there at the start."""
    regions: int = 1
    jobs: int = 2
    moving: float = 0.3
    """How often the stub wants something."""
    asks: float = 0.03
    """Moves asked for beside it, a step."""
    faults: tuple[str, ...] = ()
    fails: tuple[str, float] | None = None
    """Where an operator fails, and how often."""
    ordered: float = 0.3
    rows: int = 16

    @classmethod
    def drawn(cls, rng):
        """A random plan."""
        kinds = (
            "kill-worker",
            "kill-worker",
            "kill-feeder",
            "kill-feeder",
            "freeze",
            "freeze",
            "cut",
            "cut",
            "replace",
        )
        count = rng.choice((0, 0, 1, 1, 2, 4))
        fails = (rng.choice(("extract", "install", "pickle", "unpickle")), rng.choice((1, 1, inf)))
        return cls(
            workers=rng.choice((2, 3, 3, 4)),
            late=rng.choice((0, 0, 0, 1)),
            regions=rng.choice((1, 1, 1, 2)),
            jobs=rng.choice((1, 2, 2, 3)),
            moving=rng.choice((0.0, 0.3, 1.0)),
            asks=rng.choice((0.0, 0.02, 0.1)),
            faults=tuple(rng.choice(kinds) for _ in range(count)),
            fails=fails if rng.random() < 0.15 else None,
            ordered=rng.choice((0.0, 0.0, 1.0)),
            rows=rng.choice((4, 16, 40)),
        )
