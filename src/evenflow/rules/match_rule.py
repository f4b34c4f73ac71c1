"""Rules over a pattern: one result row for each match."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from evenflow.rules.expressions.compiling import compile_condition
from evenflow.rules.expressions.frame import Columns, Moment, Places, Results, RuleFrame
from evenflow.rules.expressions.outputs import aggregates, output
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.language.printing import show
from evenflow.rules.patterns.matching import Patterns
from evenflow.rules.patterns.plan import plan
from evenflow.rules.windows.batches import NEVER
from evenflow.rules.world import World


class MatchRule:
    """One result row for each match; `*` stands for the columns of all tags, called `tag_column`."""

    def __init__(self, rule: s.Rule, text: Text, world: World) -> None:
        assert rule.pattern is not None
        for name, node in aggregates(rule).items():
            raise text.error(f"{name} cannot stand in a rule over a pattern: a match has one row of each tag", node)
        if rule.group:
            raise text.error("GROUP BY cannot stand in a rule over a pattern", rule.group[0])
        timer = next((node for node in tree.walk(rule.pattern) if isinstance(node, s.Within | s.Interval)), None)
        if timer is not None and not world.timed:
            name = "within" if isinstance(timer, s.Within) else "interval"
            raise text.error(f"timer:{name} needs the time of the rows: give time=", timer)
        for atom in tree.atoms(rule.pattern):
            world.stream(atom.stream, atom, text)
        planned = plan(rule.pattern, world.streams, text, world.functions)
        scope = world.scope(text, planned.sources)
        self._where = None if rule.where is None else compile_condition(rule.where, scope)
        stars = {tag: f"{tag}_" for tag in planned.sources if not tag.endswith("[0]")}
        if not stars and any(isinstance(item, s.Star) and item.owner is None for item in rule.select):
            raise text.error("the pattern has no tag to select: write a=Stream", rule.pattern)
        self.output = output(rule, scope, stars)
        keep = self.output.columns | (frozenset() if self._where is None else self._where.columns)
        self.state = world.states.share(
            ("pattern", text.name, show(rule)),
            lambda: Patterns(
                rule.pattern,  # type: ignore[arg-type]
                world.streams,
                sorted(keep),
                text=text,
                functions=world.functions,
                lateness=world.lateness,
            ),
        )
        self.reads = {name for _, name in self.state.reads}

    def process(self, frame: RuleFrame) -> Results:
        """The result rows of the matches that these rows complete."""
        times = frame.times if len(frame.times) or not len(frame.units) else np.zeros(len(frame.units), np.int64)
        return self._made(*self.state.push(frame.rows, frame.units, frame.keys, times, frame.streams))

    def on_time(self, moment: Moment) -> Results | None:
        """The result rows of the matches that time completes; None if there are none."""
        if moment.now == NEVER and not self.state.plan.waits:
            return None  # without timer:interval the end completes no match, and no row follows
        rows, times = self.state.on_time(moment.units, moment.now)
        return self._made(rows, times) if len(times) else None

    def _made(self, rows: pa.RecordBatch, places: Places) -> Results:
        columns, count = Columns(rows, called=".".join), rows.num_rows
        for condition in (self._where, self.output.having):
            if condition is not None:
                index = np.flatnonzero(condition.holds(columns, count))
                columns, places, count = columns.at(index), places[index], len(index)
        return Results(self.output.select(columns, count), places)
