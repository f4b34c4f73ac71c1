"""Workers whose state is really paged, in a loop with a balance: rows come for some units only, the others are cold."""

import numpy as np
from tests.support import keyed_model
from tests.support.keyed_rig import Nth
from tests.support.keyed_site import Site

STEP_S = 0.1
ROW_S = 0.002
"""What a row costs a worker, in seconds."""


class PagedWorkers:
    """As many workers as budgets; a unit, which has one key of its own number, has `size` bytes of state."""

    def __init__(self, memory, units, size):
        self.sites = [Site(Nth(padding=size), units + 1) for _ in memory]
        self.owners = np.arange(units + 1, dtype=np.int32) % len(memory)
        self.rows, self.idle = np.zeros(units + 1, np.int64), np.zeros(len(memory))
        self.time, self.moves = 0.0, 0
        self.reasons = []
        """Of all moves so far."""
        for site, budget in zip(self.sites, memory, strict=True):
            site.use_memory(budget)
            site.open()
        for unit in range(units):
            self._feed([unit])

    @property
    def states(self):
        return [site.server.regions["r"].paged[0] for site in self.sites]

    @property
    def pools(self):
        return [site.instances.pool for site in self.sites]

    def spilled(self):
        return [state.spilled_bytes for state in self.states]

    def run(self, balance, hot, seconds):
        """Rows of the `hot` units, decisions of the balance, and turns of the workers' loops."""
        for _ in range(round(seconds / STEP_S)):
            busy = self._feed(hot)
            self.time += STEP_S
            self.idle += np.maximum(0.0, STEP_S - busy)
            for site in self.sites:
                site.seconds = self.time
                assert list(site.server.rotate()) == []
            for move in balance.decide(self._snapshot()):
                self._move(move)

    def close(self):
        for site in self.sites:
            site.server.close()

    def _feed(self, units):
        """A row of each of these units goes to its owner; the seconds that each worker takes for its rows."""
        units, taken = np.asarray(units), np.zeros(len(self.sites))
        for worker, site in enumerate(self.sites):
            mine = units[self.owners[units] == worker]
            if len(mine):
                site.feed(*mine.tolist())
            taken[worker] = len(mine) * ROW_S
        np.add.at(self.rows, units, 1)
        return taken

    def _move(self, move):
        self.reasons.append(move.reason)
        self.moves += 1
        source, target = self.sites[move.source], self.sites[move.target]
        source.move(self.moves, move.units)
        target.take(source.courier.sent.pop())
        assert target.outcomes()[-1] == (self.moves, "installed")
        self.owners[list(move.units)] = move.target

    def _snapshot(self):
        every = np.arange(len(self.owners), dtype=np.int32)
        sizes, here = np.zeros(len(every), np.int64), np.ones(len(every), bool)
        for worker, state in enumerate(self.states):
            mine = self.owners == worker
            sizes[mine], here[mine] = state.sizes(every)[mine], state.resident[mine]
        return keyed_model.snapshot(
            self.time,
            self.owners.copy(),
            self.rows.copy(),
            idle=self.idle.copy(),
            workers=range(len(self.sites)),
            version=self.moves,
            unit_bytes=sizes,
            unit_resident=here,
            memory=[pool.budget for pool in self.pools],
            spilled=self.spilled(),
        )
