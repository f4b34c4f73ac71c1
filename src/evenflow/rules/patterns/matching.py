"""Sequence patterns: for each key, the rows that come one after the other as a pattern says (Esper's patterns).

    every a=Tick(price > 100) -> b=Tick(symbol = a.symbol and price < a.price) where timer:within(10 sec)

An atom `tag=Stream(filter)` waits for a row that passes the filter; it takes the first and is done. Filters read the
row, and the tags to the left of a `->`. A pattern is true whenever it has matched, and at some time it ends.

| operator | is true | ends |
|---|---|---|
| `p -> q` | when q is; a q begins after each match of p | when p and all q have ended |
| `p and q` | when both have been, for each combination | when both have ended |
| `p or q` | when one of them is | when one of them ends |
| `p and not q` | when p is, if q has not been since they began | when p ends, or (failed) when q is true |
| `[n] p` | when p has been n times, one after the other | then |
| `[n:m] p` | after each number of times from n to m | after m times |
| `every p` | when p is; when p ends, or fails, it begins anew | never |
| `p where timer:within(t)` | when p is | when p ends, or (failed) t after it began |

An operator whose operands have failed so that it can never be true fails too, and ends. A key's pattern begins with the
key's first row; without `every` it matches once and is over, or fails and is over. `every` binds to what is next to it:

    every (a -> b)    A1 A2 B1 A3 B2    a, then b, then anew:         (A1, B1) (A3, B2)
    every a -> b      A1 A2 B1 A3 B2    each a waits for its own b:   (A1, B1) (A2, B1) (A3, B2)
    a -> every b      A1 A2 B1 A3 B2    each b after the first a:     (A1, B1) (A1, B2)

Tightest first: `where timer:within`, which belongs to the atom or parenthesis before it; `every`, `not`, `[n]`; `and`;
`or`; `->`. So the time in the example at the top is that between a and b: it counts from when what it belongs to begins
to wait, which is when a has come. A chain of `and` is one operator: in `b and not c and d`, no c until both have come.

Which rows. All depends on the key's own rows only, in the order in which they come: those that pass, for one atom at
least, the part of its filter that reads no other tag. A row that comes is offered to all atoms that wait, from left to
right as they stand in the pattern, and may be taken by many; what begins by that sees the next row only. A row whose
time is earlier than that of a row it would follow is passed over. A row's time is the present: first of all, every
`within` fails that is over by then. With `lateness`, it fails so much later, as rows of its time may still come; rows
at or after its end are passed over all the same.

Tags. The row of a repeated tag is the last one, `tag[0]` is the first. A tag that no row was taken for (as in `or`) is
null in all columns.

Not allowed: `not` other than beside something in `and`; `every` in `every` or in a repetition; `[n:m]` in a repetition;
one tag twice. Unlike in Esper, `not every q` is the same as `not q`, and `[n:m]` needs no `until`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.keyed import Keys, Origin, Units
from evenflow.rules.expressions.code import Name
from evenflow.rules.expressions.functions import Function
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Text
from evenflow.rules.patterns.plan import Physical, Plan, plan
from evenflow.rules.patterns.rows import Kept
from evenflow.rules.patterns.runs import Run, Setting, TooManyWaiting
from evenflow.rules.patterns.states import Env
from evenflow.rules.patterns.waiting import EARLIEST, LATEST, Frame, Longs, Waiting

RUN_BYTES, LEAF_BYTES, ENDED_BYTES = 1500, 700, 100
"""Memory that the pattern of a key takes, each atom that waits, and the knowledge that a key's pattern has ended."""
NEVER: Any = object()
NONE = np.empty(0, np.int64)


class Patterns:
    """The state of one pattern rule: the matches under way, by unit and key.

    `streams` are the columns of each stream; `keep` the tags and columns that matches are wanted with. `physical` gives
    the name of a stream's column among the columns of the rows, which are those of all streams. At most `most` matches
    of a key may be under way: atoms that wait, and what `and` keeps; one more is an error.
    """

    def __init__(
        self,
        pattern: s.Pattern,
        streams: Mapping[str, pa.Schema],
        keep: Sequence[Name],
        *,
        text: Text | None = None,
        functions: Mapping[str, Function] | None = None,
        physical: Physical = lambda stream, column: column,
        lateness: int = 0,
        most: int = 10_000,
    ) -> None:
        text = text or Text("")
        self.plan = plan(pattern, streams, text, functions, physical)
        self._streams, self._keep, self._physical = list(streams), list(keep), physical
        for tag, column in keep:
            if tag not in self.plan.sources or column not in self.plan.sources[tag].names:
                raise InvalidArgument(f"{text.title} keeps {tag}.{column}: the pattern has no such tag or column")
        kept = Kept(self._columns(streams))
        root = self.plan.root
        begin: Env = (-1,) * len(set(self.plan.places.values())), EARLIEST
        self._setting = Setting(text.title, root, begin, Waiting(self.plan, kept), most, lateness)
        self._kept = kept
        self._begins = sorted({atom.index for atom in root.begins()}) if not root.rooted() else None
        self._units: dict[int, dict[int, Run | None]] = {}  # None: the pattern has ended
        self._weights: dict[int, int] = {}
        self._alarms: dict[int, list[tuple[int, int]]] = {}  # (deadline, key), once time has passed in a unit

    @property
    def reads(self) -> set[Name]:
        """The streams and their columns that rows must come with."""
        own = {(each.stream, column) for each in self.plan.filters for column in each.columns}
        return own | {(self.plan.streams[tag], column) for tag, column in self._tagged()}

    @property
    def schema(self) -> pa.Schema:
        """The columns of matches: `tag.column`, as `keep` names them."""
        sources = self.plan.sources
        return pa.schema([pa.field(f"{tag}.{column}", sources[tag].field(column).type) for tag, column in self._keep])

    def warm_up(self, rows: pa.Schema) -> None:
        """Call all code once, without rows."""
        batch = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in rows], schema=rows)
        self.push(batch, NONE.astype(np.int32), NONE, NONE)
        masks = [np.empty(0, np.bool_) for _ in self.plan.filters]
        self._setting.waiting.rehearse(Frame(batch, NONE, NONE, NONE, masks))

    def push(
        self,
        rows: pa.RecordBatch,
        units: Units,
        keys: Keys,
        times: Longs,
        streams: npt.NDArray[np.integer] | None = None,
    ) -> tuple[pa.RecordBatch, Origin]:
        """Take rows in; the matches, and for each the place of the row that completed it, not falling.

        `times` are microseconds. `streams` tells each row's stream, as its number among those given; none if all rows
        are of the first.
        """
        masks = self._masks(rows, streams)
        matches = self._setting.matches
        matches.clear()
        self._kept.begin(rows)
        chosen = np.flatnonzero(np.logical_or.reduce(masks))
        runs = self._run(_frame(rows, units, keys, times, masks, chosen), units, keys) if len(chosen) else []
        matches.sort(key=_origin)
        found = np.array([ids for _, ids in matches], np.int64).reshape(len(matches), len(self._setting.begin[0]))
        columns = [
            self._kept.column(self._physical(self.plan.streams[tag], column), found[:, self.plan.places[tag]])
            for tag, column in self._keep
        ]
        self._leave(runs)
        origin = np.array([row for row, _ in matches], np.int64)
        if not columns:  # rows all the same
            return pa.RecordBatch.from_arrays([pa.nulls(len(origin))], ["none"]).select([]), origin
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), origin

    def _masks(self, rows: pa.RecordBatch, streams: npt.NDArray[np.integer] | None) -> list[npt.NDArray[np.bool_]]:
        if streams is None:
            return [
                each.passing(rows) if each.stream == self._streams[0] else np.zeros(rows.num_rows, np.bool_)
                for each in self.plan.filters
            ]
        places = {name: np.flatnonzero(streams == number) for number, name in enumerate(self._streams)}
        return [each.passing(rows, places[each.stream]) for each in self.plan.filters]

    def _run(self, frame: Frame, units: Units, keys: Keys) -> list[Run]:
        """Let all happen that the frame brings about; the runs of the keys that are in it."""
        waiting = self._setting.waiting
        runs, parts = self._enter(frame, units, keys)
        handles = [np.fromiter(run.leaves, np.int64, len(run.leaves)) for run in parts]
        counts = [len(each) for each in handles]
        first = np.repeat([run.seen for run in parts], counts)
        end = np.repeat([run.end for run in parts], counts)
        looking = waiting.enter(frame, np.concatenate([NONE, *handles]), first, end)
        active = runs
        while active:
            for handle in waiting.look(frame, looking).tolist():
                waiting.run(handle).open.add(handle)
            active = [run for run in active if run.step()]
            new = [(handle, place, run.end) for run in active for handle, place in run.new.items()]
            begun, first, end = np.array(new, np.int64).reshape(-1, 3).T
            opened = np.fromiter(chain.from_iterable(run.open for run in active), np.int64)
            looking = np.concatenate([opened, waiting.enter(frame, begun, first, end)])
            for run in active:
                run.new.clear()
                run.open.clear()
        return runs

    def _enter(self, frame: Frame, units: Units, keys: Keys) -> tuple[list[Run], list[Run]]:
        """The runs of the frame's keys, and those of them that were there before."""
        heads = frame.heads
        ends = np.append(heads[1:], len(frame.rows))
        begins = heads
        if self._begins is not None:
            later = np.full(len(frame.rows), len(frame.rows))
            for atom in self._begins:
                later[frame.places[atom]] = frame.places[atom]
            begins = np.minimum.reduceat(later, heads)
        latest = np.maximum.reduceat(frame.times, heads)
        rows = frame.rows[heads]
        runs, known = [], []
        columns = (heads, ends, begins, latest, units[rows], keys[rows])
        for head, end, begin, late, unit, key in zip(*(column.tolist() for column in columns), strict=True):
            of_unit = self._units.get(unit)
            run = NEVER if of_unit is None else of_unit.get(key, NEVER)
            if run is NEVER:
                if begin >= end:
                    continue
                run = self._units.setdefault(unit, {})[key] = Run(self._setting, unit, key)
                run.enter(frame, begin, end, late)
                run.start()
            elif run is None:
                continue
            else:
                run.enter(frame, head, end, late)
                known.append(run)
            runs.append(run)
        return runs, known

    def pass_time(self, units: Units, now: int) -> None:
        """No row with a time before `now` comes any more: what has waited for too long waits no longer."""
        for unit in units.tolist():
            known = self._units.get(unit)
            if known is None:
                self._alarms.pop(unit, None)
                continue
            alarms = self._alarms.get(unit)
            if alarms is None:
                alarms = self._alarms[unit] = []
                for run in known.values():
                    if run is not None:
                        self._set_alarm(run)
            each_row = self._kept.nbytes + LEAF_BYTES if alarms and alarms[0][0] <= now else 0
            while alarms and alarms[0][0] <= now:
                run = known.get(heappop(alarms)[1])
                if run is not None:
                    run.alarm = LATEST
                    if self._weigh(run, run.lapse(now), each_row) and run.deadline() > now:  # else a row is waited for
                        self._set_alarm(run)

    def _leave(self, runs: list[Run]) -> None:
        """The frame is done: forget the keys that are as if nothing had come, and keep the rows that others need."""
        taken: list[int] = []
        each_row = self._kept.nbytes + LEAF_BYTES
        for run in runs:
            if self._weigh(run, run.fresh(), each_row):
                taken += run.taken
                self._set_alarm(run)
            run.exit()
        self._kept.end(taken, self._needed)

    def _weigh(self, run: Run, fresh: bool, each_row: int) -> bool:
        """Note what memory a run takes, and forget one that is as if nothing had come; whether it goes on."""
        weight = 0
        if run.child is None:
            self._units[run.unit][run.key] = None
            weight = ENDED_BYTES
        elif fresh:
            run.quit(run)
            self._drop(run.unit, run.key)
        else:
            weight = RUN_BYTES + each_row * (len(run.leaves) + run.stored)
        self._weights[run.unit] = self._weights.get(run.unit, 0) + weight - run.weight
        run.weight = weight
        return run.child is not None and not fresh

    def _set_alarm(self, run: Run) -> None:
        """Look at a run when its next timer ends, if time passes in its unit."""
        alarms = self._alarms.get(run.unit)
        if alarms is not None and run.deadline() < run.alarm:
            run.alarm = run.deadline()
            heappush(alarms, (run.alarm, run.key))

    def _drop(self, unit: int, key: int) -> None:
        known = self._units[unit]
        del known[key]
        if not known:
            del self._units[unit]

    def extract(self, unit: int) -> Any:
        """Take a unit's state out; None if there is none."""
        state = self.snapshot(unit)
        for run in self._units.pop(unit, {}).values():
            if run is not None:
                run.quit(run)
        self._weights.pop(unit, None)
        self._alarms.pop(unit, None)
        return state

    def snapshot(self, unit: int) -> Any:
        """A unit's state as `extract` gives it."""
        if unit not in self._units:
            return None
        numbers: dict[int, int] = {-1: -1}

        def hold(env: Env) -> Env:
            return tuple([numbers.setdefault(number, len(numbers) - 1) for number in env[0]]), env[1]

        runs = {key: None if run is None else run.freeze(hold) for key, run in self._units[unit].items()}
        return {"runs": runs, "rows": self._kept.rows(list(numbers)[1:]), "count": len(numbers) - 1}

    def install(self, unit: int, state: Any) -> None:
        """Put in what another copy's `extract` gave for this unit."""
        if unit in self._units:
            raise InvalidArgument(f"unit {unit} is installed but has matches under way here: extract it first")
        base = self._kept.add(state["rows"], state["count"])

        def hold(env: Env) -> Env:
            return tuple([number if number < 0 else base + number for number in env[0]]), env[1]

        known = self._units[unit] = dict.fromkeys(state["runs"])
        each_row = self._kept.nbytes + LEAF_BYTES
        self._weights[unit] = 0
        for key, frozen in state["runs"].items():
            weight = ENDED_BYTES
            if frozen is not None:
                run = known[key] = Run(self._setting, unit, key)
                run.thaw(frozen, hold)
                run.weight = weight = RUN_BYTES + each_row * (len(run.leaves) + run.stored)
            self._weights[unit] += weight

    def sizes(self, units: Units) -> Longs:
        """Bytes of state of each unit, roughly."""
        return np.array([self._weights.get(unit, 0) for unit in units.tolist()], np.int64)

    def _tagged(self) -> list[Name]:
        """The tags and columns that must be kept of the rows taken."""
        names = [*self._keep, *chain.from_iterable(each.reads for each in self.plan.filters)]
        return list(dict.fromkeys(names))

    def _columns(self, streams: Mapping[str, pa.Schema]) -> pa.Schema:
        columns = {}
        for tag, column in self._tagged():
            stream = self.plan.streams[tag]
            columns[self._physical(stream, column)] = streams[stream].field(column).type
        return pa.schema(list(columns.items()))

    def _needed(self) -> set[int]:
        """The numbers of all rows that matches under way are made of."""
        needed: set[int] = set()

        def hold(env: Env) -> Env:
            needed.update(env[0])
            return env

        for run in chain.from_iterable(known.values() for known in self._units.values()):
            if run is not None:
                run.freeze(hold)
        return needed


def _frame(
    rows: pa.RecordBatch, units: Units, keys: Keys, times: Longs, masks: list[npt.NDArray[np.bool_]], chosen: Longs
) -> Frame:
    """The chosen rows, sorted by key."""
    order = chosen[np.argsort(keys[chosen], kind="stable")]
    other_key, other_unit = (np.diff(each[order]) != 0 for each in (keys, units))
    if (other_unit & ~other_key).any():  # a key in two units
        order = chosen[np.lexsort((keys[chosen], units[chosen]))]
        other_key, other_unit = (np.diff(each[order]) != 0 for each in (keys, units))
    heads = np.append(0, np.flatnonzero(other_key | other_unit) + 1)
    return Frame(rows, order, times[order], heads, [mask[order] for mask in masks])


def _origin(match: tuple[int, Any]) -> int:
    return match[0]


__all__ = ["Patterns", "Plan", "TooManyWaiting", "plan"]
