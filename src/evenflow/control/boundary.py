"""The boundary around each region: an error while one region is served closes that region, and no other.

Handlers of a region run inside `Boundary.serve`. If one raises, the region may be in any state, so it is closed: its
tasks are told the error, workers drop its state, and the event log has a `region-failed`. Other regions do not notice.
A query can use an operator of that name again: `Cluster.keyed` opens the region anew, with the state in the store if
there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from evenflow.control.events import CancelInstruction, Instruction, SendInstruction
from evenflow.control.feeders import Feeders
from evenflow.control.regions.keyed import KeyedRegion
from evenflow.control.regions.region import Region
from evenflow.control.workers import WorkerLife
from evenflow.errors import ProtocolError, described
from evenflow.model.entries import ControllerErrorEntry, RegionFailedEntry
from evenflow.model.messages import AbandonMoves, DropState, EvaluationLost, FeederRefused, ForgetEvaluation

R = TypeVar("R", bound=Region)
REMEMBERED = 1000
"""The most failed regions whose errors are remembered."""


class Boundary:
    """Serves regions one at a time, and closes those that fail."""

    def __init__(
        self,
        regions: dict[str, Region],
        feeders: Feeders,
        live: Callable[[], Mapping[int, WorkerLife]],
        forget: Callable[[str], None],
    ) -> None:
        self._regions, self._feeders, self._live, self._forget = regions, feeders, live, forget

    def serve(self, time: float, name: str, act: Callable[[], Iterable[Instruction]]) -> list[Instruction]:
        """The instructions of `act`, which serves one region; if it fails, also the instructions that close the region.

        A `ProtocolError` is the fault of whoever sent the message, and is passed on.
        """
        told: list[Instruction] = []
        try:
            for instruction in act():
                told.append(instruction)  # what came before an error is kept
        except ProtocolError:
            raise
        except Exception as error:
            told += self.close(time, name, described(error))
        return told

    def one(self, time: float, region: R | None, act: Callable[[R], Iterable[Instruction]]) -> Iterable[Instruction]:
        """Serve a region, if there is one."""
        return self.serve(time, region.name, partial(act, region)) if region is not None else ()

    def each(self, time: float, act: Callable[[Region], Iterable[Instruction]]) -> Iterator[Instruction]:
        """Serve all regions, one after the other."""
        for region in list(self._regions.values()):
            yield from self.one(time, region, act)

    def each_with_units(self, time: float, act: Callable[[Region], Iterable[Instruction]]) -> Iterator[Instruction]:
        """Serve all regions whose workers keep state; there may be many others."""
        for region in [each for each in self._regions.values() if each.units]:
            yield from self.one(time, region, act)

    def close(self, time: float, name: str, error: str) -> Iterator[Instruction]:
        """Close a region because of an error. The region's own methods cannot be relied on any more."""
        region = self._regions.pop(name, None)
        why = (
            f"the controller could not go on with it ({error}), and has closed it: make the DataFrame anew, and start "
            "the query again"
        )
        self._feeders.failed[name] = why
        for old in list(self._feeders.failed)[:-REMEMBERED]:
            del self._feeders.failed[old]
        self._forget(name)
        yield RegionFailedEntry(time=time, region=name, error=error)
        keyed = isinstance(region, KeyedRegion)
        for feeder in self._feeders.dismiss(name):
            yield SendInstruction(feeder.peer, EvaluationLost(why) if keyed else FeederRefused(why))
            if feeder.stage:  # a retry would fail as well, and hide the error
                yield CancelInstruction(feeder.own_stage or feeder.stage, f"region {name}: {why}")
        if isinstance(region, KeyedRegion):
            yield from self._cleaned(time, region)

    def _cleaned(self, time: float, region: KeyedRegion) -> Iterator[Instruction]:
        """Have workers drop the state of a region and forget its movements, as far as the region still knows them."""
        try:
            moves, evaluations = tuple(region.movements.under_way), region.evaluations
            stored = {evaluation: evaluation in evaluations.stored for evaluation in evaluations.ids}
        except Exception as error:  # it is broken as it is: everybody else's instructions must not be lost with it
            what = f"drop the state of region {region.name}, which workers keep"
            yield ControllerErrorEntry(time=time, on=what, error=described(error))
            return
        for life in self._live().values():
            if moves:
                yield SendInstruction(life.peer, AbandonMoves(region.name, moves))
            for evaluation, kept in stored.items():  # a query whose state is stored may come again
                yield SendInstruction(life.peer, (DropState if kept else ForgetEvaluation)(region.name, evaluation))
