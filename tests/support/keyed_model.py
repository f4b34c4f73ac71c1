"""A keyed operator as a fluid with a grain: feeder, skew buffer, workers and moves in steps of 10 ms, without a clock.

What is in it: rows that fall on units at random by the units' shares (so that counts are noisy), one bounded buffer
for rows that wait, keyed by unit, so that one slow worker fills it and stalls everybody (flux §4, §5.1); workers that
serve so many rows a second, shared among their waiting units; service times with jitter; moves one after the other
for each pair of workers, which hold their unit's rows back while they last; reports of cumulative counters. What is
not: frames, several feeders, time for pausing and draining other than what a move takes as a whole. State that grows
is in memory_model.py, a second operator on the same workers in shared_model.py.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.model import KeyedSnapshot, KeyedWorker, RoutingTable

GROUPS = 16_384
STEP = 0.01


def shares(kind, units, seed=7):
    """How the rows fall on the units: 16K groups, each in a unit drawn at random."""
    rank = np.arange(1, GROUPS + 1)
    if kind == "uniform":
        groups = np.ones(GROUPS)
    elif kind == "80/20":  # self-similar: 80 % of the rows on 20 % of the groups, 80 % of these on 20 % of those, ...
        groups = np.diff((np.arange(GROUPS + 1) / GROUPS) ** (np.log(0.8) / np.log(0.2)))
    else:
        groups = rank ** -float(kind)
    rng = np.random.default_rng(seed)
    where = rng.permutation(GROUPS) % units  # as many groups in every unit: uniform groups make uniform units
    return np.bincount(where, groups, units) / groups.sum()


def snapshot(time, owners, unit_rows, *, idle=None, busy=None, workers=None, incarnations=None, version=0, **more):
    """A snapshot by hand: `idle` and `busy` are cumulative seconds by worker; rows are those of the worker's units.

    With `memory`, the budgets by worker, `spilled` says how much of its units' state a worker has on disk.
    """
    owners, unit_rows = np.asarray(owners, np.int32), np.asarray(unit_rows, np.int64)
    workers = sorted(set(owners.tolist())) if workers is None else list(workers)
    idle = [0.0] * len(workers) if idle is None else idle
    busy = [time - waited for waited in idle] if busy is None else busy
    incarnations = [1] * len(workers) if incarnations is None else incarnations
    consumers = tuple(
        KeyedWorker(worker, incarnation, time, float(waited), float(used), int(unit_rows[owners == worker].sum()))
        for worker, incarnation, waited, used in zip(workers, incarnations, idle, busy, strict=True)
    )
    sizes = np.asarray(more.pop("unit_bytes", np.full(len(owners), 1_000)), np.int64)
    if "memory" in more:
        memory, spilled = more.pop("memory"), more.pop("spilled", [0] * len(workers))
        resident = [int(sizes[owners == worker].sum()) - s for worker, s in zip(workers, spilled, strict=True)]
        consumers = tuple(
            replace(c, memory=m, resident=r, spilled=s)
            for c, m, r, s in zip(consumers, memory, resident, spilled, strict=True)
        )
    return KeyedSnapshot(time, "test", 1, RoutingTable(version, owners), consumers, unit_rows, sizes, **more)


@dataclass
class Model:
    """One keyed operator; `speed` is each worker's capacity relative to `rate` rows a second."""

    load: np.ndarray
    speed: list
    rate: float = 5_000.0
    source: float = np.inf
    """Rows a second that there are."""
    buffer: float = 8_000.0
    move_s: float = 0.02
    jitter: float = 0.02
    seed: int = 1
    owners: np.ndarray | None = None
    time: float = 0.0
    moved: int = 0
    _queues: dict = field(default_factory=lambda: defaultdict(deque))

    def __post_init__(self):
        count, units = len(self.speed), len(self.load)
        self.table = RoutingTable.even(units, range(count))
        if self.owners is not None:
            self.table = RoutingTable(0, np.asarray(self.owners, np.int32))
        self._rng = np.random.default_rng(self.seed)
        self._waiting = np.zeros(units)
        self._served = np.zeros(units)
        self._busy, self._rows, self._idle = np.zeros(count), np.zeros(count), np.zeros(count)
        self._pause = 0.0
        self._held = np.zeros(units, bool)

    @property
    def rows(self):
        return float(self._served.sum())

    @property
    def bound(self):
        """Rows a second that the best placement of the units could serve."""
        speed = np.array(self.speed) * self.rate
        return min(speed.sum(), speed.max() / self.load.max(), self.source)

    def run(self, seconds):
        for _ in range(round(seconds / STEP)):
            self._step()

    def _step(self):
        self._arrive()
        self._serve(*self._demand())
        self._move()
        self.time += STEP

    def _arrive(self):
        room = min(self.buffer - self._buffered(), self.source * STEP)
        if room > 0:
            self._waiting += self._rng.poisson(self.load * room)

    def _buffered(self):
        """Rows that take up room in the skew buffer."""
        return self._waiting.sum()

    def _ready(self):
        """Rows of each unit that could be served."""
        return np.where(self._held, 0.0, self._waiting)

    def _demand(self):
        """Rows that each worker could serve in a step, and rows that wait for it."""
        queued = np.bincount(self.table.owners, self._ready(), len(self.speed))
        able = np.array(self.speed) * self.rate * STEP
        able = able * (1 + self.jitter * self._rng.standard_normal(len(able)) / np.sqrt(STEP / 0.1))
        return able, queued

    def _serve(self, able, queued, free=1.0, io=0.0, others=0.0):
        """Serve in `free` of the step; `io` is the share that is busy otherwise, `others` what others use."""
        fraction = np.minimum(1.0, able * free / np.maximum(queued, 1e-9))
        served = self._ready() * fraction[self.table.owners]
        self._waiting -= served
        self._served += served
        done = queued * fraction
        self._busy += (done / able + io) * STEP
        self._idle += (1 - done / able - io - others) * STEP
        self._rows += done
        return served

    def _move(self):
        for (_, target), queue in self._queues.items():
            left = STEP
            while queue and left > 1e-12:
                unit, rest = queue[0]
                self._held[unit] = True
                taken = min(rest, left)
                left -= taken
                queue[0] = (unit, rest - taken)
                if rest - taken <= 1e-12:
                    queue.popleft()
                    self._held[unit] = False
                    self.table = self.table.moved([unit], target)
                    self.moved += 1
                    self._pause += self._takes(unit)
                    self._arrived(unit)

    def _takes(self, unit):
        """Seconds that a move of the unit takes."""
        return self.move_s

    def _arrived(self, unit):
        """The unit is with its new owner."""

    def begin(self, moves):
        under_way = {unit for queue in self._queues.values() for unit, _ in queue}
        for move in moves:
            assert move.source != move.target
            assert 0 <= move.target < len(self.speed)
            for unit in move.units:
                assert self.table.owners[unit] == move.source
                assert unit not in under_way
                under_way.add(unit)
                self._queues[move.source, move.target].append((unit, self._takes(unit)))

    def snapshot(self):
        consumers = tuple(
            KeyedWorker(j, 1, self.time, float(self._idle[j]), float(self._busy[j]), int(self._rows[j]))
            for j in range(len(self.speed))
        )
        moving = sum(map(len, self._queues.values()))
        size = np.full(len(self.load), 800_000, np.int64)
        counts = self._served.astype(np.int64)
        return KeyedSnapshot(
            self.time, "model", 1, self.table, consumers, counts, size, moving, self.moved, 800_000 * self.moved,
            self._pause, 0, np.rint(self._served + self._waiting).astype(np.int64),
        )  # fmt: skip


@dataclass
class Run:
    """What a balance did, second by second."""

    of_bound: np.ndarray
    """Rows served, of what the best placement could."""
    moved: np.ndarray
    """Units moved in that second."""
    first_move: float
    """When the first moves began; infinite if there were none."""
    model: Model

    def settled(self, since=0, level=0.95):
        """Seconds from second `since` until the rest of the run is at `level`, no second far below it."""
        for second in range(since, len(self.of_bound)):
            rest = self.of_bound[second:]
            if rest.mean() >= level and rest.min() >= level - 0.03:
                return second - since
        return np.inf


def drive(balance, load, speed, seconds, *, changes=(), report=0.1, kind=Model, **model):
    """Run `balance` for so many seconds; `changes` are (second, speeds from then on)."""
    operator = kind(load, list(speed), **model)
    changes, first, now, rows = sorted(changes, key=lambda c: c[0]), np.inf, 0.0, 0.0
    of_bound, moved = [], []
    for tick in range(round(seconds / report)):
        while changes and operator.time >= changes[0][0] - 1e-9:
            operator.speed = list(changes.pop(0)[1])
        operator.run(report)
        moves = balance.decide(operator.snapshot())
        if moves and first == np.inf:
            first = operator.time
        operator.begin(moves)
        if (tick + 1) % round(1 / report) == 0:
            of_bound.append((operator.rows - rows) / (operator.time - now) / operator.bound)
            moved.append(operator.moved - sum(moved))
            rows, now = operator.rows, operator.time
    return Run(np.array(of_bound), np.array(moved), first, operator)
