"""Rules over two streams: each new row is paired with the rows in the other stream's window."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, Name
from evenflow.rules.expressions.compiling import compile_condition, compile_expression, compile_group
from evenflow.rules.expressions.frame import FramePart, Results, RuleFrame
from evenflow.rules.expressions.functions import CHUNK
from evenflow.rules.expressions.gathered import Gathered, one_array
from evenflow.rules.expressions.outputs import output
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.windows.groups import mixed
from evenflow.rules.windows.listed import reduction
from evenflow.rules.windows.memory import Memory, Seen
from evenflow.rules.windows.views import EVERYTHING, grouping
from evenflow.rules.world import Side, World, aggregated, forbid_previous

BYTES = 64 << 20
"""Bytes of text that are copied at a time, at most."""
PairColumns = dict[Name, Gathered]


class JoinRule:
    """One result row for each pair of a trigger and a row in a window; with aggregates, one for each trigger.

    One item of FROM leads: the item with std:lastevent() or without a view, else the first. Rows of the leading item
    trigger. Rows of the other item trigger, too, if it is another stream, both items have a window, and there are no
    aggregates. A trigger meets the window of the other item as it was before the trigger came.
    """

    def __init__(self, rule: s.Rule, text: Text, sides: list[Side], world: World) -> None:
        lead, other = _ordered(rule, text, sides)
        scope = world.scope(text, {side.alias: side.schema for side in sides})
        found = world.aggregates(rule, scope)
        forbid_previous(found, text)
        if rule.group:
            raise text.error(
                "GROUP BY cannot stand in a rule over two streams: there is one row for each trigger", rule.group[0]
            )
        one_sided = lead.stream == other.stream or lead.window.kind == EVERYTHING or bool(found)
        if found and not (lead.window.last or lead.window.kind == EVERYTHING):
            raise text.error(
                "with aggregates one of the two streams triggers: give it std:lastevent(), or no view", lead.source
            )
        self._values = {name: made for name, (_, made) in found.items()}
        stars = {lead.alias: ""} if found else {lead.alias: "", other.alias: f"{other.alias}_"}
        self.output = output(rule, aggregated(scope, found), stars)
        if found:
            _forbid_many(rule, text, scope, other, self.output.columns)
        ways = [(lead, other)] if one_sided else [(lead, other), (other, lead)]
        self._ways = [_Way.of(rule, scope, *way, world, self._needed()) for way in ways]
        self.reads = {name for alias, name in self._needed() if alias}.union(*(way.reads for way in self._ways))
        self.reads |= {
            replace(scope, sources={side.alias: side.schema}).column(grouping(side.source, name))[1]
            for side in sides
            for name in side.window.groups
        }

    def _needed(self) -> set[Name]:
        values = [made.value.columns for made in self._values.values() if made.value is not None]
        return set(self.output.columns).union(*values)

    def process(self, frame: RuleFrame) -> Results:
        """The result rows for each pair, or for each row that triggers."""
        results = [self._triggers(frame, way) if self._values else self._pairs(frame, way) for way in self._ways]
        if len(results) == 1:
            return results[0]
        places = np.concatenate([result.places for result in results])
        order = pa.array(np.argsort(places, kind="stable"))
        columns = [pa.concat_arrays(parts) for parts in zip(*(result.columns for result in results), strict=True)]
        return Results([column.take(order) for column in columns], places[order.to_numpy()])

    def _triggers(self, frame: RuleFrame, way: _Way) -> Results:
        part = way.lead.intake.part(frame)
        rows = way.triggers(part)
        reductions = {name: reduction(made, len(rows)) for name, made in self._values.items()}
        for which, pairs in way.pairs(part, rows, self._needed()):
            for each in reductions.values():
                each.add(which, pairs, len(which))
        made = {name: each.result() for name, each in reductions.items()}
        columns, places = part.columns.at(rows).beside(made), part.places[rows]
        index = self.output.passing(columns, len(rows))
        if index is not None:
            columns, places = columns.at(index), places[index]
        return Results(self.output.select(columns, len(places)), places)

    def _pairs(self, frame: RuleFrame, way: _Way) -> Results:
        part = way.lead.intake.part(frame)
        rows = way.triggers(part)
        chosen: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        chunks = [[pa.array([], item.type) for item in self.output.items]]
        for which, pairs in way.pairs(part, rows, self._needed()):
            index = self.output.passing(pairs, len(which))
            if index is not None:
                which, pairs = which[index], at(pairs, index)
            chosen.append(which)
            chunks.append(self.output.select(pairs, len(which)))
        places = part.places[rows[np.concatenate(chosen)]]
        order = np.argsort(places, kind="stable")
        columns = [pa.concat_arrays(parts).take(pa.array(order)) for parts in zip(*chunks, strict=True)]
        return Results(columns, places[order])


@dataclass(frozen=True)
class _Way:
    """One direction of the join: new rows of `lead` are paired with the rows in the window of `other`."""

    lead: Side
    other: Side
    memory: Memory
    label: str
    inner: tuple[tuple[Compiled, Compiled], ...]
    """What std:groupwin splits the window by: expressions for rows of `lead` and for rows of `other`."""
    first: tuple[Compiled, ...]
    """Conditions on the row of `lead` alone."""
    known: tuple[Compiled, ...]
    """Key columns of `lead` that WHERE compares with those of `other`: where one is null, the row has no pairs."""
    pairwise: tuple[Compiled, ...]

    @classmethod
    def of(cls, rule: s.Rule, scope: Scope, lead: Side, other: Side, world: World, needed: set[Name]) -> _Way:
        first, known, pairwise, equal = [], [], [], {}
        for condition in tree.conjuncts(rule.where):
            same = _same_column(condition, scope, lead, other)
            if same is not None and same[1] in world.key and same[0] == same[1]:
                known.append(compile_expression(s.Column(lead.alias, same[0]), scope))
                continue
            compiled = compile_condition(condition, scope)
            if {alias for alias, _ in compiled.columns} <= {lead.alias}:
                first.append(compiled)
            else:
                pairwise.append(compiled)
                if same is not None:
                    equal[same[1]] = same[0]
        inner = []
        for name in other.window.groups:
            column = grouping(other.source, name)
            _, name, _ = replace(scope, sources={other.alias: other.schema}).column(column)
            if name in world.key:
                continue
            if name not in equal:
                raise scope.text.error(
                    f"std:groupwin({name}) needs {lead.alias}.... = {other.alias}.{name} in WHERE, as {name} is not "
                    "part of the key",
                    column,
                )
            ends = (s.Column(lead.alias, equal[name]), s.Column(other.alias, name))
            inner.append((compile_group(ends[0], scope), compile_group(ends[1], scope)))
        label = other.label + (f" by {sorted(equal.items())} of {lead.label}" if inner else "")
        memory = world.states.share(("memory", label), lambda: Memory(other.window.rows, other.window.span))
        pairwise.sort(key=lambda each: each.calls)
        read = needed.union(*(each.columns for each in pairwise))
        memory.columns |= {name for alias, name in read if alias == other.alias}
        return cls(
            lead, other, memory, label, tuple(inner), first=tuple(first), known=tuple(known), pairwise=tuple(pairwise)
        )

    @property
    def reads(self) -> set[str]:
        """The columns that conditions and std:groupwin read."""
        parts = [*self.first, *self.known, *self.pairwise, *(each for pair in self.inner for each in pair)]
        parts += [side.intake.condition for side in (self.lead, self.other) if side.intake.condition is not None]
        return {name for part in parts for _, name in part.columns}

    def triggers(self, part: FramePart) -> npt.NDArray[np.int64]:
        """The rows of the part that pass the conditions on `lead` alone."""
        passing = np.ones(part.count, np.bool_)
        for condition in self.first:
            passing &= condition.holds(part.columns, part.count)
        return np.flatnonzero(passing)

    def seen(self, frame: RuleFrame) -> Seen:
        """Add the frame's rows to the window, once per frame."""
        return frame.once(("memory", self.label), lambda: self._enter(frame))

    def _enter(self, frame: RuleFrame) -> Seen:
        entering = self.other.intake.part(frame)
        looks = enters = frame.keys
        if self.inner:
            leading = self.lead.intake.part(frame)
            looks, enters = frame.keys.copy(), frame.keys.copy()
            for part, keys, which in ((leading, looks, 0), (entering, enters, 1)):
                values = [pair[which].evaluate(part.columns, part.count) for pair in self.inner]
                keys[part.places] = mixed(part.of(frame.keys), values)
        return self.memory.enter(frame.units, looks, enters, entering.index, frame.rows, frame.times, frame.latest)

    def pairs(
        self, part: FramePart, rows: npt.NDArray[np.int64], needed: set[Name]
    ) -> Iterator[tuple[npt.NDArray[np.int64], PairColumns]]:
        """The pairs of some rows of the part that pass, in chunks: each pair's index in `rows`, and the columns."""
        seen = self.seen(part.frame)
        names = needed.union(*(each.columns for each in self.pairwise)) - {name for name in needed if not name[0]}
        which = np.arange(len(rows))
        for value in self.known:
            null = value.evaluate(part.columns, part.count)
            if null.null_count:
                which = which[null.is_valid().to_numpy(zero_copy_only=False)[rows[which]]]
        places = part.places[rows[which]]
        order = np.argsort(seen.slots[places], kind="stable")  # rows that meet the same window are listed together
        which, places = which[order], places[order]
        leading = {name: Gathered(part.columns[name], rows) for name in names if name[0] == self.lead.alias}
        for places_of, numbers, table in self.memory.pairs(seen, places):
            trigger = which[places_of]
            meeting = {
                name: Gathered(one_array(table.column(name[1])), numbers)
                for name in names
                if name[0] == self.other.alias
            }
            step = _step([*leading.values(), *meeting.values()])
            for start in range(0, len(trigger), step):
                chunk = slice(start, start + step)
                lead_index = rows[trigger[chunk]]
                pairs = {name: column.at(lead_index) for name, column in leading.items()}
                pairs |= {name: column.at(numbers[chunk]) for name, column in meeting.items()}
                yield self._passing(trigger[chunk], pairs)

    def _passing(self, which: npt.NDArray[np.int64], pairs: PairColumns) -> tuple[npt.NDArray[np.int64], PairColumns]:
        for condition in self.pairwise:
            index = np.flatnonzero(condition.holds(pairs, len(which)))
            if len(index) < len(which):
                which, pairs = which[index], at(pairs, index)
        return which, pairs


def at(pairs: PairColumns, index: npt.NDArray[np.int64]) -> PairColumns:
    """The columns of some of the pairs."""
    return {name: column.at(column.index[index]) for name, column in pairs.items()}


def _step(columns: list[Gathered]) -> int:
    """The number of pairs in a chunk."""
    longest = 1
    for column in columns:
        kind = column.values.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
            longest = max(longest, pc.max(pc.binary_length(column.values)).as_py() or 1)
    return max(1, min(CHUNK, BYTES // longest))


def _same_column(condition: s.Expression, scope: Scope, lead: Side, other: Side) -> tuple[str, str] | None:
    """The columns of `lead` and `other` that a condition compares with `=`; None if it is another condition."""
    if not isinstance(condition, s.Binary) or condition.operator != "=":
        return None
    if not isinstance(condition.left, s.Column) or not isinstance(condition.right, s.Column):
        return None
    ends = {scope.column(end)[0]: scope.column(end) for end in (condition.left, condition.right)}
    if ends.keys() != {lead.alias, other.alias} or ends[lead.alias][2] != ends[other.alias][2]:
        return None
    return ends[lead.alias][1], ends[other.alias][1]


def _ordered(rule: s.Rule, text: Text, sides: list[Side]) -> tuple[Side, Side]:
    """The side that leads, and the other."""
    one, other = sides
    if one.alias == other.alias:
        raise text.error(f"two streams are called '{one.alias}': give one of them another name with AS", other.source)
    for side in sides:
        if side.window.batch:
            raise text.error("a batch cannot be joined: give win:length or win:time", side.source.views[-1])
    if not one.window.last and one.window.kind != EVERYTHING and (other.window.last or other.window.kind == EVERYTHING):
        one, other = other, one
    if one.window.last and other.window.kind == EVERYTHING and one.stream != other.stream:
        one, other = other, one
    if other.window.kind == EVERYTHING:
        raise text.error(f"'{other.alias}' needs a window, such as win:length(100)", other.source)
    if one.stream == other.stream and not (one.window.last or one.window.kind == EVERYTHING):
        raise text.error(
            f"'{one.alias}' and '{other.alias}' are windows of one stream: make one of them std:lastevent()", one.source
        )
    return one, other


def _forbid_many(rule: s.Rule, text: Text, scope: Scope, other: Side, columns: Set[Name]) -> None:
    """Refuse columns of the window outside of aggregates: one trigger meets many rows."""
    if not any(alias == other.alias for alias, _ in columns):
        return
    parts: list[s.Node] = [*rule.select, *([] if rule.having is None else [rule.having])]
    while parts:
        node = parts.pop(0)
        many = (isinstance(node, s.Column) and scope.column(node)[0] == other.alias) or (
            isinstance(node, s.Star) and node.owner is not None and scope.owner(node.owner, node) == other.alias
        )
        if many:
            raise text.error(
                f"'{other.alias}' has many rows for one trigger: its columns can stand inside aggregates only", node
            )
        parts += [] if isinstance(node, s.Aggregate) else list(tree.children(node))
