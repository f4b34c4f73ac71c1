"""A scenario: what is simulated, for how long, and under which balances; from a TOML file or from Python.

seconds = 120
balance = ["hash", "auto"]

[keyed]                 # or [ordered], or [graph]: the fields of KeyedSetup, OrderedScene, SimulatedGraph
workers = 200
units = 4096

[[slow]]                # a slow rack, for a while
workers = "0-19"
factor = 5
since = 20
until = 60
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.policy import balance_named, keyed_balance_named, placement_named
from evenflow.policy.spelling import spelled
from evenflow.sim.filling import filled
from evenflow.sim.graphs.model import SimulatedGraph
from evenflow.sim.graphs.plane import GraphPlane
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import KeyedSetup, SpeedStep
from evenflow.sim.ordered.plane import OrderedPlane
from evenflow.sim.ordered.scene import OrderedScene, WorkerLoad
from evenflow.sim.simulation import DataPlane

DEFAULTS = {"ordered": "credits", "keyed": "auto", "graph": "potential"}
"""The balance or placement that live clusters use, too, if nothing else is said."""
KINDS = tuple(DEFAULTS)
Course = list[tuple[float, float]]
"""Seconds, and the speed of a worker from then on."""


@dataclass(frozen=True, slots=True)
class SlowWorkers:
    """Some workers take `factor` times as long for everything, from second `since` to second `until`."""

    workers: str
    """Numbers and ranges: `0-19,25`."""
    factor: float
    since: float = 0.0
    until: float = inf

    def __post_init__(self) -> None:
        if not 0 < self.factor < inf:
            raise InvalidArgument(f"factor is {self.factor:g}: give a number above 0")
        if not 0 <= self.since < self.until:
            raise InvalidArgument(f"since is {self.since:g} and until is {self.until:g}: it must begin, and then end")

    def numbers(self, workers: int) -> list[int]:
        """The workers, of so many that there are."""
        found: set[int] = set()
        for part in self.workers.split(","):
            first, dash, last = part.strip().partition("-")
            if not first.isdecimal() or (dash and not last.isdecimal()):
                raise InvalidArgument(f"workers is {self.workers!r}: give numbers and ranges, such as '0-19,25'")
            begin, end = int(first), int(last if dash else first)
            if end < begin:
                raise InvalidArgument(
                    f"workers is {self.workers!r}: write the range {last}-{first}, the lower end first"
                )
            if end >= workers:
                raise InvalidArgument(f"workers is {self.workers!r}: there are workers 0 to {workers - 1}")
            found.update(range(begin, end + 1))
        return sorted(found)


@dataclass(frozen=True)
class Scenario:
    """What is simulated: an ordered region, a keyed operator or an operator graph, exactly one of them."""

    seconds: float
    balance: str | tuple[str, ...] = ()
    """Names, with parameters if need be (`flux:delta_min=0.01`); of a graph, placements."""
    ordered: OrderedScene | None = None
    keyed: KeyedSetup | None = None
    graph: SimulatedGraph | None = None
    slow: tuple[SlowWorkers, ...] = ()
    period_s: float = 1.0
    """That of `Cluster(period=)`."""
    delay_s: float = 0.0005
    """Of a message to or from the controller."""

    def __post_init__(self) -> None:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            told = f"there are {' and '.join(given)}" if given else "there is none"
            raise InvalidArgument(f"a scenario has one table [ordered], [keyed] or [graph]: {told}")
        for name in ("seconds", "period_s"):
            if not 0 < number_of(getattr(self, name)) < inf:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: give seconds above 0")
        if not 0 <= number_of(self.delay_s) < self.period_s:
            raise InvalidArgument(f"delay_s is {self.delay_s}: give seconds from 0 to below period_s")
        if not all(isinstance(name, str) for name in _several(self.balance)):
            raise InvalidArgument(f"balance is {self.balance!r:.100}: give the name of a balance, or a tuple of names")
        if not isinstance(self.slow, tuple | list):
            raise InvalidArgument(f"slow is {self.slow!r:.100}: give a tuple of SlowWorkers, (SlowWorkers(...),)")
        for each in self.slow:
            each.numbers(self.workers)

    @classmethod
    def read(cls, path: str | Path) -> Scenario:
        """The scenario in a TOML file."""
        file = Path(path)
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise InvalidArgument(f"there is no scenario {file}: docs/simulator.md tells how to write one") from None
        except OSError as error:
            raise InvalidArgument(f"cannot read the scenario {file}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{file} is not TOML: {error}") from None
        return cls.of(table, str(file))

    @classmethod
    def of(cls, table: dict[str, Any], where: str = "the scenario") -> Scenario:
        """The scenario in a table; `where` names it in errors."""
        return filled(cls, table, where)

    @property
    def kind(self) -> str:
        """`ordered`, `keyed` or `graph`."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def workers(self) -> int:
        """How many there are."""
        if self.graph is not None:
            return len(self.graph.hosts)
        given = self.ordered or self.keyed
        assert given is not None
        return given.workers

    @property
    def balances(self) -> tuple[str, ...]:
        """The balances that are to be compared."""
        return tuple(dict.fromkeys(_several(self.balance))) or (DEFAULTS[self.kind],)

    def plane(self, balance: str) -> DataPlane:
        """The data plane under a balance, which a text names."""
        name, options = spelled(balance)
        if self.ordered is not None:
            return OrderedPlane(self._slow_scene(self.ordered), balance_named(name, **options))
        if self.keyed is not None:
            return KeyedPlane(self._slow_setup(self.keyed), keyed_balance_named(name, **options))
        assert self.graph is not None
        return GraphPlane(self._slow_graph(self.graph), placement_named(name, **options))

    # -- slow workers, as each data plane has them

    def _slow_scene(self, scene: OrderedScene) -> OrderedScene:
        loads = tuple(
            WorkerLoad(worker, each.factor, each.since, each.until, whole=True)
            for each in self.slow
            for worker in each.numbers(self.workers)
        )
        return replace(scene, loads=scene.loads + loads)

    def _slow_setup(self, setup: KeyedSetup) -> KeyedSetup:
        own: dict[int, Course] = {worker: [(0.0, speed)] for worker, speed in enumerate(setup.speeds)}
        for step in sorted(setup.steps, key=lambda step: step.second):
            own.setdefault(step.worker, [(0.0, 1.0)]).append((step.second, step.speed))
        slowed = {worker: self._slowed(worker, own.get(worker, [(0.0, 1.0)])) for worker in self._slow_numbers()}
        steps = [SpeedStep(worker, second, speed) for worker, course in slowed.items() for second, speed in course]
        others = tuple(step for step in setup.steps if step.worker not in slowed)
        return replace(setup, steps=others + tuple(sorted(steps, key=lambda step: (step.second, step.worker))))

    def _slow_graph(self, graph: SimulatedGraph) -> SimulatedGraph:
        hosts = list(graph.hosts)
        for worker in self._slow_numbers():
            own = [(0.0, hosts[worker].coefficient), *sorted(hosts[worker].changes, key=lambda change: change[0])]
            course = self._slowed(worker, [(second, 1 / value) for second, value in own])
            hosts[worker] = replace(hosts[worker], changes=tuple((second, 1 / speed) for second, speed in course))
        return replace(graph, hosts=tuple(hosts))

    def _slow_numbers(self) -> list[int]:
        return sorted({worker for each in self.slow for worker in each.numbers(self.workers)})

    def _slowed(self, worker: int, own: Course) -> Course:
        """(second, speed from then on) of a worker with its own speeds, by second; what is of one time is multiplied.

        The second 0 is in it only if the worker is slow from then on, or has a step there.
        """
        mine = [each for each in self.slow if worker in each.numbers(self.workers)]
        edges = {edge for each in mine for edge in (each.since, each.until) if edge < inf}
        found = []
        for second in sorted(edges | {second for second, _ in own[1:]}):
            speed = [speed for since, speed in own if since <= second][-1]
            for each in mine:
                if each.since <= second < each.until:
                    speed /= each.factor
            found.append((second, speed))
        return found


def _several(names: object) -> tuple[Any, ...]:
    """Names, or one name or anything else by itself."""
    return tuple(names) if isinstance(names, tuple | list) else (names,)
