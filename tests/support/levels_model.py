"""A plain model of a graph on workers, for the controller of all levels: what is true, what is measured, what moves.

Nothing flows here. A world has true speeds, rates, costs and hot units; a period measures them with noise, as the mean
over the last periods or an average that forgets; moves are carried out at once.
"""

import random
from collections import deque

import numpy as np

from evenflow.model.graphs.placement import Host, Links, OperatorLoad, PlacementProblem
from evenflow.model.graphs.spread import KEYED, LANES, SpreadOperator

PERIODS = 10
NEWS = 0.3
"""What a new measurement of a cost or a speed counts for."""
UNITS = {KEYED: 48, LANES: 24}
WHOLE = 2


class LevelsWorld:
    """One random graph with whole, keyed and lane operators on a few workers."""

    def __init__(self, seed, noise=0.02):
        self.draw, self.noise = random.Random(seed), noise
        self.chance = np.random.default_rng(seed)
        draw = self.draw
        self.workers, self.sources = draw.randint(2, 5), draw.randint(1, 2)
        count = draw.randint(3, 9)
        self.kinds = [draw.choice((WHOLE, WHOLE, WHOLE, KEYED, LANES)) for _ in range(count)]
        self.inputs = [
            draw.sample(range(-self.sources, number), min(draw.choice((1, 1, 2)), number + self.sources))
            for number in range(count)
        ]
        self.selectivity = [draw.uniform(0.3, 1.2) for _ in range(count)]
        self.costs = np.array([draw.uniform(0.2, 1.0) for _ in range(count)])
        self.rates = np.array([draw.uniform(500, 2000) for _ in range(self.sources)])
        self.speed = np.array([draw.choice((1.0, 1.0, 1.0, draw.uniform(1, 2))) for _ in range(self.workers)])
        self.quota = [draw.choice((1.0, 1.0, 0.6)) for _ in range(self.workers)]
        self.state = [draw.choice((0, 10**5, 10**7)) for _ in range(count)]
        self.hot = {number: np.ones(UNITS[kind]) for number, kind in enumerate(self.kinds) if kind != WHOLE}
        for weights in self.hot.values():
            weights *= self.chance.pareto(2.0, len(weights)) + 0.2
        self.costs *= draw.uniform(0.3, 0.7) / self.filling()
        delay = draw.choice((0.2, 0.5, 2.0))
        far = {draw.randrange(self.workers)} if draw.random() < 0.3 else set()
        every = range(self.workers)
        self.links = Links(delay, 125e6, {(a, b): (20.0, 125e6) for a in every for b in every if far & {a, b}})
        self.placed = {n: draw.randrange(self.workers) for n, kind in enumerate(self.kinds) if kind == WHOLE}
        self.owners = {n: np.arange(len(weights)) % self.workers for n, weights in self.hot.items()}
        self._history = deque(maxlen=PERIODS)
        self._learnt_costs, self._learnt_speed = self.costs.copy(), self.speed.copy()
        self._shares = {n: deque(maxlen=PERIODS) for n in self.hot}

    # -- the truth

    def flows(self, rates, costs):
        """Loads and rows given, by node."""
        given, loads = [], []
        for number, inputs in enumerate(self.inputs):
            arriving = sum(rates[-1 - each] if each < 0 else given[each] for each in inputs)
            loads.append(arriving * costs[number] / 1e3)
            given.append(arriving * self.selectivity[number])
        return np.array(loads), np.array(given)

    def filling(self):
        """The load of all workers together over what they may have: below 1, there may be a placement that fits."""
        room = sum(quota / speed for quota, speed in zip(self.quota, self.speed, strict=True))
        return float(self.flows(self.rates, self.costs)[0].sum()) / room

    def change(self):
        """One random change of the world; says what it was."""
        while True:
            kept = self.rates.copy(), self.costs.copy(), self.speed.copy(), {n: w.copy() for n, w in self.hot.items()}
            what = self._changed(self.draw.choice(("speed", "rate", "cost", "hot")))
            if what and 0.15 <= self.filling() <= 0.8:
                return what
            self.rates, self.costs, self.speed, self.hot = kept

    def _changed(self, kind):
        draw = self.draw
        if kind == "speed":
            worker = draw.randrange(self.workers)
            self.speed[worker] = draw.choice((1.0, 5.0, draw.uniform(1, 3)))
        elif kind == "rate":
            self.rates[draw.randrange(self.sources)] *= draw.uniform(0.4, 2.0)
        elif kind == "cost":
            self.costs[draw.randrange(len(self.costs))] *= draw.uniform(0.3, 3.0)
        elif not self.hot:
            return None
        else:
            weights = self.hot[draw.choice(list(self.hot))]
            weights[draw.randrange(len(weights))] = draw.choice((1.0, 0.3, 1.0)) * float(weights.sum())
        return kind

    # -- what is measured

    def measure(self):
        """One period more."""
        noise = self.noise

        def noisy(true):
            return true * (1 + noise * np.clip(self.chance.standard_normal(np.shape(true)), -2, 2))

        self._history.append(noisy(self.rates))
        self._learnt_costs += NEWS * (noisy(self.costs) - self._learnt_costs)
        self._learnt_speed += NEWS * (noisy(self.speed) - self._learnt_speed)
        for number, weights in self.hot.items():
            self._shares[number].append(noisy(weights / weights.sum()))

    def seen(self):
        """The problem as it was measured."""
        series, given = zip(*(self.flows(rates, self._learnt_costs) for rates in self._history), strict=True)
        shares = {number: np.mean(self._shares[number], axis=0) for number in self.hot}
        return self._problem(np.array(series).T, np.mean(given, axis=0), self._learnt_speed, shares)

    def true(self):
        """The problem as it is."""
        series, given = self.flows(self.rates, self.costs)
        return self._problem(np.tile(series[:, None], PERIODS), given, self.speed, self.hot)

    def _problem(self, series, given, speeds, shares):
        whole, spread = list(self.placed), list(self.owners)
        place = {node: at for at, node in enumerate([*whole, *spread])}
        readers = [[place[r] for r, inputs in enumerate(self.inputs) if node in inputs] for node in range(len(given))]
        operators = tuple(
            OperatorLoad(
                f"o{node}",
                tuple(series[node]),
                tuple(reader for reader in readers[node] if reader < len(whole)),
                given[node],
                100 * given[node],
                self.state[node],
            )
            for node in whole
        )
        hosts = tuple(Host(j, float(speeds[j]), self.quota[j]) for j in range(self.workers))
        problem = PlacementProblem(operators, hosts, self.links, tuple(self.placed.values()))
        return problem, [
            SpreadOperator(
                f"s{node}",
                self.kinds[node],
                tuple(series[node]),
                shares[node],
                self.owners[node],
                tuple(readers[node]),
                given[node],
                100 * given[node],
                np.full(len(self.owners[node]), self.state[node] / 50 * (self.kinds[node] == KEYED)),
                tuple(place[each] for each in self.inputs[node] if each in self.placed),
            )
            for node in spread
        ]

    # -- what moves

    def carry_out(self, decision):
        """Move what is to move; gives each as (what, from, to)."""
        whole, spread, moved = list(self.placed), list(self.owners), []
        for operator, source, target in decision.operators:
            assert self.placed[whole[operator]] == source != target
            self.placed[whole[operator]] = target
            moved.append((whole[operator], source, target))
        for number, units, source, target in decision.units:
            owners = self.owners[spread[number]].copy()
            assert (owners[list(units)] == source).all()
            assert source != target
            owners[list(units)] = target
            self.owners[spread[number]] = owners
            moved += [((spread[number], unit), source, target) for unit in units]
        return moved
