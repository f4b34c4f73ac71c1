"""Two keyed operators of keyed_model.py on the same workers, each of which serves both by weight."""

from dataclasses import dataclass, replace

import numpy as np

from tests.support.keyed_model import STEP, Model


@dataclass
class Pair:
    """Operators "a" and "b"; while both have rows waiting a worker's time is shared by weight (see ServiceOrder)."""

    a: Model
    b: Model
    weights: tuple = (1.0, 1.0)

    @property
    def both(self):
        return {"a": self.a, "b": self.b}

    def run(self, seconds):
        for _ in range(round(seconds / STEP)):
            self._step()

    def _step(self):
        models = (self.a, self.b)
        for model in models:
            model._arrive()
        demands = [model._demand() for model in models]
        wanted = [queued / able for able, queued in demands]
        fair = [weight / sum(self.weights) for weight in self.weights]
        free = [np.maximum(fair[i], 1 - wanted[1 - i]) for i in (0, 1)]
        used = [np.minimum(wanted[i], free[i]) for i in (0, 1)]
        for i, model in enumerate(models):
            model._serve(*demands[i], free[i], others=used[1 - i])
            model._move()
            model.time += STEP


@dataclass
class Outcome:
    """Second by second, by operator."""

    rows: dict
    """Rows served."""
    waits: dict
    """Seconds that a row waits: rows waiting, by rows a second."""
    moved: dict
    used: np.ndarray
    """Share of each worker's time that was used."""


def drive_pair(balances, sharing, pair, seconds, report=0.1):
    """Run two balances, by operator, under `sharing`; without, each by itself."""
    out = Outcome({"a": [], "b": []}, {"a": [], "b": []}, {"a": [], "b": []}, np.zeros(0))
    used, idle = [], np.zeros(len(pair.a.speed))
    for _ in range(round(seconds)):
        rows = {name: model.rows for name, model in pair.both.items()}
        waiting = dict.fromkeys(rows, 0.0)
        for _ in range(round(1 / report)):
            pair.run(report)
            for name, model in pair.both.items():
                shown = replace(model.snapshot(), region=name)
                shown = shown if sharing is None else sharing.view(shown)
                moves = [] if shown is None else balances[name].decide(shown)
                if sharing is not None:
                    sharing.begin(name, moves)
                model.begin(moves)
                waiting[name] += model._waiting.sum() * report
        for name, model in pair.both.items():
            out.rows[name].append(model.rows - rows[name])
            out.waits[name].append(waiting[name] / max(model.rows - rows[name], 1.0))
            out.moved[name].append(model.moved - sum(out.moved[name]))
        used.append(1 - (pair.a._idle - idle))
        idle = pair.a._idle.copy()
    out.used = np.array(used)
    for table in (out.rows, out.waits, out.moved):
        table.update({name: np.array(values) for name, values in table.items()})
    return out
