"""What a simulated keyed operator runs on and what comes to it: one flat value, with defaults of flux §3 and §5.4."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Literal

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of, whole_of
from evenflow.model.routing import MOST_UNITS

MOST_WORKERS = 1024
LEAST_ROW_US = 1e-3
"""Below that, the virtual clock would hardly go on."""
KeyKind = Literal["uniform", "self-similar", "zipf"]


@dataclass(frozen=True, slots=True)
class SpeedStep:
    """From `second` on, a worker runs at `speed`; 1 is that of all others."""

    worker: int
    second: float
    speed: float


@dataclass(frozen=True, slots=True)
class ExternalLoad:
    """Another process on a worker's machine: it computes for `on_us`, sleeps for `off_us`, and so on.

    When it wakes up it waits `wait_us` for the processor. So while it is there, rows get (off + wait) of every
    (on + off + wait). The paper says that its process takes 57 % of the throughput: that is a wait of 25 us.
    """

    worker: int
    since: float = 0.0
    until: float = inf
    on_us: float = 100.0
    off_us: float = 50.0
    wait_us: float = 25.0


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """At `second`, the state on a worker may take `bytes` of its memory from then on: donate or relinquish (§6.1)."""

    second: float
    worker: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeyPhase:
    """How rows fall on keys for some seconds: evenly, self-similar (`share` on 1 - `share` of the keys), or by Zipf."""

    kind: KeyKind = "uniform"
    exponent: float = 1.0
    """Of Zipf's law."""
    share: float = 0.8
    """Of the self-similar law: 0.8 is 80/20."""
    seconds: float = inf


@dataclass(frozen=True, slots=True)
class KeyedSetup:
    """A keyed operator on `workers` workers, fed by `feeders` feeders; times in the units that their names end with."""

    workers: int = 32
    units: int = 2048
    feeders: int = 32
    rows: int = 0
    """Rows in all; 0: they never end."""
    rates: tuple[tuple[float, float], ...] = ((0.0, inf),)
    """Rows a second, of all feeders together, from each second on; infinite: a source always has rows."""

    phases: tuple[KeyPhase, ...] = (KeyPhase(),)
    """One after the other; after the last the first comes again."""
    groups: int = 16_384
    """Keys; as many in each unit as in any other, as far as that goes."""
    trace: tuple[int, ...] = ()
    """If not empty, the units of the rows, over and over; feeders take them in turn. Phases do not matter then."""

    row_us: float = 45.0
    row_jitter_us: float = 3.0
    """Standard deviation."""
    row_bytes: int = 80
    feeder_us: float = 0.5
    """What making a row costs the machine of its feeder. Feeder f is on that of worker f modulo workers."""
    speeds: tuple[float, ...] = ()
    """Of each worker; empty: 1."""
    steps: tuple[SpeedStep, ...] = ()
    loads: tuple[ExternalLoad, ...] = ()

    packet_rows: int = 12
    connection_packets: int = 2
    """Packets on a connection from a feeder to a worker, at most."""
    packet_us: float = 70.0
    """How long a packet takes."""
    full_packets: bool = False
    """Whether a packet leaves when it is full, or when no more rows come for now; else rows join one that is under way,
    as on a stream of bytes."""
    skew_rows: int = 2048
    """Rows that wait in the skew buffer of a feeder, at most; 0: the row at hand."""
    skew_by_unit: bool = False
    """Whether rows wait there by unit, and units with rows take turns, as in flux §5.1; else rows of a worker go in the
    order in which they came, as in the feeders of this engine."""

    unit_bytes: int = 800_000
    """State of a unit at the start."""
    growth_bytes: float = 0.0
    """What a row adds to it."""
    most_unit_bytes: int = 0
    """State of a unit, at most: it forgets its oldest rows then, as windows do. 0: it has no bound."""
    state_row_us: float = 0.2
    """What a row of state costs the target of a movement, and `source_part` of it the source."""
    source_part: float = 1.0
    """0: the source only forgets the state, and the target gets it from elsewhere."""
    state_share: float = 1.0
    """While a worker has state to install, the share of its time for that, beside rows; 1: rows wait meanwhile."""
    link_mbit: float = 250.0
    """Between two workers, for movements."""
    network_mbit: float = 500.0
    """Of all movements together."""

    memory_bytes: int = 0
    """That state may take on each worker at the start; 0: there is no budget."""
    memory: tuple[MemoryStep, ...] = ()
    disk_mb: float = 20.0
    """Megabytes a second."""
    seek_ms: float = 5.0
    seek_jitter_ms: float = 0.2
    spool_bytes: int = 65_536
    """Pending input of a unit is written in pieces of this size."""

    region: str = "keyed"
    seed: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "trace", tuple(map(whole_of, self.trace)))  # arrays of numpy, too
        self._check_sizes()
        self._check_costs()
        self._check_times()
        self._check_keys()

    def _check_sizes(self) -> None:
        within = {
            "workers": (1, MOST_WORKERS),
            "units": (1, MOST_UNITS),
            "feeders": (1, MOST_WORKERS),
            "rows": (0, 2**62),
            "groups": (1, 1 << 24),
            "row_bytes": (1, 1 << 30),
            "packet_rows": (1, 1 << 16),
            "connection_packets": (1, 1 << 10),
            "skew_rows": (0, 1 << 24),
            "unit_bytes": (0, 1 << 50),
            "most_unit_bytes": (0, 1 << 50),
            "memory_bytes": (0, 1 << 50),
            "spool_bytes": (1, 1 << 40),
            "seed": (0, 2**62),
        }
        for name, (least, most) in within.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise InvalidArgument(f"{name} is {value!r}: give a whole number from {least} to {most}")
        if self.speeds and len(self.speeds) != self.workers:
            raise InvalidArgument(
                f"speeds has {len(self.speeds)} numbers for {self.workers} workers: give one for each, or none"
            )
        if not self.region:
            raise InvalidArgument("region is empty: give the region a name")

    def _check_costs(self) -> None:
        _number("row_us", self.row_us, above=True)
        if self.row_us < LEAST_ROW_US:
            raise InvalidArgument(f"row_us is {self.row_us}: give at least {LEAST_ROW_US:g} microseconds a row")
        for name in ("link_mbit", "network_mbit", "disk_mb"):
            _number(name, getattr(self, name), above=True)
        for name in ("row_jitter_us", "feeder_us", "packet_us", "growth_bytes", "state_row_us", "seek_ms"):
            _number(name, getattr(self, name))
        for name in ("seek_jitter_ms", "source_part"):
            _number(name, getattr(self, name))
        if self.full_packets and self.connection_packets < 2:
            raise InvalidArgument(
                "full_packets with connection_packets = 1: none could be filled while another is under way; give 2"
            )
        if not 0 < self.state_share <= 1:
            raise InvalidArgument(f"state_share is {self.state_share}: give a share above 0, up to 1")
        for speed in self.speeds:
            _number("speeds", speed, above=True)
        for load in self.loads:
            _number("on_us of a load", load.on_us, above=True)
            _number("off_us of a load", load.off_us)
            _number("wait_us of a load", load.wait_us)
            if load.off_us + load.wait_us <= 0:
                raise InvalidArgument(f"load {load} leaves rows no time: give off_us or wait_us above 0")
            if not 0 <= load.since < load.until:
                raise InvalidArgument(f"load {load} ends before it begins: give 0 <= since < until")

    def _check_times(self) -> None:
        about: tuple[SpeedStep | ExternalLoad | MemoryStep, ...] = (*self.steps, *self.loads, *self.memory)
        for what in about:
            if not 0 <= what.worker < self.workers:
                raise InvalidArgument(
                    f"{what} is for a worker that is not there: workers go from 0 to {self.workers - 1}"
                )
        for step in self.steps:
            _number("second of a step", step.second)
            _number("speed of a step", step.speed, above=True)
        for worker in range(self.workers):
            spans = sorted((load.since, load.until) for load in self.loads if load.worker == worker)
            if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
                raise InvalidArgument(f"loads of worker {worker} overlap: {spans}; give one after the other")
        for memory in self.memory:
            _number("second of memory", memory.second)
            if memory.bytes < 1 or not self.memory_bytes:
                raise InvalidArgument(f"{memory}: give at least 1 byte, and memory_bytes for the start")
            self._check_room("bytes of memory", memory.bytes)
        if self.memory_bytes:
            self._check_room("memory_bytes", self.memory_bytes)
        seconds = [second for second, _ in self.rates]
        if not seconds or seconds[0] != 0 or any(not a < b < inf for a, b in pairwise(seconds)):
            raise InvalidArgument(f"rates is {self.rates}: give (second, rows a second), from second 0 on, rising")
        if any(not rate >= 0 for _, rate in self.rates):
            raise InvalidArgument(f"rates is {self.rates}: rows a second are at least 0")

    def _check_room(self, name: str, given: int) -> None:
        if given < self.unit_bytes:
            raise InvalidArgument(
                f"{name} is {given}: no unit would fit, so no row be served; give at least unit_bytes, "
                f"{self.unit_bytes}, or smaller units"
            )

    def _check_keys(self) -> None:
        if not self.phases:
            raise InvalidArgument("phases is empty: give at least one KeyPhase")
        for phase in self.phases:
            if phase.kind not in ("uniform", "self-similar", "zipf"):
                raise InvalidArgument(f"phase {phase}: kind is uniform, self-similar or zipf")
            _number("exponent of a phase", phase.exponent)
            if not 0.5 <= phase.share < 1:
                raise InvalidArgument(f"phase {phase}: give a share from 0.5 to below 1")
            if not phase.seconds > 0:
                raise InvalidArgument(f"phase {phase}: give seconds above 0")
        if self.trace and not 0 <= min(self.trace) <= max(self.trace) < self.units:
            raise InvalidArgument(
                f"trace has units from {min(self.trace)} to {max(self.trace)}: there are {self.units}"
            )

    @property
    def moving_s(self) -> float:
        """Seconds that installing a unit of the first size costs a worker."""
        return self.state_row_us * 1e-6 * self.unit_bytes / self.row_bytes


def _number(name: str, value: float, above: bool = False) -> None:
    if not 0 <= number_of(value) < inf or (above and value == 0):
        raise InvalidArgument(f"{name} is {value}: give a number {'above' if above else 'of at least'} 0")
