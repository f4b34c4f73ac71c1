"""Rules as they are driven where event time orders events: rows wait until they are due and come in order."""

import pickle

import numpy as np
import pyarrow as pa

SECOND = 1_000_000


class Moving:
    """Copies of an operator whose rows come in frames, of any keys, and whose units move; `results` are what came out.

    What is due is what is more than `lateness` seconds (None: without an end) behind the latest of all rows; a row
    that is so far behind already is late. After each frame all units are told the time.
    """

    def __init__(self, operator, rows, keys, units, *, lateness=None, seed=0, copies=3, order=None):
        operator.reads(rows.schema)
        self.rows, self.keys, self.lateness = rows, np.asarray(keys, np.int64), lateness
        self.homes = (self.keys.view(np.uint64) % np.uint64(units)).astype(np.int32)
        self.units = np.arange(units, dtype=np.int32)
        self.times = rows.column("t").to_numpy()
        self.order = np.arange(rows.num_rows) if order is None else order
        self.copies = [pickle.loads(pickle.dumps(operator)) for _ in range(copies)]
        self.random = np.random.default_rng(seed)
        self.owner = self.random.integers(0, copies, units)
        self.held, self.late, self.results = np.empty(0, np.int64), [], []
        self.latest = self.now = None

    def frame(self, places):
        """Rows come."""
        places = np.asarray(places, np.int64)
        if self.now is not None:
            behind = self.times[places] < self.now
            self.late += places[behind].tolist()
            self._call("on_late", places[behind])
            places = places[~behind]
        self.held = np.concatenate([self.held, places])
        self._move()
        if not len(self.held):
            return
        latest = int(self.times[places].max(initial=self.times[self.held].min()))
        self.latest = latest if self.latest is None else max(latest, self.latest)
        if self.lateness is None:
            self._give(self.held)
            return
        now = self.latest - self.lateness
        self._give(self.held[self.times[self.held] < now])
        self._move()
        self.tell(now)

    def tell(self, now):
        """Time has come so far, in seconds."""
        self.now = now
        for which, copy in enumerate(self.copies):
            self._keep(copy.on_time(now * SECOND, self.units[self.owner == which]))

    def end(self):
        """No more rows."""
        self._give(self.held)
        for which, copy in enumerate(self.copies):
            self._keep(copy.on_end(self.units[self.owner == which]))

    def _give(self, places):
        self.held = self.held[~np.isin(self.held, places)]
        self._call("process", places[np.lexsort((self.order[places], self.times[places]))])

    def _call(self, method, places):
        for which, copy in enumerate(self.copies):
            mine = places[self.owner[self.homes[places]] == which]
            if len(mine):
                result = getattr(copy, method)(self.rows.take(pa.array(mine)), self.homes[mine], self.keys[mine])
                self._keep(result[0] if isinstance(result, tuple) else result)

    def _move(self):
        for unit in np.flatnonzero(self.random.random(len(self.units)) < 0.3).tolist():
            target = int(self.random.integers(len(self.copies)))
            state = self.copies[self.owner[unit]].extract(unit)
            if state is not None:
                self.copies[target].install(unit, pickle.loads(pickle.dumps(state)))
            self.owner[unit] = target

    def _keep(self, batch):
        if batch is not None:
            self.results += batch.to_pylist()


def run(operator, rows, keys, *, units=4, frame=None, lateness=None, seed=0, end=True):
    """All results of rows in frames of one size, of random sizes if that is 0, or in one; and the late rows' places."""
    driver = Moving(operator, rows, keys, units, lateness=lateness, seed=seed)
    at = 0
    while at < rows.num_rows:
        size = rows.num_rows if frame is None else frame or int(driver.random.choice([1, 2, 5, 30]))
        driver.frame(np.arange(at, min(at + size, rows.num_rows)))
        at += size
    if end:
        driver.end()
    return driver.results, driver.late
