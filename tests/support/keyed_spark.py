"""How a simulated Spark evaluates DataFrames: at once, in parts, into a cache; and what its scheduler says of it."""

from dataclasses import dataclass, field, replace

from evenflow.control.events import StageFacts
from tests.support.keyed_plan import Job, Task

SLOW_S = 70.0
"""Longer than state without feeders is kept for."""


@dataclass(frozen=True)
class Stage:
    """Some partitions of one batch of a job."""

    id: str
    epoch: int
    partitions: tuple[int, ...]
    facts: StageFacts
    wait: float = 0.0
    """Seconds until it is started."""
    stops: bool = False
    """Whether its tasks end when they have given some rows."""


@dataclass
class Spark:
    """The stages of all jobs: what `runtime.stages` reads from Spark's scheduler."""

    world: object
    known: dict = field(default_factory=dict)
    numbers: int = 0
    rdds: int = 0

    def facts(self, stage, mark, execution):
        return self.known.get(stage, StageFacts(1, 1))

    # -- jobs to stages

    def stages(self, job: Job) -> list[Stage]:
        """How the next batch of a job is read, drawn."""
        rng = self.world.rng
        if job.epoch and not job.fixed:
            job.partitions = rng.randint(1, 3)
        job.rows = [self.world.some_batches() for _ in range(job.partitions)]
        self.rdds += 1
        some = Stage(job.name, job.epoch, (), StageFacts(job.partitions, job.partitions, self.rdds))
        some = replace(some, facts=replace(some.facts, inputs=job.partitions, execution=self._execution()))
        match job.reads:
            case "parts" if job.partitions > 1:
                made = self._in_parts(job, some)
            case "kept":
                made = self._kept(job, some)
            case "peek" if job.partitions > 1:
                made = [replace(some, id=f"{job.name}.{job.epoch}", partitions=tuple(self._subset(job, False)))]
                job.peeked[job.epoch] = job.partitions
                self.world.harm.add("peek")
            case _:
                made = [replace(some, partitions=tuple(range(job.partitions)))]
        made = [replace(each, facts=replace(each.facts, tasks=len(each.partitions))) for each in made]
        for each in made:
            self.known[each.id] = each.facts
        job.evaluation = self._evaluation(job, made[-1])
        return made

    def _execution(self):
        """An action; the stages of one may evaluate a DataFrame twice, as they do for a sort, which samples first."""
        self.numbers += self.world.rng.random() < 0.7
        return str(self.numbers)

    def _in_parts(self, job, some):
        """What `take` or `tail` does: some partitions, then more; the last ones only until there are enough rows."""
        rng = self.world.rng
        left = rng.sample(range(job.partitions), job.partitions)
        made = []
        while left and (not made or rng.random() < 0.7):
            count = rng.randint(1, len(left) if made else len(left) - 1)
            wait = rng.choice((0.0, 0.0, 3.0))
            made.append(replace(some, id=f"{job.name}.{len(made)}", partitions=tuple(left[:count]), wait=wait))
            left = left[count:]
        if rng.random() < 0.3:
            made[-1] = replace(made[-1], stops=True)
        return made

    def _kept(self, job, some):
        """Actions on what is persisted, the last of which reads all of it."""
        rng = self.world.rng
        self.rdds += 1
        job.checkpointer, job.tidy = self.rdds, not job.streaming and rng.random() < 0.5
        reads = [self._subset(job, True) for _ in range(rng.randint(0, 3))]
        made = []
        for number, partitions in enumerate([*reads, range(job.partitions)]):
            self.rdds += 1
            facts = replace(some.facts, rdd=self.rdds, kept=job.checkpointer, execution=self._execution())
            wait = rng.choice((0.0, 3.0, 0.0 if job.streaming else SLOW_S)) if number else 0.0
            name = f"{job.name}.{job.epoch}.{number}"
            made.append(replace(some, id=name, partitions=tuple(partitions), facts=facts, wait=wait))
        return made

    def _subset(self, job, everything):
        rng = self.world.rng
        return sorted(rng.sample(range(job.partitions), rng.randint(1, job.partitions - (not everything))))

    def _evaluation(self, job, stage):
        if job.streaming:
            return f"query {job.name}"
        if stage.facts.kept is not None:
            return f"rdd {stage.facts.kept}"
        whole = len(stage.partitions) == job.partitions
        return f"stage {stage.id}" if whole else f"action {stage.facts.execution} on rdd {stage.facts.rdd}"

    # -- stages to tasks

    def tasks(self, job, stage) -> list[Task]:
        """The tasks of a stage that evaluate anything: not those whose results are there."""
        cached = job.cached if stage.facts.kept is not None else set()
        if cached and not job.streaming and self.world.rng.random() < 0.05:
            self.world.harm.add("evicted")
            self.world.note(f"partition {min(cached)} of {job.evaluation} is evicted")
            cached.discard(min(cached))
        return [
            Task(job, partition, 0, stage.epoch, job.rows[partition], stage=stage.id, stops=stage.stops)
            for partition in stage.partitions
            if partition not in cached
        ]
