"""Rules over one stream: one result row for each row that passes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from evenflow.rules.expressions.compiling import compile_condition, compile_group
from evenflow.rules.expressions.frame import Results, RuleFrame
from evenflow.rules.expressions.outputs import canonical, output
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Text
from evenflow.rules.windows.cells import Cell, Reduced, Sliding
from evenflow.rules.windows.clock import Counter, KeyNumbers
from evenflow.rules.windows.listed import ListedAggregate, Listing
from evenflow.rules.windows.views import EVERYTHING, LENGTH, TIME, grouping
from evenflow.rules.world import Side, World, aggregated


class StreamRule:
    """One result for each row; aggregates are over the rows up to it, of its window and group, that pass WHERE."""

    def __init__(self, rule: s.Rule, text: Text, side: Side, world: World) -> None:
        scope = world.scope(text, {side.alias: side.schema})
        by = replace(scope, clause="GROUP BY")
        inner = [grouping(side.source, name) for name in side.window.groups]
        named = {by.column(each)[1] for each in [*inner, *rule.group] if isinstance(each, s.Column)}
        inner = [each for each in inner if not world.in_key(each, scope)]
        groups = [each for each in rule.group if not world.in_key(each, by)]
        where = None if rule.where is None else compile_condition(rule.where, scope)
        passing = "" if rule.where is None else canonical(rule.where, scope)
        label = f"{side.label} where {passing} group by {[canonical(each, by) for each in groups]}"
        found = world.aggregates(rule, scope)
        cells = {name: (node, made) for name, (node, made) in found.items() if isinstance(made, Reduced)}
        reached: KeyNumbers | None = None
        if cells and groups and side.window.kind == LENGTH:
            reached = world.states.share(("counter", label), Counter)
        elif groups or inner:
            reached = world.clock if side.window.kind == TIME else None
        self._rows = Sliding(
            side.intake,
            side.window,
            label,
            where,
            tuple(compile_group(each, scope) for each in inner),
            tuple(compile_group(each, by) for each in groups),
            alone=len(world.streams) == 1 and side.intake.condition is None and not inner and not groups,
            reached=reached,
        )
        self._cells = {}
        for name, (node, made) in cells.items():
            of = "*" if node.argument is None else canonical(node.argument, scope)
            key = "cell", label, node.name, of
            holder = Cell(made, self._rows)
            holder.state = world.states.share(key, lambda holder=holder: holder.state)  # type: ignore[misc]
            self._cells[name] = key, holder
        self._listing = self._listed(found, text, world)
        self.output = output(rule, aggregated(scope, found), {side.alias: ""})
        conditions = [side.intake.condition, where, *self._rows.inner, *self._rows.groups]
        conditions += [made.value for _, made in found.values()]
        used = [*(each.columns for each in conditions if each is not None), self.output.columns]
        self.reads = named | {name for columns in used for alias, name in columns if alias}

    def _listed(
        self, found: dict[str, tuple[s.Aggregate, Reduced | ListedAggregate]], text: Text, world: World
    ) -> Listing | None:
        """The aggregates that look through the rows of the window; None if there are none."""
        listed = {name: made for name, (_, made) in found.items() if isinstance(made, ListedAggregate)}
        if not listed:
            return None
        for name in listed:
            if self._rows.window.kind == EVERYTHING:
                raise text.error(
                    f"{name} needs a window, such as win:length(100): it looks through its rows", found[name][0]
                )
        listing = Listing(listed, self._rows)
        listing.state = world.states.share(("listing", self._rows.label, text.name), lambda: listing.state)
        return listing

    def process(self, frame: RuleFrame) -> Results:
        """One result row for each row that passes WHERE and HAVING."""
        part = self._rows.intake.part(frame)
        made = {name: frame.once(key, partial(cell.push, part)) for name, (key, cell) in self._cells.items()}
        made |= self._listing.push(part) if self._listing is not None else {}
        columns, places, count = part.columns.beside(made), part.places, part.count
        passing = self._rows.passing(part)
        if passing is not None:
            index = np.flatnonzero(passing)
            columns, places, count = columns.at(index), places[index], len(index)
        chosen = self.output.passing(columns, count)
        if chosen is not None:
            columns, places, count = columns.at(chosen), places[chosen], len(chosen)
        return Results(self.output.select(columns, count), places)
