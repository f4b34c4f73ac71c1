"""Sequence patterns as in Esper: for each key, finds rows that follow each other as a pattern says.

    every a=Tick(price > 100) -> b=Tick(symbol = a.symbol and price < a.price) where timer:within(10 sec)

An atom `tag=Stream(filter)` waits for a row that passes the filter; it takes the first one and ends. A filter can read
the row itself and tags to the left of a `->`. A pattern becomes true each time it matches, and at some time it ends.

| operator | is true | ends |
|---|---|---|
| `p -> q` | when q is; a q begins after each match of p | when p and all q have ended |
| `p and q` | when both have been, for each combination | when both have ended |
| `p or q` | when one of them is | when one of them ends |
| `p and not q` | when p is, if q has not been since they began | when p ends, or (failed) when q is true |
| `[n] p` | when p has been n times, one after the other | then |
| `[n:m] p` | after each number of times from n to m | after m times |
| `p until q` | when q is; p has been any number of times by then, one after the other | then |
| `[n:m] p until q` | when q is, or p has been m times | then, or (failed) when q is before p has been n times |
| `every p` | when p is; when p ends or fails, p begins again | never |
| `p where timer:within(t)` | when p is | when p ends, or (failed) t after it began |
| `timer:interval(t)` | t after it began | then |

An operator that can never be true again because operands have failed, fails too, and ends. A key's pattern begins with
the key's first row; without `every` it ends after one match or failure. `every` applies to the operand next to it:

    every (a -> b)    A1 A2 B1 A3 B2    a, then b, then again:        (A1, B1) (A3, B2)
    every a -> b      A1 A2 B1 A3 B2    each a waits for its own b:   (A1, B1) (A2, B1) (A3, B2)
    a -> every b      A1 A2 B1 A3 B2    each b after the first a:     (A1, B1) (A1, B2)

Operators by how tightly they bind, tightest first: `where timer:within`, for the atom or parenthesis before it;
`until`, between two such; `every`, `not`, `[n]`; `and`; `or`; `->`. The time in the example at the top is therefore
that between a and b: a timer starts when its operand begins to wait, which here is when a has come. A chain of `and` is
one operator: in `b and not c and d`, no c may come until both b and d have.

Rows. Only rows of the same key count, in the order in which they come, and only those that pass the local part of some
atom's filter, the part that reads no other tag. Each row is offered to all atoms that wait, in the order of the
pattern's text, and several may take it. An atom that begins to wait because of a row sees only later rows. A row is
skipped if its time is earlier than that of a row it would follow. The time of a row is the present: before the row is
offered, every `within` whose time is over fails. With `lateness` it fails that much later, since earlier rows may still
come; but rows at or after its end are skipped in any case.

Time. `timer:interval` is true at its time, before rows of that time are offered, and what follows begins then. It is
noticed with the next row of the key, whichever that is, or when `on_time` is told so. What fails at a time does so
before an interval ends at the same time. What begins again because a `within` failed, begins with the next row.

Tags. A repeated tag stands for its last row, `tag[0]` for its first. If a tag has no row, as in `or`, all its columns
are null.

Not allowed: `not` other than as an operand of `and`; `every` in `every` or in a repetition; `[n:m]` in a repetition; a
tag twice; `every` or `not` before something that time alone makes true, as `timer:interval` does. Unlike in Esper, `not
every q` is the same as `not q`, and `[n:m]` needs no `until`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.keyed import Keys, Origin, Units
from evenflow.rules.expressions.code import Name
from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Text
from evenflow.rules.patterns.plan import Plan, plan
from evenflow.rules.patterns.rows import KeptRows
from evenflow.rules.patterns.runs import PatternSetting, Run, TooManyWaiting
from evenflow.rules.patterns.states import Env
from evenflow.rules.patterns.unit_runs import UnitRuns
from evenflow.rules.patterns.waiting import EARLIEST, Longs, PatternFrame, WaitingAtoms

NONE = np.empty(0, np.int64)


class Patterns(UnitRuns):
    """Finds the matches of one pattern rule.

    `streams` are the columns of each stream; rows have the columns of all streams. `keep` are the tags and columns that
    matches come with. A key may have at most `most` matches under way (atoms that wait, and matches that `and` keeps);
    one more is an error. `lateness` is in microseconds.
    """

    def __init__(
        self,
        pattern: s.Pattern,
        streams: Mapping[str, pa.Schema],
        keep: Sequence[Name],
        *,
        text: Text | None = None,
        functions: Mapping[str, UserFunction] | None = None,
        lateness: int = 0,
        most: int = 10_000,
    ) -> None:
        text = text or Text("")
        self.plan = plan(pattern, streams, text, functions)
        self._streams, self._keep = list(streams), list(keep)
        for tag, column in keep:
            if tag not in self.plan.sources or column not in self.plan.sources[tag].names:
                raise InvalidArgument(f"{text.title} keeps {tag}.{column}: the pattern has no such tag or column")
        kept = KeptRows(self._columns(streams))
        root = self.plan.root
        begin: Env = (-1,) * len(set(self.plan.places.values())), EARLIEST
        super().__init__(PatternSetting(text.title, root, begin, WaitingAtoms(self.plan, kept), most, lateness))
        self._begins = sorted({atom.index for atom in root.begins()}) if not root.rooted() else None

    @property
    def reads(self) -> set[Name]:
        """The columns, with their streams, that rows must have."""
        own = {(each.stream, column) for each in self.plan.filters for column in each.columns}
        return own | {(self.plan.streams[tag], column) for tag, column in self._tagged()}

    @property
    def schema(self) -> pa.Schema:
        """The columns of matches, called `tag.column`, in the order of `keep`."""
        sources = self.plan.sources
        return pa.schema([pa.field(f"{tag}.{column}", sources[tag].field(column).type) for tag, column in self._keep])

    def warm_up(self, rows: pa.Schema) -> None:
        """Compile all code by calling it with no rows."""
        batch = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in rows], schema=rows)
        self.push(batch, NONE.astype(np.int32), NONE, NONE)
        masks = [np.empty(0, np.bool_) for _ in self.plan.filters]
        self._setting.waiting.rehearse(PatternFrame(batch, NONE, NONE, NONE, masks))

    def push(
        self,
        rows: pa.RecordBatch,
        units: Units,
        keys: Keys,
        times: Longs,
        streams: npt.NDArray[np.integer] | None = None,
    ) -> tuple[pa.RecordBatch, Origin]:
        """The matches that rows complete, and for each match the place of its last row, in rising order.

        `times` are in microseconds. `streams` are the numbers of the rows' streams, in the order in which these were
        given; None if all rows are of the first.
        """
        masks = self._masks(rows, streams)
        matches = self._setting.matches
        matches.clear()
        self._kept.begin(rows)
        chosen = np.arange(rows.num_rows) if self.plan.waits else np.flatnonzero(np.logical_or.reduce(masks))
        runs = self._run(_frame(rows, units, keys, times, masks, chosen), units, keys) if len(chosen) else []
        matches.sort(key=itemgetter(0))  # stable: matches that one row completes keep their order
        found = self._matched([ids for _, ids in matches])
        self._leave(runs)
        return found, np.array([row for row, _ in matches], np.int64)

    def on_time(self, units: Units, now: int) -> tuple[pa.RecordBatch, Longs]:
        """The matches that are complete because time has reached `now` for these units, and the time of each.

        They are sorted by time, then by unit and key, so that the order does not depend on the worker.
        """
        timely = self._setting.timely
        timely.clear()
        self.pass_time(units, now)
        timely.sort(key=itemgetter(0, 1, 2))
        return self._matched([each[-1] for each in timely]), np.array([each[0] for each in timely], np.int64)

    def _matched(self, matches: list[tuple[int, ...]]) -> pa.RecordBatch:
        """The columns of matches, from the numbers of their rows."""
        found = np.array(matches, np.int64).reshape(len(matches), len(self._setting.begin[0]))
        columns = [self._kept.column(column, found[:, self.plan.places[tag]]) for tag, column in self._keep]
        if not columns:  # no columns, but as many rows as matches
            return pa.RecordBatch.from_arrays([pa.nulls(len(matches))], ["none"]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _masks(self, rows: pa.RecordBatch, streams: npt.NDArray[np.integer] | None) -> list[npt.NDArray[np.bool_]]:
        if streams is None:
            return [
                each.passing(rows) if each.stream == self._streams[0] else np.zeros(rows.num_rows, np.bool_)
                for each in self.plan.filters
            ]
        places = {name: np.flatnonzero(streams == number) for number, name in enumerate(self._streams)}
        return [each.passing(rows, places[each.stream]) for each in self.plan.filters]

    def _run(self, frame: PatternFrame, units: Units, keys: Keys) -> list[Run]:
        """Let the runs of the frame's keys take its rows; returns these runs.

        In turns: atoms look for their next rows, many atoms at a time; then each run lets atoms take rows as far as it
        is known which atom takes the next one.
        """
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

    def _enter(self, frame: PatternFrame, units: Units, keys: Keys) -> tuple[list[Run], list[Run]]:
        """The runs of the frame's keys, after new runs have started; and the runs that existed before."""
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
            of_unit = self._units.get(unit, {})
            run = of_unit.get(key)
            if run is not None:
                run.enter(frame, head, end, late)
                known.append(run)
            elif key in of_unit or begin >= end:
                continue  # the pattern has ended, or no row of the frame begins it
            else:
                run = self._units.setdefault(unit, {})[key] = Run(self._setting, unit, key)
                run.enter(frame, begin, end, late)
                run.start()
            runs.append(run)
        return runs, known

    def _tagged(self) -> list[Name]:
        """The tags and columns of taken rows that must be kept."""
        names = [*self._keep, *chain.from_iterable(each.reads for each in self.plan.filters)]
        return list(dict.fromkeys(names))

    def _columns(self, streams: Mapping[str, pa.Schema]) -> pa.Schema:
        sources = self.plan.streams
        return pa.schema({column: streams[sources[tag]].field(column).type for tag, column in self._tagged()})


def _frame(
    rows: pa.RecordBatch, units: Units, keys: Keys, times: Longs, masks: list[npt.NDArray[np.bool_]], chosen: Longs
) -> PatternFrame:
    """The frame of the chosen rows, sorted by key."""
    order = chosen[np.argsort(keys[chosen], kind="stable")]
    other_key, other_unit = (np.diff(each[order]) != 0 for each in (keys, units))
    if (other_unit & ~other_key).any():  # a key in two units
        order = chosen[np.lexsort((keys[chosen], units[chosen]))]
        other_key, other_unit = (np.diff(each[order]) != 0 for each in (keys, units))
    heads = np.append(0, np.flatnonzero(other_key | other_unit) + 1)
    return PatternFrame(rows, order, times[order], heads, [mask[order] for mask in masks])


__all__ = ["Patterns", "Plan", "TooManyWaiting", "plan"]
