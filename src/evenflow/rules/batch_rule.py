"""Rules over one stream with a batch window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.compiling import compile_condition, compile_expression, compile_group
from evenflow.rules.expressions.frame import Columns, Moment, Results, RuleFrame
from evenflow.rules.expressions.outputs import aggregates, canonical, output
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.windows.batches import OpenBatches, Released
from evenflow.rules.windows.groups import mixed
from evenflow.rules.windows.listed import reduction
from evenflow.rules.windows.views import TIME_BATCH, grouping
from evenflow.rules.world import Side, World, aggregated, forbid_previous

Longs = npt.NDArray[np.int64]


class BatchRule:
    """One result row for each group of a batch if only group values and aggregates are selected, else for each row."""

    def __init__(self, rule: s.Rule, text: Text, side: Side, world: World) -> None:
        scope = world.scope(text, {side.alias: side.schema})
        self._edges = _edges(rule, side, world, text)
        found = world.aggregates(rule, scope, self._edges.keys())
        forbid_previous(found, text)
        by = replace(scope, clause="GROUP BY")
        self._side, self._lateness = side, world.lateness
        self._where = None if rule.where is None else compile_condition(rule.where, scope)
        self._groups = [compile_expression(each, by) for each in rule.group]
        self._hashed = [compile_group(each, by) for each in rule.group if not world.in_key(each, by)]
        self._values = {name: made for name, (_, made) in found.items()}
        self.output = output(rule, aggregated(scope, found, self._edges), {side.alias: ""})
        inner = [grouping(side.source, name) for name in side.window.groups]
        named = {scope.column(each)[1] for each in inner}
        self._inner = [compile_group(each, scope) for each in inner if not world.in_key(each, scope)]
        self._together = bool(found or self._edges) and _together(rule, scope)
        self._label, self._limit = side.label, rule.limit
        self._state = world.states.share(
            ("batches", side.label), lambda: OpenBatches(side.window.rows, side.window.span)
        )
        parts = [*self._groups, *([] if self._where is None else [self._where])]
        parts += [made.value for made in self._values.values() if made.value is not None]
        later = {
            name for columns in (self.output.columns, *(p.columns for p in parts)) for alias, name in columns if alias
        }
        self._state.columns |= later
        now = [*self._inner, *([] if side.intake.condition is None else [side.intake.condition])]
        self.reads = later | named | {name for part in now for _, name in part.columns}

    def process(self, frame: RuleFrame) -> Results:
        """The results of batches that end with these rows."""
        released = frame.once(("batches", self._label), lambda: self._push(frame))
        if released is None:
            return Results([pa.array([], item.type) for item in self.output.items], np.empty(0, np.int64))
        return self._made(released)

    def on_time(self, moment: Moment) -> Results | None:
        """The results of batches that end with time; None for batches of n rows."""
        if not self._side.window.span:
            return None
        leave = self._state.leave
        released = moment.once(("batches", self._label), lambda: leave(moment.units, moment.now))
        return None if released is None else self._made(released)

    def _made(self, released: Released) -> Results:
        columns, batch = Columns(released.table), released.batch
        if self._where is not None:
            rows = np.flatnonzero(self._where.holds(columns, len(batch)))
            columns, batch = columns.at(rows), batch[rows]
        group, owner, first = self._grouped(columns, batch, len(released.ends))
        reductions = {name: reduction(made, len(owner)) for name, made in self._values.items()}
        for each in reductions.values():
            each.add(group, columns, len(batch))
        made = {name: each.result() for name, each in reductions.items()}
        for name, kind in self._edges.items():
            length = 0 if name == "window_start()" else self._side.window.span
            made[name] = _moments(released.starts[owner] + length, kind)
        if self._together:
            # without GROUP BY only aggregates are read, so any columns do: WHERE may have left no row of the batch
            columns, batch = (columns.at(first) if self._groups else Columns(released.table)).beside(made), owner
        else:
            columns = columns.beside({name: array.take(pa.array(group)) for name, array in made.items()})
        index = self.output.passing(columns, len(batch))
        if index is not None:
            columns, batch = columns.at(index), batch[index]
        if self._limit is not None:
            index = np.flatnonzero(_ranks(batch) < self._limit)
            columns, batch = columns.at(index), batch[index]
        return Results(self.output.select(columns, len(batch)), released.ends[batch])

    def _push(self, frame: RuleFrame) -> Released | None:
        part = self._side.intake.part(frame)
        keys = mixed(part.of(frame.keys), [each.evaluate(part.columns, part.count) for each in self._inner])
        times, marks = part.of(frame.times), part.of(frame.latest) - self._lateness
        released = self._state.enter(part.of(frame.units), keys, frame.rows, part.index, times, marks)
        if released is None:
            return None
        return replace(released, ends=part.places[released.ends])

    def _grouped(self, columns: Columns, batch: Longs, batches: int) -> tuple[Longs, Longs, Longs]:
        """The group of each row; and the batch of each group and, with GROUP BY, its first row."""
        if not self._groups:  # each batch is one group, even if no row of it passes WHERE
            return batch, np.arange(batches), np.empty(0, np.int64)
        keys = mixed(batch, [each.evaluate(columns, len(batch)) for each in self._hashed])
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank[group], batch[first[order]], first[order]


def _edges(rule: s.Rule, side: Side, world: World, text: Text) -> dict[str, pa.DataType]:
    """The edges of the window (window_start, window_end) that a rule reads, with the type of the time."""
    found = {name: node for name, node in aggregates(rule).items() if node.name in s.EDGES}
    if side.window.kind != TIME_BATCH:
        return {}
    kind = pa.timestamp("us", world.moments.tz) if pa.types.is_timestamp(world.moments) else world.moments
    for name, node in found.items():
        if not pa.types.is_timestamp(kind) and side.window.span % 1_000_000:
            raise text.error(f"{name} of a window that does not end with a second needs a timestamp as time=", node)
    dates = pa.types.is_date(kind)
    return dict.fromkeys(found, pa.timestamp("us") if dates else kind)


def _ranks(batch: Longs) -> Longs:
    """The number of each row among those of its batch, counted from 0."""
    order = np.argsort(batch, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(batch[order]) != 0)) if len(batch) else order
    ranks = np.empty(len(batch), np.int64)
    ranks[order] = np.arange(len(batch)) - np.repeat(first, np.diff(np.append(first, len(batch))))
    return ranks


def _moments(times: Longs, kind: pa.DataType) -> pa.Array:
    """Times in microseconds as a column; where times are numbers, in seconds."""
    if pa.types.is_timestamp(kind):
        return pa.array(times).view(kind)
    return pc.cast(pa.array(times // 1_000_000), kind)


def _together(rule: s.Rule, scope: Scope) -> bool:
    """Whether the select list and HAVING have only aggregates, constants and expressions of GROUP BY."""
    groups = {canonical(each, scope) for each in rule.group}
    parts: list[s.Node] = [*rule.select, *([] if rule.having is None else [rule.having])]
    return all(_covered(part, groups, scope) for part in parts)


def _covered(node: s.Node, groups: set[str], scope: Scope) -> bool:
    if isinstance(node, s.Aggregate | s.Literal):
        return True
    if isinstance(node, s.Star):
        return False
    if isinstance(node, s.Item):
        return _covered(node.expression, groups, scope)
    if canonical(node, scope) in groups:  # type: ignore[arg-type]
        return True
    return not isinstance(node, s.Column) and all(_covered(child, groups, scope) for child in tree.children(node))
