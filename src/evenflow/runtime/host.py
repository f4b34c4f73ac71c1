"""What a worker keeps of keyed operators: their copies with their state, units that leave and arrive, statistics."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import EvenflowError, ProtocolError
from evenflow.operators.hosted import Hosted, units_of
from evenflow.operators.keyed import Units
from evenflow.runtime.copies import Answer, Copies, State, answers, let_go, process
from evenflow.runtime.depot import Depot, Stored, Unfetched
from evenflow.runtime.keeper import Keeper
from evenflow.runtime.mover import Mover, Parcel, Part, Undelivered
from evenflow.state.paging import Paged

REPORT_S = 0.1
"""Statistics go to the controller this often while feeders are there."""
SIZES_S = 1.0
"""State is measured this often."""
SIZED = 4096
"""Units whose state is measured at a time, at most."""
FORGOTTEN = 1000
"""Evaluations remembered as over, so that state that arrives late for them is not kept."""

Tell = Callable[[dict[str, Any]], None]
Stamp = tuple[int, int]
"""A batch, and the attempt at it."""
States = dict[str, dict[int, Any]]
"""By evaluation and unit."""


@dataclass(slots=True)
class Leaving:
    """A movement of which this worker is the source."""

    region: str
    units: list[int]
    host: str
    port: int
    evaluations: list[str]
    """Those whose state goes; whoever came later holds these units' rows back and has no state of them."""
    waiting: set[int]
    """Feeders whose markers are still to come."""
    by_store: bool = False
    """Whether they go by way of the store."""
    operator: str = ""
    kept: States = field(default_factory=dict)
    """What was sent, until the target has it."""
    sent: bool = False


@dataclass(slots=True)
class _Region:
    """One keyed operator on this worker."""

    operator: str
    units: int
    active: npt.NDArray[np.bool_] = field(init=False)
    """Units with rows since their state was measured."""
    feeders: int = 0
    copies: dict[str, State] = field(default_factory=dict)
    away: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    """By evaluation, marks units that have left: rows of theirs must not come here."""
    seen: list[npt.NDArray[np.int32]] = field(default_factory=list)
    busy_s: float = 0.0
    rows: int = 0
    bytes: int = 0
    reported: float = 0.0
    waited_s: float = 0.0
    arrived: set[int] = field(default_factory=set)
    """Units that came from elsewhere since state was measured."""
    measured: float = 0.0
    counted: dict[str, dict[str, int]] = field(default_factory=dict)
    """By evaluation, what the operator had counted when that was last told."""

    def __post_init__(self) -> None:
        self.active = np.zeros(self.units, np.bool_)

    def newly_counted(self) -> dict[str, int]:
        """What the copies have counted since this was last asked."""
        sums: dict[str, int] = {}
        before, self.counted = self.counted, {}
        for evaluation, state in self.copies.items():
            operator = state.operator if isinstance(state, Paged) else state
            self.counted[evaluation] = operator.tallies()
            for name, count in self.counted[evaluation].items():
                sums[name] = sums.get(name, 0) + count - before.get(evaluation, {}).get(name, 0)
        return sums

    def mark_away(self, evaluation: str, units: int | list[int]) -> None:
        """These units have left."""
        if evaluation not in self.away:
            self.away[evaluation] = np.zeros(self.units, np.bool_)
        self.away[evaluation][units] = True


class Host:
    """All keyed operators of one worker."""

    def __init__(
        self,
        tell: Tell,
        mover: Mover,
        code: Callable[[str], Hosted | None],
        keeper: Keeper | None = None,
        copies: Copies | None = None,
        give: Callable[[list[Answer]], None] = lambda answers: None,
        depot: Depot | None = None,
    ) -> None:
        self._tell = tell
        self.keeper = keeper
        self._copies = copies or Copies()
        self._give = give
        self._mover = mover
        self._depot = depot
        self._code = code
        self._regions: dict[str, _Region] = {}
        self._leaving: dict[int, Leaving] = {}
        self._markers: dict[int, set[int]] = {}
        self._latest = 0
        """The latest movement the controller told us of as the source; they come in order."""
        self._arrived: dict[int, list[Part]] = {}
        self._installed: dict[int, tuple[str, list[int], list[tuple[str, int]]]] = {}
        self._discarded: dict[int, None] = {}
        self._forgotten: dict[tuple[str, str], None] = {}

    @property
    def active(self) -> bool:
        """Whether any feeder is here."""
        return any(region.feeders for region in self._regions.values())

    @property
    def operators(self) -> set[str]:
        """The operators in use."""
        return {region.operator for region in self._regions.values()}

    # -- rows

    def open(self, region: str, operator: str, units: int, now: float, waited_s: float) -> None:
        """A feeder is here."""
        if region not in self._regions:
            self._regions[region] = _Region(operator, units)
        known = self._regions[region]
        if not known.feeders:
            known.reported, known.waited_s = now, waited_s
        known.feeders += 1

    def leave(self, region: str, now: float, waited_s: float) -> None:
        """A feeder is gone; after the last one nobody asks for statistics, so they go out now."""
        known = self._regions.get(region)
        if known is not None and known.feeders:
            known.feeders -= 1
            if not known.feeders:
                self._send_report(region, known, now, waited_s)
            if not known.feeders and not known.copies:
                del self._regions[region]

    def process(
        self,
        region: str,
        evaluation: str,
        batch: pa.RecordBatch,
        tag: Any = None,
        stamp: Stamp | None = None,
        body: Part = b"",
    ) -> list[Answer]:
        """Apply the rows of a frame, known by `tag`, to an evaluation's state; the answers there are.

        With a `stamp`, the batch and the attempt they are of, they are noted as they came, in `body`.
        """
        known = self._regions[region]
        hosted = self._hosted(known)
        rows, units, keys = hosted.unpacked(batch)
        if (region, evaluation) in self._forgotten:
            raise ProtocolError(f"rows of region {region} came for {evaluation}, which is over")
        away = known.away.get(evaluation)
        if away is not None and away[units].any():
            raise ProtocolError(f"rows of region {region} came for units that have left this worker")
        copy = self._copy(known, evaluation)
        keeper = self.keeper if stamp is not None else None
        if keeper is not None and stamp is not None:
            keeper.enter(region, evaluation, known.units, stamp, copy, away)
        found = process(copy, hosted, tag, rows, units, keys)
        if keeper is not None:
            keeper.log(region, evaluation, body, batch.schema, units)
        known.seen.append(units)
        known.rows += batch.num_rows
        known.bytes += batch.nbytes
        return found

    def drain(self, region: str, evaluation: str) -> Iterator[list[Answer]]:
        """Process all rows that wait for state on disk; answers as there are, since all of them may be too many."""
        known = self._regions.get(region)
        state = known.copies.get(evaluation) if known is not None else None
        if known is not None and isinstance(state, Paged):
            yield from (answers(self._hosted(known), done) for done in state.draining())

    def rotate(self, now: float) -> None:
        """Bring back state for which enough rows wait."""
        for name, known in list(self._regions.items()):
            for state in list(known.copies.values()):
                if isinstance(state, Paged) and state.pending_rows:
                    began = time.perf_counter()
                    self._give(answers(self._hosted(known), state.rotate(now)))
                    self.served(name, time.perf_counter() - began)

    def end(self, region: str, evaluation: str, stamp: Stamp, who: Any) -> None:
        """A feeder wants to know when all its rows are durable."""
        assert self.keeper is not None
        known = self._regions.get(region)
        copy = known.copies.get(evaluation) if known is not None else None
        if known is not None and copy is not None:
            self.keeper.idle(region, evaluation, stamp, copy, known.away.get(evaluation))
        self.keeper.end(region, evaluation, stamp, who)

    def served(self, region: str, seconds: float) -> None:
        """So long did the rows just processed take."""
        self._regions[region].busy_s += seconds

    def blame(self, region: str, batch: pa.RecordBatch) -> str:
        """Which row an operator's failure seems to come from."""
        hosted = self._hosted(self._regions[region])
        found = hosted.blame(batch)
        units = np.unique(units_of(batch.column(batch.num_columns - 1), hosted.units))
        if found is None:
            some = f"unit {units[0]}" if len(units) == 1 else f"{len(units)} units, {units[0]} to {units[-1]}"
            return f"rows of {some}; with empty state they do not fail"
        return f"unit {found[0]}, key hash {found[1]}"

    def _hosted(self, region: _Region) -> Hosted:
        hosted = self._code(region.operator)
        if hosted is None:
            raise ProtocolError(f"operator {region.operator} is not here yet")
        return hosted

    def _copy(self, region: _Region, evaluation: str) -> State:
        copy = region.copies.get(evaluation)
        if copy is None:
            copy = region.copies[evaluation] = self._copies.fresh(self._hosted(region))
        return copy

    def _settle(self, region: str, units: list[int]) -> None:
        """Answer the rows that wait for some units, before these leave."""
        known = self._regions.get(region)
        for state in known.copies.values() if known is not None else ():
            if isinstance(state, Paged) and state.pending_rows and known is not None:
                self._give(answers(self._hosted(known), state.settle(units)))

    def _region(self, name: str, operator: str) -> _Region:
        """A region of which units come here, known or not; the operator's code is here."""
        if name not in self._regions:
            hosted = self._code(operator)
            if not isinstance(hosted, Hosted):
                raise EvenflowError(f"operator {operator} could not be loaded on this worker")
            self._regions[name] = _Region(operator, hosted.units)
        return self._regions[name]

    # -- moves

    def obey(self, message: dict[str, Any]) -> None:
        """Do what the controller says about moves and evaluations."""
        match message["type"]:
            case "move":
                move = self._latest = int(message["move"])
                waiting = set(message["feeders"]) - self._markers.pop(move, set())
                what = (str(message["region"]), message["units"])
                where = (str(message["host"]), int(message["port"]))
                self._leaving[move] = Leaving(*what, *where, message["evaluations"], waiting, "store" in message)
                self._send_if_quiet(move)
            case "feeder-gone":
                self._marked(int(message["move"]), int(message["feeder"]))
            case "fetch" if self._depot is not None:
                if int(message["move"]) not in self._discarded:
                    self._depot.get(str(message["region"]), int(message["move"]))
            case "moved":
                self._left(int(message["move"]))
            case "restore":
                self._restore(int(message["move"]), str(message["region"]))
            case "discard":
                self._discard(int(message["move"]), str(message["region"]))
            case "abandon":
                self._abandon(message["moves"])
            case "forget":
                self._forget(str(message["region"]), str(message["evaluation"]))
            case "drop":
                if self.keeper is not None:
                    self.keeper.drop(str(message["region"]), str(message["evaluation"]))
                self._drop(str(message["region"]), str(message["evaluation"]))
            case "load" if self.keeper is not None:
                self._drop(str(message["region"]), str(message["evaluation"]))
                self.keeper.load(message)
            case "unsaved" if self.keeper is not None:
                self.keeper.unsaved(message)

    def marker(self, move: int, feeder: int) -> None:
        """A feeder's marker: all it had sent before is processed, but for rows that wait for state on disk."""
        if move in self._leaving:
            self._settle(self._leaving[move].region, self._leaving[move].units)
        else:  # which units it is about is not known yet
            for name in self._regions:
                self._settle(name, list(range(self._regions[name].units)))
        if move in self._leaving:
            self._marked(move, feeder)
        elif move > self._latest:  # it overtook the controller's message; others come too late to matter
            self._markers.setdefault(move, set()).add(feeder)

    def collect(self) -> None:
        """Take what the mover has brought."""
        for inbox in (self._mover.inbox, *((self._depot.inbox,) if self._depot is not None else ())):
            while not inbox.empty():
                self._take(inbox.get())
        for move in list(self._arrived):
            self._install(move)
        if self.keeper is not None:
            for loaded in self.keeper.collect(self._code):
                order = loaded.order
                assert loaded.copy is not None
                known = self._region(order.region, order.operator)
                let_go(known.copies.pop(order.evaluation, None))
                known.copies[order.evaluation] = loaded.copy

    def _take(self, news: Parcel | Stored | Undelivered | Unfetched) -> None:
        match news:
            case Parcel(move=move, parts=parts):
                if move not in self._discarded:
                    self._arrived[move] = parts
            case Stored(move=move):
                if move in self._leaving:
                    self._report_move(self._leaving[move].region, move, "stored")
            case Undelivered(move=move, reason=reason):
                if move in self._leaving:
                    self._report_move(self._leaving[move].region, move, "undelivered", reason)
            case Unfetched(move=move, region=region, reason=reason):
                self._report_move(region, move, "undelivered", reason)

    def _left(self, move: int) -> Leaving | None:
        """A movement of which this worker is the source is over, in whatever way."""
        leaving = self._leaving.pop(move, None)
        if leaving is not None and leaving.by_store and leaving.sent and self._depot is not None:
            self._depot.delete(leaving.region, move)
        return leaving

    def _marked(self, move: int, feeder: int) -> None:
        leaving = self._leaving.get(move)
        if leaving is not None:
            leaving.waiting.discard(feeder)
            self._send_if_quiet(move)

    def _send_if_quiet(self, move: int) -> None:
        """Once every row in flight has been seen: take the units out and send them off."""
        leaving = self._leaving[move]
        if leaving.waiting or leaving.sent:
            return
        leaving.sent = True
        self._report_move(leaving.region, move, "quiet")
        known = self._regions.get(leaving.region)
        leaving.operator = known.operator if known is not None else ""
        if not self._extract(leaving, move):
            return
        buffers: list[pickle.PickleBuffer] = []
        touched = self.keeper.touched(leaving.region, leaving.evaluations, leaving.units) if self.keeper else {}
        label = (leaving.region, leaving.operator, leaving.units, touched)
        try:
            body = pickle.dumps(leaving.kept, protocol=5, buffer_callback=buffers.append)
        except BaseException as error:  # whatever the user's state runs into when it is pickled
            if self._put_back(leaving, move):
                self._report_move(leaving.region, move, "failed", f"its state cannot be serialised: {error}")
            return
        if known is not None:
            for evaluation in leaving.evaluations:
                if (leaving.region, evaluation) not in self._forgotten:
                    known.mark_away(evaluation, leaving.units)
        parts: list[Part] = [pickle.dumps(label), body, *(memoryview(buffer.raw()) for buffer in buffers)]
        parcel = Parcel(move, parts, leaving.host, leaving.port)
        if not leaving.by_store:
            self._mover.send(parcel)
        elif self._depot is not None:
            self._depot.put(leaving.region, parcel)

    def _extract(self, leaving: Leaving, move: int) -> bool:
        """Take the units out; whether that went well."""
        known = self._regions.get(leaving.region)
        copies = known.copies if known is not None else {}
        try:
            self._settle(leaving.region, leaving.units)
            for evaluation in leaving.evaluations:
                if evaluation not in copies:
                    continue
                taken = leaving.kept.setdefault(evaluation, {})
                for unit in leaving.units:
                    state = copies[evaluation].extract(unit)
                    if state is not None:
                        taken[unit] = state
        except BaseException as error:  # the user's code
            if self._put_back(leaving, move):
                self._report_move(leaving.region, move, "failed", f"extract failed: {type(error).__name__}: {error}")
            return False
        return True

    def _put_back(self, leaving: Leaving, move: int) -> bool:
        """Install what was taken out; if even that fails, the state is lost, and the controller is told."""
        states, leaving.kept = leaving.kept, {}
        known = self._regions.get(leaving.region)
        if known is None and any(states.values()):
            known = self._region(leaving.region, leaving.operator)
        try:
            for evaluation, units in states.items():
                if (leaving.region, evaluation) in self._forgotten or known is None:
                    continue
                for unit, state in units.items():
                    self._copy(known, evaluation).install(unit, state)
        except BaseException as error:  # the user's code
            why = f"install failed where the state came from: {type(error).__name__}: {error}"
            self._report_move(leaving.region, move, "lost", why)
            return False
        if known is not None:
            _subtract(known.away, leaving.units)
        return True

    def _install(self, move: int) -> None:
        """Put units in that have arrived, as soon as their operator is here."""
        region, operator, units, touched = pickle.loads(self._arrived[move][0])
        if operator and self._code(operator) is None:
            return
        _, body, *buffers = self._arrived.pop(move)
        done: list[tuple[str, int]] = []
        try:
            known = self._region(region, operator) if operator else self._regions.get(region)
            for evaluation, taken in pickle.loads(body, buffers=buffers).items():
                if (region, evaluation) in self._forgotten or known is None:
                    continue
                for unit, state in taken.items():
                    done.append((evaluation, unit))
                    self._copy(known, evaluation).install(unit, state)
        except BaseException as error:  # the user's code; the source has a copy of it all
            self._undo(region, done)
            self._report_move(region, move, "failed", f"install failed: {type(error).__name__}: {error}")
            return
        if known is not None:
            _subtract(known.away, units)
            known.arrived.update(unit for _, unit in done)
            if self.keeper is not None:
                self.keeper.arrived(region, known.units, move, units, touched)
        self._installed[move] = (region, units, done)
        while len(self._installed) > FORGOTTEN:
            del self._installed[next(iter(self._installed))]
        size = len(body) + sum(memoryview(buffer).nbytes for buffer in buffers)
        self._report_move(region, move, "installed", bytes=size)

    def _discard(self, move: int, region: str) -> None:
        """The movement is called off: what came of it goes, what comes yet is not taken."""
        self._arrived.pop(move, None)
        self._refuse(move)
        name, units, done = self._installed.pop(move, (region, [], []))
        self._undo(name, done)
        if self.keeper is not None:
            self.keeper.gone(name, units)
        self._report_move(region, move, "discarded")

    def _undo(self, region: str, done: list[tuple[str, int]]) -> None:
        """Take out again what was installed, and throw it away."""
        known = self._regions.get(region)
        for evaluation, unit in done:
            if known is None or evaluation not in known.copies:
                continue
            with suppress(BaseException):  # the user's code; the source has a copy
                known.copies[evaluation].extract(unit)
            known.mark_away(evaluation, unit)

    def _restore(self, move: int, region: str) -> None:
        leaving = self._left(move)
        if leaving is None or self._put_back(leaving, move):
            self._report_move(region, move, "restored")

    def _abandon(self, moves: list[int]) -> None:
        """All state these movements were about is gone: forget them, and do not take what comes of them yet."""
        for move in moves:
            self._left(move)
            for kept in (self._markers, self._arrived, self._installed):
                kept.pop(move, None)
            self._refuse(move)

    def _refuse(self, move: int) -> None:
        """Do not take what comes of a movement from now on."""
        self._discarded[move] = None
        while len(self._discarded) > FORGOTTEN:
            del self._discarded[next(iter(self._discarded))]

    def _forget(self, region: str, evaluation: str) -> None:
        self._forgotten[region, evaluation] = None
        while len(self._forgotten) > FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]
        if self.keeper is not None:
            self.keeper.forget(region, evaluation)
        self._drop(region, evaluation)

    def _drop(self, region: str, evaluation: str) -> None:
        """Let go of an evaluation's state."""
        known = self._regions.get(region)
        if known is not None:
            let_go(known.copies.pop(evaluation, None))
            known.away.pop(evaluation, None)
            if not known.copies and not known.feeders:
                del self._regions[region]

    def _report_move(self, region: str, move: int, outcome: str, reason: str = "", bytes: int = 0) -> None:
        self._tell(
            {"type": "move", "region": region, "move": move, "outcome": outcome, "reason": reason, "bytes": bytes}
        )

    # -- statistics

    def report(self, now: float, waited_s: float) -> None:
        """Tell the controller what was done for each operator that is fed now."""
        for name, known in self._regions.items():
            if known.feeders and now - known.reported >= REPORT_S:
                self._send_report(name, known, now, waited_s)

    def _send_report(self, name: str, known: _Region, now: float, waited_s: float) -> None:
        counts = np.bincount(np.concatenate(known.seen)) if known.seen else np.zeros(0, np.int64)
        units = np.flatnonzero(counts).astype(np.int32)
        known.active[units] = True
        sized = units[:0]
        if now - known.measured >= SIZES_S or not known.feeders:
            known.active[list(known.arrived)] = True
            known.arrived.clear()
            for gone in known.away.values():
                known.active[gone] = False
            sized = np.flatnonzero(known.active)[:SIZED].astype(np.int32)
            known.active[sized] = False
            known.measured = now
        pool = self._copies.pool
        self._tell(
            {
                "type": "consumed",
                "region": name,
                "seconds": now - known.reported,
                "idle_s": waited_s - known.waited_s,
                "busy_s": known.busy_s,
                "rows": known.rows,
                "bytes": known.bytes,
                "units": units,
                "unit_rows": counts[units],
                "memory": pool.budget or 0 if pool is not None else 0,
                "resident": pool.held if pool is not None else 0,
                "spilled": sum(state.spilled_bytes for state in self._paged()),
                "on_disk": self._on_disk(known),
                "sized": sized,
                "sizes": self._sizes(known, sized),
                "counts": known.newly_counted(),
            }
        )
        known.seen, known.busy_s, known.rows, known.bytes = [], 0.0, 0, 0
        known.reported, known.waited_s = now, waited_s

    def _paged(self) -> list[Paged]:
        return [s for known in self._regions.values() for s in known.copies.values() if isinstance(s, Paged)]

    def _on_disk(self, known: _Region) -> Units:
        """The units of a region whose state is on disk."""
        away = np.zeros(known.units, np.bool_)
        for state in known.copies.values():
            if isinstance(state, Paged):
                away |= ~state.resident
        return np.flatnonzero(away).astype(np.int32)

    def close(self) -> None:
        """Let go of all state."""
        for state in self._paged():
            state.close()

    def _sizes(self, known: _Region, units: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        sizes = np.zeros(len(units), np.int64)
        for copy in known.copies.values():
            try:
                sizes += copy.sizes(units)
            except BaseException:  # the user's code: a size that cannot be told must not end a worker full of state
                return np.zeros(len(units), np.int64)
        return sizes


def _subtract(away: dict[str, npt.NDArray[np.bool_]], units: list[int]) -> None:
    for gone in away.values():
        gone[units] = False
