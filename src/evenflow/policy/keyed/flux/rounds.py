"""Rounds of a collection phase and a move phase: when the policies of flux §5.3, §6.2 and §6.4 decide."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf

from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.model.given import number_of
from evenflow.model.messages import LEAST_REPORT_S, REPORT_S
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.reports import ROUNDING


@dataclass
class Rounds(KeyedBalance):
    """Collect for `delta` seconds, then decide, then wait until all moves are done.

    The next `delta` is the length of the move phase, or half the last `delta` if nothing moved, and never below
    `delta_min`. A move phase is timed as in §5.3, from the decision until the last move has ended. A worker that is
    busy with its disk, and so reports late, does not make it longer; it only delays the beginning of the next phase.
    When workers join, leave or restart, when owners change or counters go back, the phase is forgotten and another of
    the same length begins.

    Workers report every `delta_min` seconds, but at least every 0.1 s and at most every 0.01 s, and not before they are
    through with a frame (10 ms of work): so phases of 10 ms are possible. The paper's `delta_min` is 0.01; the default
    is calmer, because phases that short move popular units to and fro (its figure 9).
    """

    delta_min: float = 0.1

    def __post_init__(self) -> None:
        if not LEAST_REPORT_S <= number_of(self.delta_min) < inf:
            raise InvalidArgument(
                f"delta_min is {self.delta_min!r:.100}: give the seconds of a collection phase, at least "
                f"{LEAST_REPORT_S}, since workers report no more often"
            )
        self.delta_min = number_of(self.delta_min)
        self.report_s = min(REPORT_S, self.delta_min)  # no longer than the shortest collection phase
        self._delta = self.delta_min
        self._began: KeyedSnapshot | None = None
        self._moving_since: float | None = None

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """The moves of a round, at the end of its collection phase; nothing at other times."""
        if snapshot.moving > 0:
            if self._moving_since is None:
                self._moving_since = snapshot.time
            return []
        if self._moving_since is not None:
            ended = snapshot.moves_ended if snapshot.moves_ended >= self._moving_since else snapshot.time
            self._delta = max(self.delta_min, ended - self._moving_since)
            self._moving_since, self._began = None, snapshot
            return []
        if self._began is None or not _continues(self._began, snapshot):
            self._began = snapshot
            return []
        if snapshot.time - self._began.time < self._delta * (1 - 1e-9) or snapshot.time <= self._began.time:
            return []
        moves = self._round(self._began, snapshot)
        if moves:
            self._moving_since = snapshot.time
        else:
            self._delta = max(self.delta_min, self._delta / 2)
        self._began = snapshot
        return moves

    @abstractmethod
    def _round(self, before: KeyedSnapshot, now: KeyedSnapshot) -> list[MoveUnits]:
        """The moves of a round, from the snapshots at the beginning and at the end of its collection phase."""


def _continues(before: KeyedSnapshot, now: KeyedSnapshot) -> bool:
    """Whether differences between the two mean anything: same workers, same owners, no counter gone back."""
    return (
        before.comparable(now)
        and before.table.version == now.table.version
        and all(
            b.seconds <= c.seconds + ROUNDING and b.idle_s <= c.idle_s + ROUNDING and b.rows <= c.rows
            for b, c in zip(before.consumers, now.consumers, strict=True)
        )
        and bool((before.unit_rows <= now.unit_rows).all())
    )
