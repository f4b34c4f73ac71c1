"""The engine is broken on purpose, in one place after the other: the invariants of the simulated worlds notice.

So the histories of tests/property (keyed operators, graphs, what is stored) can fail. A break that shows late begins at
a history that shows it; `history(seed)` runs a history again.
"""

import numpy as np
import pytest
from tests.support import graph_bound, graph_durable
from tests.support.durable_invariants import history as durable_history
from tests.support.durable_plan import COPIES, LOSSES, RENAMES, DurablePlan
from tests.support.graph_invariants import check
from tests.support.graph_plans import chain
from tests.support.graph_world import GraphWorld
from tests.support.keyed_actors import Trouble
from tests.support.keyed_invariants import history as keyed_history
from tests.support.keyed_plan import Plan

from evenflow.control.batches.attempts import Attempt
from evenflow.control.batches.epochs import Epochs
from evenflow.control.batches.history import History
from evenflow.control.graphs.region import GraphRegion
from evenflow.control.moves.move_queue import MoveQueue
from evenflow.model.checkpoint import BatchLog
from evenflow.model.messages import RestoreUnits
from evenflow.runtime.driver import checkpoint as checkpoint_thread
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.manifests import ManifestWriter
from evenflow.runtime.driver.operator_names import OperatorNames
from evenflow.runtime.feeder.keyed.skew import SkewBuffer
from evenflow.runtime.worker.events import SendUnitsInstruction, TakeOutUnitsInstruction
from evenflow.runtime.worker.graphs import routings
from evenflow.runtime.worker.graphs.passage import Passage
from evenflow.runtime.worker.graphs.queue import Gate, RowQueue
from evenflow.runtime.worker.moves.movements import Leaving, LocalMovements
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.runtime.worker.saving.loader import Loader
from evenflow.runtime.worker.saving.query_log import QueryLog
from evenflow.runtime.worker.saving.repeats import LoggedRows
from evenflow.state.checkpoint import chain as checkpoint_chain

HANDLE, LEAVING, SAVE = LocalMovements.handle, Leaving.__init__, QueryLog.save
APPEND, RELEASE = RowQueue.append, routings.Routings._release


def constant(value):
    """A function that gives a value, whatever it is called with."""
    return lambda *_: value


# -- keyed operators


def _keeps(self, event):
    told = HANDLE(self, event)
    sent = [each for each in told if isinstance(each, SendUnitsInstruction)]
    return told + [more for each in sent for more in HANDLE(self, RestoreUnits(each.move, "r0"))]


def _hasty(self, *args, **kwargs):
    LEAVING(self, *args, **kwargs)
    self.waiting = set()


KEYED = {
    "the source keeps what it sends": [(LocalMovements, "handle", _keeps)],
    "markers are not waited for": [(Leaving, "__init__", _hasty)],
    "rows of a paused unit go out": [(SkewBuffer, "pause", lambda *_: set()), (SkewBuffer, "release", constant(None))],
}


@pytest.mark.parametrize("what", KEYED)
def test_keyed_operators(what, monkeypatch):
    for broken in KEYED[what]:
        monkeypatch.setattr(*broken)
    with pytest.raises((AssertionError, Trouble)):
        _run(keyed_history, range(30), Plan(moving=0.3, asks=0.05))


def _run(history, seeds, *plan):
    for seed in seeds:
        history(seed, *plan)


# -- graphs


def _unflushed(self, event):
    told = HANDLE(self, event)
    return [
        TakeOutUnitsInstruction(self.leaving[each.move].order) if type(each).__name__ == "FlushInstruction" else each
        for each in told
    ]


def _gate_first(self, each):
    APPEND(self, each)
    if isinstance(each, Gate):
        self._waiting.rotate(1)


def _left_last(self, frames):
    for frame in frames:
        APPEND(self, frame)


def _released(self, known, order):
    outgoing = RELEASE(self, known, order)
    if known.ways is not None:
        known.ways.release(order.move, order.worker)
    return outgoing


GRAPHS = {
    "a movement does not flush": (LocalMovements, "handle", _unflushed, 0),
    "rows of units that move are not held": (routings.Routings, "_pause", constant([]), 0),
    "neighbours move together": (MoveQueue, "_split", lambda _self, units, _sizes: iter([tuple(units)]), 0),
    "neighbours move at once": (MoveQueue, "_has_to_wait", constant(False), 0),
    "nobody is told of new owners": (GraphRegion, "_route", lambda _self: iter(()), 0),
    "units that came do not wait for what came before them": (RowQueue, "append", _gate_first, 96),
    "what is left of a frame comes last": (RowQueue, "put_first", _left_last, 0),
    "rows given here do not wait for those that came with units": (routings.Routings, "_release", _released, 43),
}
"""With the first history that shows it."""


@pytest.mark.parametrize("what", GRAPHS)
def test_graphs(what, monkeypatch):
    """A hundred histories with much under way, behind each other and beside each other."""
    *broken, first = GRAPHS[what]
    monkeypatch.setattr(*broken)
    with pytest.raises((AssertionError, Trouble)):
        _run(_chains, range(first, first + 100), Plan(workers=2, jobs=4, moving=1.0, asks=0.2, rows=40))


def _chains(seed, plan):
    for kinds in (("keep", "collect", "mark"), ("keep", "collect", "mark", "collect", "mark")):
        with GraphWorld(seed, plan, chain(*kinds)) as world:
            world.windows, world.pulls = ((1000, 100_000),), (0.0,)
            world.run()
            check(world)


# -- what is stored


def _unacknowledged(self):
    """All that wait are told at once that their rows are durable."""
    done, self._waiting = self._waiting, []
    return [each.who for each in done]


def _choose_last(self, _wanted=None):
    last = self.attempts[-1] if self.attempts else None
    if last is not None and last.begun:
        self._history.append(BatchLog(self.epoch, last.number, last.segments, tuple(sorted(last.begun))))
        self.settled = True
    return ""


def _all_that_has_begun(self):
    """As if no more were to come."""
    return not self.poisoned and self.begun.keys() <= self.through.keys()


def _touched_alone(self, _move, units, touched):
    self.touched.put(units, touched)


def _away_too(self, operator, epoch, away=None):
    return SAVE(self, operator, epoch)


def _clean_all(self, manifest, *_):
    self._store.delete(manifest.blobs())


GONE_BY_STORE = {"moving": 1.0, "asks": 0.1, "transfer": "store", "hasty": 0.0}
DURABLE = {
    "units that have left are saved": ((QueryLog, "save", _away_too), {}, 20),
    "durable before it is": ((QueryLog, "acknowledged", _unacknowledged), {}, 20),
    "rows after the snapshot are not replayed": ((Loader, "_replay", constant(None)), {}, 20),
    "tenures are not noted": ((QueryLog, "arrived", _touched_alone), {}, 20),
    "logs are dropped that are needed": ((History, "_needed", lambda self, _: self._newest > 1 << 30), {}, 20),
    "what is in memory is always good": ((Epochs, "current", property(constant(True))), {}, 20),
    "the last attempt counts, whole or not": ((Epochs, "_choose", _choose_last), {}, 20),
    "an attempt is whole when what it began is": ((Attempt, "complete", property(_all_that_has_begun)), {}, 20),
    "movements share a blob": ((StoreTransfer, "_name", lambda _self, region, _move: f"{region}/moves"), {}, 20),
    "what a manifest needs is deleted": ((ManifestWriter, "_clean", _clean_all), {}, 20),
    "movements are left in the store": ((StoreTransfer, "_delete", constant(None)), GONE_BY_STORE, 1),
    "what is named is not looked for": ((checkpoint_chain, "_missing", constant(())), LOSSES, 30),
    "what has begun is not missed": ((checkpoint_thread, "unfinished", constant("")), LOSSES, 30),
    "an older copy is not noticed": ((CheckpointThread, "_apart", constant("")), COPIES, 6),
    "a name leaves state behind": ((OperatorNames, "vanished", constant("")), RENAMES, 6),
    "a new name begins with empty state": ((OperatorNames, "adopted", constant("")), RENAMES, 6),
}
"""With the plan of the histories, and how many of them are tried."""


@pytest.mark.parametrize("what", DURABLE)
def test_what_is_stored(what, monkeypatch):
    broken, plan, count = DURABLE[what]
    monkeypatch.setattr(*broken)
    if broken[1] == "adopted":
        monkeypatch.setattr(OperatorNames, "vanished", constant(""))
    with pytest.raises(AssertionError):
        _run(durable_history, range(count), *([DurablePlan(**plan)] if plan else []))


# -- graphs that are stored


def _in_order_of_arrival(self, units):
    """The rows of the log as they lie there, whichever units come."""
    self._left -= len(units)
    begin = len(self._by_unit) - self._left - len(units)
    return list(self._spool.rows(np.arange(begin, begin + len(units))))


UNBOUND = {
    "later attempts are evaluated afresh": (Attempt, "repeatable", property(constant(False), constant(None))),
    "rows are given again in the order of arrival": (LoggedRows, "logged", _in_order_of_arrival),
}


@pytest.mark.parametrize("what", UNBOUND)
def test_what_sinks_keep_of_graphs(what, monkeypatch):
    """Break what binds results to the attempt that counts."""
    monkeypatch.setattr(*UNBOUND[what])
    plan = {"faults": ("driver", "kill-worker"), "partitions": 3, "jobs": 1, "again": 0.9, "asks": 0.05, "rows": 12}
    with pytest.raises(AssertionError, match=r"whole evaluations of batch|the manifest of batch"):
        _run(graph_bound.history, range(8), DurablePlan(**plan))


STORED_GRAPHS = {
    "rows are not logged": (Passage, "_log", constant(None), 0),
    "rows after the snapshot are not replayed": (Loader, "_replay", constant(None), 0),
    "tenures are not noted": (QueryLog, "arrived", _touched_alone, 6),
    "what is in memory is always good": (Epochs, "current", property(constant(True)), 0),
}
"""With the first history that shows it."""


@pytest.mark.parametrize("what", STORED_GRAPHS)
def test_graphs_that_are_stored(what, monkeypatch):
    *broken, first = STORED_GRAPHS[what]
    monkeypatch.setattr(*broken)
    plan = DurablePlan(faults=("kill-worker", "driver"), moving=1.0, asks=0.1, jobs=1, again=0.5)
    with pytest.raises(AssertionError):
        _run(graph_durable.history, range(first, first + 20), plan)
