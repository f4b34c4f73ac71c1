"""All rules of an operator, bound to the columns of its rows, and all their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.aggregates.adding import column_type
from evenflow.operators.columns import NO_TIMES, locked, microseconds, require_time
from evenflow.operators.declared import as_new, as_struct
from evenflow.operators.keyed import Keys, Origin, Units
from evenflow.rules.batch_rule import BatchRule
from evenflow.rules.expressions.frame import Moment, Results, RuleFrame
from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.join_rule import JoinRule
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import TOO_DEEP, Text
from evenflow.rules.match_rule import MatchRule
from evenflow.rules.paced_rule import PacedRule
from evenflow.rules.stream_rule import StreamRule
from evenflow.rules.windows.batches import NEVER
from evenflow.rules.windows.clock import KeyClocks, UnitState
from evenflow.rules.windows.grouped import Grouped
from evenflow.rules.windows.lapsing import Lapsing
from evenflow.rules.windows.memory import RowLists
from evenflow.rules.world import BoundRule, World

RULE, LATE = "rule", "late"


class Engine:
    """Runs rules on rows with the columns of the schema `rows`; only the columns that `reads` names are needed.

    With `in_order`, the caller gives the rows of a key in the order of their times and decides which rows are late.
    `lateness` is in seconds.
    """

    def __init__(
        self,
        rules: Mapping[str, tuple[Text, s.Rule]],
        rows: pa.Schema,
        functions: Mapping[str, UserFunction],
        *,
        named: bool,
        key: Sequence[str],
        time: str | None,
        lateness: float | None,
        streams: Mapping[str, Sequence[str]],
        stream_column: str | None,
        in_order: bool = False,
        ansi: bool = True,
    ) -> None:
        self._time, self._lateness, self._named, self._stream_column = time, lateness, named, stream_column
        if time is not None:
            require_time("time=", time, column_type("time=", rows, time))
        schemas = {name: _columns(rows, name, columns) for name, columns in streams.items()}
        span = 0 if lateness is None or in_order else round(lateness * 1e6)
        self.world = World(schemas, functions, tuple(key), time is not None, span, ansi=ansi)
        self.world.moments = pa.null() if time is None else rows.field(time).type
        judges = lateness is not None and not in_order
        if judges or any(tree.goes_by_time(rule) for _, rule in rules.values()):
            self.world.clock = self.world.states.share("clock", lambda: KeyClocks(span if judges else -1))
        self.rules: dict[str, BoundRule] = {
            name: _bound(rule, text, self.world) for name, (text, rule) in rules.items()
        }
        self._lapsing = Lapsing(self.world.states)
        self.late = 0
        self._rows = rows
        self.schema = self._schema()

    def reads(self) -> list[str]:
        """The columns that are needed, in the order of the schema."""
        needed = set().union(*(rule.reads for rule in self.rules.values()))
        needed |= {name for name in (self._time, self._stream_column) if name is not None}
        everything = self._lateness is not None
        return [name for name in self._rows.names if everything or name in needed] or self._rows.names[:1]

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> tuple[pa.RecordBatch, Origin]:
        """The results of all rules, and the place of the row that each comes from."""
        origin = np.arange(rows.num_rows)
        times = NO_TIMES if self._time is None else microseconds(rows.column(self._time), self._time)
        latest, late = NO_TIMES, np.empty(0, np.int64)
        behind = None
        if self.world.clock is not None:
            latest, found = self.world.clock.push(units, keys, times)
            if found.any():
                late, here = np.flatnonzero(found), pa.array(np.flatnonzero(~found))
                behind = rows.take(pa.array(late))
                rows, origin = rows.take(here), np.flatnonzero(~found)
                units, keys, times, latest = units[origin], keys[origin], times[origin], latest[origin]
                self.late += len(late)
        frame = RuleFrame(rows, units, keys, locked(times), locked(latest), self._numbers(rows))
        results = {name: rule.process(frame) for name, rule in self.rules.items()}
        self._tidy()
        if behind is None and not self._named:
            (only,) = results.values()
            return self._batch(only.columns, len(only.places)), origin[only.places]
        return self._merged(results, origin, behind, late)

    def on_time(self, now: int, units: Units) -> pa.RecordBatch | None:
        """The results of windows and timers that have ended by `now` (microseconds), by their ends, then by rule.

        Drops the state that no later row can see.
        """
        found = self._ended(Moment(now, units))
        self._lapsing.pass_time(units, now)
        self._tidy()
        return found

    def on_end(self, units: Units) -> pa.RecordBatch | None:
        """The results of all open time windows and of all timers: no more rows will come."""
        return self._ended(Moment(NEVER, units))

    def on_late(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Late rows as result rows."""
        return pa.RecordBatch.from_arrays(self._late_columns(rows), schema=self.schema)

    def extract(self, unit: int) -> UnitState:
        """Remove a unit's state, of all rules, and return it."""
        return self.world.states.extract(unit)

    def install(self, unit: int, state: UnitState) -> None:
        """Add the state that another copy's `extract` returned."""
        self.world.states.install(unit, state)

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of state of each unit."""
        return self.world.states.sizes(units)

    def _ended(self, moment: Moment) -> pa.RecordBatch | None:
        timely = {
            name: rule for name, rule in self.rules.items() if isinstance(rule, BatchRule | MatchRule | PacedRule)
        }
        ends = {name: rule.on_time(moment) for name, rule in timely.items()}
        results = {name: result for name, result in ends.items() if result is not None}
        if not results:
            return None
        parts = [self._wide(name, result) for name, result in results.items()]
        return self._in_order(parts, [result.places for result in results.values()])[0]

    def _tidy(self) -> None:
        for state in self.world.states:
            if isinstance(state, Grouped | RowLists):
                state.tidy()

    def _merged(
        self, results: Mapping[str, Results], origin: Origin, behind: pa.RecordBatch | None, late: Origin
    ) -> tuple[pa.RecordBatch, Origin]:
        """All results in the order of the rows they come from, then of the rules; late rows among them."""
        parts = [self._wide(name, result) for name, result in results.items()]
        places = [origin[result.places] for result in results.values()]
        if behind is not None:
            parts.append(self._late_columns(behind))
            places.append(late)
        return self._in_order(parts, places)

    def _in_order(self, parts: list[list[pa.Array]], places: list[Origin]) -> tuple[pa.RecordBatch, Origin]:
        """The rows of all parts as one batch, sorted by their places; equal places in the order of the parts."""
        whole = np.concatenate(places)
        columns = [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]
        if len(parts) > 1:
            order = np.argsort(whole, kind="stable")
            whole = whole[order]
            columns = [column.take(pa.array(order)) for column in columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), whole

    def _late_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Late rows as result columns: nulls, and the rows in the last column; empty without it."""
        if self._lateness is None:
            return [pa.nulls(0, field.type) for field in self.schema]
        kind = self.schema.field(LATE).type
        late = pa.StructArray.from_arrays([rows.column(field.name) for field in kind], fields=list(kind))
        return [*(pa.nulls(rows.num_rows, field.type) for field in list(self.schema)[:-1]), late]

    def _wide(self, name: str, result: Results) -> list[pa.Array]:
        rows = len(result.places)
        own = dict(zip(self.rules[name].output.names, result.columns, strict=True))
        if self._named:
            own[RULE] = pa.repeat(pa.scalar(name), rows)
        return [own[field.name] if field.name in own else pa.nulls(rows, field.type) for field in self.schema]

    def _batch(self, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        more = [pa.nulls(rows, field.type) for field in list(self.schema)[len(columns) :]]
        return pa.RecordBatch.from_arrays([*columns, *more], schema=self.schema)

    def _numbers(self, rows: pa.RecordBatch) -> npt.NDArray[np.integer] | None:
        """The number of each row's stream; None if there is only one stream."""
        if self._stream_column is None:
            return None
        names = rows.column(self._stream_column)
        if pa.types.is_integer(names.type):
            given: npt.NDArray[np.integer] = names.to_numpy()
            return given
        found = pc.index_in(names, pa.array(list(self.world.streams), names.type))
        if found.null_count:
            strange = names.filter(pc.is_null(found))[0].as_py()
            there = ", ".join(f"'{name}'" for name in self.world.streams)
            raise FunctionError(f"column '{self._stream_column}' is {strange!r} in a row; streams are {there}")
        numbers: npt.NDArray[np.integer] = found.to_numpy()
        return numbers

    def _schema(self) -> pa.Schema:
        fields: dict[str, tuple[pa.Field, str]] = {}
        spelled: dict[str, str] = {}
        for rule, bound in self.rules.items():
            for field in bound.output.schema:
                first = spelled.setdefault(field.name.lower(), field.name)
                if first != field.name:
                    raise InvalidArgument(
                        f"columns '{first}' of rule '{fields[first][1]}' and '{field.name}' of rule '{rule}' differ in "
                        "case only: give one of them another name with AS"
                    )
                known, other = fields.setdefault(field.name, (field, rule))
                if known.type != field.type:
                    raise InvalidArgument(
                        f"column '{field.name}' is {known.type} in rule '{other}' and {field.type} in rule '{rule}': "
                        "give one of them another name with AS"
                    )
                if known.metadata != field.metadata:
                    fields[field.name] = as_new(known), other
        own = ([RULE] if self._named else []) + ([LATE] if self._lateness is not None else [])
        for name in own:
            if name in spelled:
                rule = f"rule '{fields[spelled[name]][1]}'" if self._named else "the rule"
                raise InvalidArgument(
                    f"{rule} selects a column '{spelled[name]}', the name of a column that comes with every result: "
                    "give it another name with AS"
                )
        result = [field for field, _ in fields.values()]
        if self._named:
            result.insert(0, pa.field(RULE, pa.string()))
        if self._lateness is not None:
            theirs = {name for schema in self.world.streams.values() for name in schema.names}
            result.append(as_struct(LATE, [field for field in self._rows if field.name in theirs]))
        return pa.schema(result)


def _columns(rows: pa.Schema, stream: str, names: Sequence[str]) -> pa.Schema:
    """The columns of a stream that the rows have; on workers, rows have only the columns that rules read."""
    there = [name for name in names if name in rows.names]
    for name in there:
        column_type(f"stream '{stream}'", rows, name)
    return pa.schema([rows.field(name).with_nullable(True) for name in there])


def _bound(rule: s.Rule, text: Text, world: World) -> BoundRule:
    """Bind a rule to its columns and state."""
    try:
        bound = _of_kind(rule, text, world)
        return bound if rule.pace is None else PacedRule(rule, text, bound, world)
    except RecursionError:
        raise text.error_at(TOO_DEEP, 0, 0) from None


def _check_pace(rule: s.Rule, text: Text, world: World, batch: bool) -> None:
    """Refuse OUTPUT and LIMIT where they have no meaning."""
    if rule.limit is not None and not batch:
        raise text.error("LIMIT is for the rows of a batch window, such as win:time_batch: take it out", rule)
    if rule.pace is None:
        return
    strange = [each for each in rule.group if not (isinstance(each, s.Column) and each.name in world.key)]
    if batch or strange:
        what = "rules over a batch window" if batch else "GROUP BY of what is not the key"
        raise text.error(f"OUTPUT goes by the results of each key, and does not stand beside {what}", rule.pace)
    if rule.pattern is not None and any(isinstance(node, s.Interval) for node in tree.walk(rule.pattern)):
        raise text.error("OUTPUT does not stand beside timer:interval, whose results come with time", rule.pace)


def _of_kind(rule: s.Rule, text: Text, world: World) -> BoundRule:
    views = [view.name.lower() for source in rule.sources for view in source.views]
    _check_pace(rule, text, world, any(view.endswith("_batch") for view in views))
    if rule.pattern is not None:
        return MatchRule(rule, text, world)
    if len(rule.sources) > 2:
        raise text.error("FROM has more than two streams: join them two by two", rule.sources[2])
    sides = [world.side(source, text) for source in rule.sources]
    if len(sides) == 2:
        return JoinRule(rule, text, sides, world)
    return (BatchRule if sides[0].window.batch else StreamRule)(rule, text, sides[0], world)
