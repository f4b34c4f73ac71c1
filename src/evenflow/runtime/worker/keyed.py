"""The host: what a worker does with the rows of keyed operators, and with the evaluations these are of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.model.messages import DropState, EvaluationOrder, ForgetEvaluation, LoadState, SaveAgain
from evenflow.operators.hosted import Hosted, units_of
from evenflow.runtime.worker.checkpointer import Checkpointer, Tell
from evenflow.runtime.worker.direct_transfer import DirectTransfer
from evenflow.runtime.worker.instances import Answer, Copies, answers, let_go, process
from evenflow.runtime.worker.move_label import Part, remember
from evenflow.runtime.worker.regions import HostedRegions, Region
from evenflow.runtime.worker.store_transfer import StoreTransfer
from evenflow.runtime.worker.unit_moves import Moves
from evenflow.state.paging.paged import Paged

REPORT_S = 0.1
"""Statistics go to the controller this often while feeders are there."""

Stamp = tuple[int, int]
"""A batch, and the attempt at it."""


class KeyedHost:
    """All keyed operators of one worker."""

    def __init__(
        self,
        tell: Tell,
        direct_transfer: DirectTransfer,
        code: Callable[[str], Hosted | None],
        checkpointer: Checkpointer | None = None,
        copies: Copies | None = None,
        give: Callable[[list[Answer]], None] = lambda answers: None,
        store_transfer: StoreTransfer | None = None,
    ) -> None:
        self._tell = tell
        self.checkpointer = checkpointer
        self._regions = HostedRegions(code, copies or Copies(), give)
        self.moves = Moves(tell, direct_transfer, self._regions, checkpointer, store_transfer)

    @property
    def active(self) -> bool:
        """Whether any feeder is here."""
        return any(region.feeders for region in self._regions.values())

    @property
    def operators(self) -> set[str]:
        """The operators in use."""
        return {region.operator for region in self._regions.values()}

    def close(self) -> None:
        """Let go of all state."""
        for region in self._regions.values():
            for state in region.paged:
                state.close()

    # -- feeders

    def open(self, name: str, operator: str, units: int, now: float, waited_s: float) -> None:
        """A feeder is here."""
        self._regions.check_units(operator, units)
        if name not in self._regions:
            self._regions[name] = Region(operator, units)
        region = self._regions[name]
        if region.units != units:
            raise ProtocolError(f"a feeder of region {name} speaks of {units} units, and there are {region.units}")
        if not region.feeders:
            region.reported, region.waited_s = now, waited_s
        region.feeders += 1

    def leave(self, name: str, now: float, waited_s: float) -> None:
        """A feeder is gone; after the last one nobody asks for statistics, so they go out now."""
        region = self._regions.get(name)
        if region is not None and region.feeders:
            region.feeders -= 1
            if not region.feeders:
                self._send_report(name, region, now, waited_s)
            if not region.feeders and not region.copies:
                del self._regions[name]

    def report(self, now: float, waited_s: float) -> None:
        """Tell the controller what was done for each operator that is fed now."""
        for name, region in self._regions.items():
            if region.feeders and now - region.reported >= REPORT_S:
                self._send_report(name, region, now, waited_s)

    def _send_report(self, name: str, region: Region, now: float, waited_s: float) -> None:
        self._tell(region.news(name, now, waited_s, self._regions.memory()))

    # -- rows

    def process(
        self,
        name: str,
        evaluation: str,
        batch: pa.RecordBatch,
        tag: Any = None,
        stamp: Stamp | None = None,
        body: Part = b"",
    ) -> list[Answer]:
        """Apply the rows of a frame, known by `tag`, to an evaluation's state; the answers there are.

        With a `stamp`, the batch and the attempt they are of, they are noted as they came, in `body`.
        """
        region = self._regions[name]
        hosted = self._regions.hosted(region)
        rows, units, keys = hosted.unpacked(batch)
        if (name, evaluation) in self._regions.forgotten:
            raise ProtocolError(f"rows of region {name} came for {evaluation}, which is over")
        away = region.away.get(evaluation)
        if away is not None and away[units].any():
            raise ProtocolError(f"rows of region {name} came for units that have left this worker")
        copy = self._regions.copy_of(region, evaluation)
        checkpointer = self.checkpointer if stamp is not None else None
        if checkpointer is not None and stamp is not None:
            checkpointer.enter(name, evaluation, region.units, stamp, copy, away)
        found = process(copy, hosted, tag, rows, units, keys)
        if checkpointer is not None:
            checkpointer.log(name, evaluation, body, batch.schema, units)
        region.seen.append(units)
        region.rows += batch.num_rows
        region.bytes += batch.nbytes
        return found

    def served(self, name: str, seconds: float) -> None:
        """So long did the rows just processed take."""
        self._regions[name].busy_s += seconds

    def blame(self, name: str, batch: pa.RecordBatch) -> str:
        """Which row an operator's failure seems to come from."""
        hosted = self._regions.hosted(self._regions[name])
        found = hosted.blame(batch)
        units = np.unique(units_of(batch.column(batch.num_columns - 1), hosted.units))
        if found is None:
            some = f"unit {units[0]}" if len(units) == 1 else f"{len(units)} units, {units[0]} to {units[-1]}"
            return f"rows of {some}; with empty state they do not fail"
        return f"unit {found[0]}, key hash {found[1]}"

    def drain(self, name: str, evaluation: str) -> Iterator[list[Answer]]:
        """Process all rows that wait for state on disk; answers as there are, since all of them may be too many."""
        region = self._regions.get(name)
        state = region.copies.get(evaluation) if region is not None else None
        if region is not None and isinstance(state, Paged):
            yield from (answers(self._regions.hosted(region), done) for done in state.draining())

    def rotate(self, now: float) -> None:
        """Bring back state for which enough rows wait."""
        for name, region in list(self._regions.items()):
            for state in region.paged:
                if state.pending_rows:
                    began = time.perf_counter()
                    self._regions.give(answers(self._regions.hosted(region), state.rotate(now)))
                    self.served(name, time.perf_counter() - began)

    # -- evaluations

    def obey(self, message: EvaluationOrder) -> None:
        """Do what the controller says about the state of an evaluation."""
        name, evaluation = message.region, message.evaluation
        match message:
            case ForgetEvaluation():
                remember(self._regions.forgotten, (name, evaluation))
                if self.checkpointer is not None:
                    self.checkpointer.forget(name, evaluation)
                self._regions.drop(name, evaluation)
            case DropState():
                if self.checkpointer is not None:
                    self.checkpointer.drop(name, evaluation)
                self._regions.drop(name, evaluation)
            case LoadState() if self.checkpointer is not None:
                self._regions.drop(name, evaluation)
                self.checkpointer.load(message)
            case SaveAgain() if self.checkpointer is not None:
                self.checkpointer.unsaved(message)

    def end(self, name: str, evaluation: str, stamp: Stamp, who: Any) -> None:
        """A feeder wants to know when all its rows are durable."""
        assert self.checkpointer is not None
        region = self._regions.get(name)
        copy = region.copies.get(evaluation) if region is not None else None
        if region is not None and copy is not None:
            self.checkpointer.idle(name, evaluation, stamp, copy, region.away.get(evaluation))
        self.checkpointer.end(name, evaluation, stamp, who)

    def collect(self) -> None:
        """Take what has come from other workers and from the store."""
        self.moves.collect()
        for loaded in self.checkpointer.collect(self._regions.code) if self.checkpointer is not None else ():
            order = loaded.order
            assert loaded.copy is not None
            region = self._regions.receiving(order.region, order.operator)
            let_go(region.copies.pop(order.evaluation, None))
            region.copies[order.evaluation] = loaded.copy
