"""Snapshots of an ordered region whose counters grow as a test says, sample by sample."""

from dataclasses import replace

from evenflow.model import Connection, Snapshot


class Feed:
    """A region with one feeder; a row is a frame."""

    def __init__(self, weights):
        self.connections = {worker: Connection(worker, 1, weight) for worker, weight in weights.items()}
        self.time = self.feeding_s = 0.0
        self.feeders = 1

    def snapshot(self):
        return Snapshot(self.time, "r", self.feeders, self.feeding_s, tuple(self.connections.values()))

    def pass_time(self, blocked, seconds=1.0, fed=None, rows=1000, under_way=(), busy=()):
        """`rows` are done in all, or by worker; `under_way` are frames under way all the time, by worker.

        `busy` is the share of the time in which a worker is at this region's rows.
        """
        self.time += seconds
        fed = seconds if fed is None else fed
        self.feeding_s += fed
        done = rows if isinstance(rows, dict) else dict.fromkeys(self.connections, rows // len(self.connections))
        for worker, old in self.connections.items():
            count = done.get(worker, 0)
            self.connections[worker] = replace(
                old,
                blocked_s=old.blocked_s + blocked.get(worker, 0.0),
                rows_sent=old.rows_sent + count,
                rows_done=old.rows_done + count,
                busy_s=old.busy_s + dict(busy).get(worker, 0.0) * fed,
                under_way_s=old.under_way_s + dict(under_way).get(worker, 0.0) * fed,
            )
        return self.snapshot()

    def obey(self, moves):
        for move in moves:
            self.set(move.weights)

    def set(self, weights):
        self.connections = {w: replace(c, weight=weights[w]) for w, c in self.connections.items()}


EVEN = {0: 250, 1: 250, 2: 250, 3: 250}


def begun(balance, weights):
    """A balance that has met the workers, and their region."""
    feed = Feed(weights)
    assert balance.decide(feed.snapshot()) == []
    return balance, feed
