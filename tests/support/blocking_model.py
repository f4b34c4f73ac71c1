"""A blocking splitter, its workers and the in-order merge as a recursion over frames: a closed loop without a clock.

What is in it: one thread of control that sends frames by smooth weighted round-robin and waits for the connection in
turn (so that drafting happens by itself), finite socket buffers, one frame at a time a worker, service times with
jitter, slowdowns that change, and a merge that gives frames back in order within a finite window. What is not: several
feeders, frames of different sizes, networks.

Frame n goes to worker j as its k-th. With `slots` frames of buffer, it can be sent once frame k - slots has been
started; started when it has arrived and k - 1 is finished; released when it is finished and n - 1 is released; and
n + window can be sent once it is released. Time blocked on a full buffer is j's; time blocked on the window nobody's.
"""

from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numba import njit

from evenflow.model import RESOLUTION, Connection, Snapshot
from evenflow.policy.ordered.balance import even_weights


@njit(cache=True)
def _advance(
    now,
    until,
    weights,
    credit,
    service,
    jitter,
    cost,
    slots,
    window,
    sent,
    starts,
    ends,
    released,
    blocked,
    waited,
    busy,
    rng,
):
    """Send frames from `now` to `until`; the time reached."""
    total = weights.sum()
    while now < until:
        best = -1
        for j in range(len(weights)):
            if weights[j] > 0 and (best < 0 or credit[j] + weights[j] > credit[best] + weights[best]):
                best = j
        n, k = sent.sum(), sent[best]
        if n >= window:
            now = max(now, released[(n - window) % window])
        if now >= until:
            return until
        if k >= slots:
            free = starts[best, (k - slots) % slots]
            if free > now:
                blocked[best] += min(free, until) - now
                now = free
        if now >= until:
            return until
        for j in range(len(weights)):
            credit[j] += weights[j]
        credit[best] -= total
        now += cost
        start = max(now, ends[best, (k - 1) % (slots + 2)])
        starts[best, k % slots] = start
        rng[0] = rng[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        noise = np.float64(rng[0] >> np.uint64(11)) / 2.0**53
        took = service[best] * (1.0 + jitter * (2.0 * noise - 1.0))
        ends[best, k % (slots + 2)] = start + took
        busy[best, k % (slots + 2)] = busy[best, (k - 1) % (slots + 2)] + took
        released[n % window] = max(released[(n - 1) % window], ends[best, k % (slots + 2)])
        waited[best] += ends[best, k % (slots + 2)] - now
        sent[best] += 1
    return now


@dataclass
class Region:
    """A region with one feeder that always has rows; a row is a frame."""

    slowdown: list
    service: float = 0.005
    cost: float = 1e-4
    slots: int = 4
    window: int = 20_000
    jitter: float = 0.02
    seed: int = 1
    tells: bool = False
    """Whether workers tell their service times, as live ones do."""
    time: float = 0.0
    weights: dict = field(default_factory=dict)

    def __post_init__(self):
        count = len(self.slowdown)
        self.weights = self.weights or even_weights(list(range(count)))
        self._credit = np.zeros(count, np.int64)
        self._sent = np.zeros(count, np.int64)
        self._starts = np.zeros((count, self.slots))
        self._ends = np.zeros((count, self.slots + 2))
        self._released = np.zeros(self.window)
        self._blocked = np.zeros(count)
        self._waited = np.zeros(count)
        self._busy = np.zeros((count, self.slots + 2))
        self._rng = np.array([self.seed * 7919 + 12345], np.uint64)
        self._now = 0.0

    def run(self, seconds):
        self.time += seconds
        weights = np.array([self.weights[worker] for worker in range(len(self.slowdown))], np.int64)
        service = self.service * np.array(self.slowdown, float)
        self._now = _advance(
            self._now, self.time, weights, self._credit, service, self.jitter, self.cost, self.slots, self.window,
            self._sent, self._starts, self._ends, self._released, self._blocked, self._waited, self._busy, self._rng,
        )  # fmt: skip

    @property
    def released(self):
        """Frames given back by now."""
        sent = int(self._sent.sum())
        recent = np.arange(max(0, sent - self.window), sent)
        return sent - int((self._released[recent % self.window] > self.time).sum())

    def snapshot(self):
        left = np.maximum(self._ends - self.time, 0.0)
        done = self._sent - (left > 0.0).sum(axis=1)
        waited = self._waited - left.sum(axis=1)
        busy = self._busy[np.arange(len(done)), (done - 1) % (self.slots + 2)] * self.tells
        connections = tuple(
            Connection(
                worker=j,
                incarnation=1,
                weight=self.weights[j],
                blocked_s=float(self._blocked[j]),
                rows_sent=int(self._sent[j]),
                frames_sent=int(self._sent[j]),
                rows_done=int(done[j]),
                frames_done=int(done[j]),
                under_way_s=float(waited[j]),
                busy_s=float(busy[j]),
            )
            for j in range(len(self.slowdown))
        )
        return Snapshot(self.time, "model", 1, self.time, connections, self.released)


@dataclass
class Run:
    """What a balance did: one row a sample."""

    seconds: float
    """Until the last frame was given back."""
    weights: np.ndarray
    rates: np.ndarray
    frames: np.ndarray
    """Frames given back a second."""
    moves: list


def keep_up(balance, profile, samples=120, *, period=1.0, **model):
    """Let `balance` work for some samples; `profile` is a list of (second, slowdowns from then on), the first at 0."""
    region = Region(list(profile[0][1]), **model)
    return _run(region, list(islice(_samples(balance, region, profile, period), samples)))


def _samples(balance, region, profile, period):
    """Sample after sample: weights, blocking rates, frames a second, and the moves that follow."""
    _obey(region, balance.decide(region.snapshot()))
    blocked, out = np.zeros(len(region.slowdown)), 0
    while True:
        region.slowdown = list([slowdown for second, slowdown in profile if second <= region.time][-1])
        weights = list(region.weights.values())
        region.run(period)
        snapshot = region.snapshot()
        now = np.array([c.blocked_s for c in snapshot.connections])
        moves = balance.decide(snapshot)
        _obey(region, moves)
        yield weights, (now - blocked) / period, (snapshot.rows_out - out) / period, moves
        blocked, out = now, snapshot.rows_out


def _run(region, samples):
    *columns, moves = zip(*samples, strict=True)
    return Run(region.time, *map(np.array, columns), list(moves))


def ideal(slowdown, service=Region.service):
    """Frames a second that the workers can do, none of them ever idle."""
    return sum(1 / factor for factor in slowdown) / service


def shifting(workers, every, seed, samples=120, most=10):
    """A profile in which all workers become another up to `most` times slower, every so many seconds."""
    rng = np.random.default_rng(seed)
    return [(s, np.exp(rng.uniform(0, np.log(most), workers)).tolist()) for s in range(0, samples, every)]


def drive(balance, slowdown, work_s, *, change=None, period=1.0, most=20, **model):
    """Let `balance` work off what the workers could do in `work_s` seconds, none of them ever idle.

    `change` is (second, slowdowns from then on). Gives up after `most` times `work_s`.
    """
    region = Region(list(slowdown), **model)
    second, later = change or (0.0, slowdown)
    frames = int(ideal(slowdown, region.service) * second + ideal(later, region.service) * (work_s - second))
    done = []
    for sample in _samples(balance, region, [(0.0, slowdown), (second, later)], period):
        done.append(sample)
        if region.released >= frames or region.time >= most * work_s:
            break
    run = _run(region, done)
    late = (region.released - frames) / run.frames[-1] if run.frames[-1] else 0.0
    run.seconds -= max(0.0, late)
    return run


def _obey(region, moves):
    for move in moves:
        assert set(move.weights) == set(region.weights)
        assert sum(move.weights.values()) == RESOLUTION
        assert min(move.weights.values()) >= 0
        region.weights = {worker: int(move.weights[worker]) for worker in region.weights}


def half(workers, factor):
    """The first half of the workers slow by `factor`."""
    return [factor] * (workers // 2) + [1] * (workers - workers // 2)
