"""What rules should give, in plain Python: trees are interpreted, windows are searched among all rows so far."""

import math
import re

from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.language.parser import parse
from evenflow.rules.language.printing import show
from evenflow.rules.windows.views import window
from tests.support.operators_model import aggregate

HOW = {"avg": "mean", "stddev": "std"}


def evaluate(node, env, functions=None):
    """An expression; `env` gives the value of a column node, and of an aggregate node."""

    def inner(other):
        return evaluate(other, env, functions)

    match node:
        case s.Literal(value=value):
            return value
        case s.Column() | s.Aggregate():
            return env(node)
        case s.Unary(operator="not", operand=operand):
            value = inner(operand)
            return None if value is None else not value
        case s.Unary(operand=operand):
            value = inner(operand)
            return None if value is None else -value
        case s.Binary(operator="and", left=left, right=right):
            return both(inner(left), inner(right))
        case s.Binary(operator="or", left=left, right=right):
            return either(inner(left), inner(right))
        case s.Binary(operator=operator, left=left, right=right):
            return binary(operator, inner(left), inner(right))
        case s.In(operand=operand, options=options, negated=negated):
            found = False
            for option in options:
                found = either(found, binary("=", inner(operand), inner(option)))
            return turned(found, negated)
        case s.Between(operand=operand, low=low, high=high, negated=negated):
            value = inner(operand)
            return turned(both(binary(">=", value, inner(low)), binary("<=", value, inner(high))), negated)
        case s.Like(operand=operand, pattern=pattern, negated=negated):
            value = inner(operand)
            regex = "".join({"%": "(.|\n)*", "_": "(.|\n)"}.get(c, re.escape(c)) for c in pattern.value)
            return turned(None if value is None else re.fullmatch(regex, value) is not None, negated)
        case s.IsNull(operand=operand, negated=negated):
            return (inner(operand) is None) != negated
        case s.Case(whens=whens, otherwise=otherwise):
            for condition, value in whens:
                if inner(condition) is True:
                    return inner(value)
            return None if otherwise is None else inner(otherwise)
        case s.Call(name="coalesce", arguments=arguments):
            return next((value for value in map(inner, arguments) if value is not None), None)
        case s.Call(name="substring", arguments=arguments):
            return part_of(*map(inner, arguments))
        case s.Cast(operand=operand, type="double"):
            value = inner(operand)
            return None if value is None else float(value)
        case s.Call(name=name, arguments=arguments):
            return functions[name](*map(inner, arguments))
    raise AssertionError(node)


def part_of(text, first, length=99):
    """Characters from `first` on, counted from 1, or from the end."""
    if text is None:
        return None
    start = first - 1 if first > 0 else len(text) + first if first < 0 else 0
    return text[max(0, start) : max(0, start + length)] if length > 0 else ""


def both(a, b):
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def either(a, b):
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def turned(value, negated):
    return value if value is None or not negated else not value


def binary(operator, a, b):
    if a is None or b is None:
        return None
    if operator in "/%" and b == 0:
        return None
    if operator == "%":
        return math.fmod(a, b)
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "/": lambda: a / b,
        "||": lambda: a + b,
        "=": lambda: a == b,
        "!=": lambda: a != b,
        "<": lambda: a < b,
        "<=": lambda: a <= b,
        ">": lambda: a > b,
        ">=": lambda: a >= b,
    }[operator]()


class Side:
    """An item of FROM: all rows that ever passed its filter."""

    def __init__(self, source, functions):
        self.source, self.functions = source, functions
        self.alias = source.alias or source.stream
        self.window = window(source, Text(""))
        self.rows = []

    def takes(self, row, streams):
        if streams is not None and row[streams] != self.source.stream:
            return False
        return self.source.filter is None or holds(self.source.filter, {self.alias: row}, {}, self.functions)

    def held(self, row, latest, groups=None):
        """The rows in the window of this row's key, seen by a row with these values for std:groupwin."""
        mine = [other for other in self.rows if other["#key"] == row["#key"]]
        wanted = groups or [row[name] for name in self.window.groups]
        mine = [other for other in mine if [other[name] for name in self.window.groups] == wanted]
        if self.window.kind == "everything":
            return mine
        if self.window.kind == "length":
            return mine[-self.window.rows :]
        held = [other for other in mine if other["#time"] > latest - self.window.span]
        return sorted(held, key=lambda other: other["#time"])


def column(rows, node):
    owners = [node.owner] if node.owner is not None else list(rows)
    return next(rows[owner][node.name] for owner in owners if node.name in rows[owner])


def value(node, rows, made, functions):
    return evaluate(
        node, lambda each: made[show(each)] if isinstance(each, s.Aggregate) else column(rows, each), functions
    )


def holds(condition, rows, made, functions):
    return condition is None or value(condition, rows, made, functions) is True


def listed(node, values):
    """An aggregate that is of the values themselves."""
    known = [value for value in values if value is not None]
    if node.distinct:
        return len({"nan" if value != value else value for value in known})
    if node.name in ("first", "last"):
        return values[0 if node.name == "first" else -1] if values else None
    return (min if node.name == "min" else max)(known, default=None)


def made(rule, pairs, functions, window=((), None)):
    """The aggregates of a rule over tuples of rows; `window` are all rows of the window, and the last one to come."""
    parts = [*rule.select, *([rule.having] if rule.having else [])]
    nodes = [node for part in parts for node in tree.walk(part) if isinstance(node, s.Aggregate)]
    found = {}
    for node in nodes:
        if node.name in s.EDGES:
            continue
        if node.name == "prev":
            held, row = window
            at = next((n for n, rows in enumerate(held) if rows is row), -1) - node.offset
            found[show(node)] = value(node.argument, held[at], {}, functions) if at >= 0 else None
            continue
        values = [1 if node.argument is None else value(node.argument, rows, {}, functions) for rows in pairs]
        texts = node.name in ("min", "max") and any(isinstance(each, str) for each in values)
        if node.distinct or node.name in ("first", "last") or texts:
            found[show(node)] = listed(node, values)
            continue
        found[show(node)] = aggregate(
            HOW.get(node.name, node.name), [v if v is None or isinstance(v, str) else float(v) for v in values]
        )
    return found


class Model:
    """One rule."""

    def __init__(self, text, functions=None, streams=None, lateness=None):
        self.rule = parse(text)
        self.functions, self.streams, self.lateness = functions or {}, streams, lateness or 0
        self.sides = [Side(source, self.functions) for source in self.rule.sources]
        self.open, self.counts, self.lasts = {}, {}, {}

    def push(self, row, latest):
        """What comes out with a row: values by name."""
        found = self.results(row, latest)
        pace, key = self.rule.pace, row["#key"]
        if pace is None:
            return found
        if pace.events is not None:
            before = self.counts.get(key, 0)
            self.counts[key] = before + len(found)
            wanted = 0 if pace.which == "first" else pace.events - 1
            return [each for n, each in enumerate(found, before) if n % pace.events == wanted]
        span = round(pace.seconds * 1e6)
        if pace.which == "first":
            number, before = row["#time"] // span, self.counts.get(key, -(1 << 62))
            if not found or number <= before:
                return []
            self.counts[key] = number
            return found[:1]
        mark, out = latest - self.lateness, []
        for each in found:
            mine = self.lasts.setdefault(key, {})
            out += [mine.pop(number) for number in sorted(mine) if number < mark // span]
            mine[max(row["#time"], mark) // span] = each
        return out

    def results(self, row, latest):
        """What a row gives, before OUTPUT."""
        if len(self.sides) == 2:
            return self.join(row, latest)
        (side,) = self.sides
        if not side.takes(row, self.streams):
            return []
        if side.window.batch:
            return self.batch(side, row, latest)
        side.rows.append(row)
        rule = self.rule
        if not holds(rule.where, {side.alias: row}, {}, self.functions):
            return []
        group = self.group({side.alias: row})
        held = [{side.alias: other} for other in side.held(row, latest)]
        own = next((rows for rows in held if rows[side.alias] is row), None)
        pairs = [rows for rows in held if holds(rule.where, rows, {}, self.functions) and self.group(rows) == group]
        return self.select({side.alias: row}, made(rule, pairs, self.functions, (held, own)))

    def group(self, rows):
        return [value(each, rows, {}, self.functions) for each in self.rule.group]

    def select(self, rows, found, names=None):
        if not holds(self.rule.having, rows, found, self.functions):
            return []
        out = {}
        for item in self.rule.select:
            if isinstance(item, s.Star):
                for place, (alias, row) in enumerate(rows.items()):
                    mine = {name: v for name, v in row.items() if not name.startswith("#")}
                    out |= {f"{alias}_{name}" if place else name: v for name, v in mine.items()}
            else:
                named = item.name or (item.expression.name if isinstance(item.expression, s.Column) else None)
                out[named or show(item.expression)] = value(item.expression, rows, found, self.functions)
        return [out]

    def join(self, row, latest):
        lead, other = self.sides
        if not leads(lead) and leads(other):
            lead, other = other, lead
        aggregated = any(isinstance(node, s.Aggregate) for node in tree.walk(self.rule))
        out = []
        for one, two in ((lead, other), (other, lead)):
            if one is other and (aggregated or lead.source.stream == other.source.stream):
                continue
            if one is other and lead.window.kind == "everything":
                continue
            if one.takes(row, self.streams):
                pairs = [{one.alias: row, two.alias: that} for that in two.held(row, latest)]
                pairs = [rows for rows in pairs if holds(self.rule.where, rows, {}, self.functions)]
                if aggregated:
                    first = [c for c in tree.conjuncts(self.rule.where) if owners(c) <= {one.alias}]
                    if all(holds(c, {one.alias: row}, {}, self.functions) for c in first):
                        out += self.select({one.alias: row}, made(self.rule, pairs, self.functions))
                else:
                    for rows in pairs:
                        out += self.select({side.alias: rows[side.alias] for side in (lead, other)}, {})
        for side in self.sides:
            if side.takes(row, self.streams):
                side.rows.append(row)
        return out

    def batch(self, side, row, latest):
        key = row["#key"], *(row[name] for name in side.window.groups)
        mine = self.open.setdefault(key, [])
        if side.window.kind == "length_batch":
            mine.append(row)
            if len(mine) < side.window.rows:
                return []
            self.open[key] = []
            return self.release(side, mine, 0)
        span, mark = side.window.span, latest - self.lateness
        out = []
        for number in sorted({batch for batch, _ in mine}):
            if number < mark // span:
                out += self.release(side, [other for batch, other in mine if batch == number], number)
        self.open[key] = [pair for pair in mine if pair[0] >= mark // span]
        self.open[key].append((max(row["#time"], mark) // span, row))
        return out

    def ended(self, now=None):
        """What comes out when time has come so far, or at the end: batches of time that are over."""
        out = []
        for mine in self.lasts.values():
            span = round(self.rule.pace.seconds * 1e6)
            out += [mine.pop(number) for number in sorted(mine) if now is None or (number + 1) * span <= now]
        if len(self.sides) > 1:
            return out
        (side,) = self.sides
        for key, mine in self.open.items() if side.window.kind == "time_batch" else ():
            over = [pair for pair in mine if now is None or (pair[0] + 1) * side.window.span <= now]
            self.open[key] = [pair for pair in mine if pair not in over]
            for number in sorted({batch for batch, _ in over}):
                out += self.release(side, [row for batch, row in over if batch == number], number)
        return out

    def release(self, side, rows, number):
        return self.released(side, rows, number)[: self.rule.limit]

    def released(self, side, rows, number):
        seconds = side.window.span // 10**6
        edges = {"window_start()": number * seconds, "window_end()": (number + 1) * seconds}
        passing = [{side.alias: row} for row in rows if holds(self.rule.where, {side.alias: row}, {}, self.functions)]
        groups = {}
        for each in passing:
            groups.setdefault(tuple(self.group(each)), []).append(each)
        if not self.rule.group:
            groups = {"": passing}
        parts = [*self.rule.select, *([self.rule.having] if self.rule.having else [])]
        grouped = {show(each) for each in self.rule.group}
        found = {name: made(self.rule, members, self.functions) | edges for name, members in groups.items()}
        aggregated = any(isinstance(node, s.Aggregate) for part in parts for node in tree.walk(part))
        if aggregated and all(covered(part, grouped) for part in parts):
            return [
                out
                for name, members in groups.items()
                for out in self.select(members[0] if members else {}, found[name])
            ]
        return [
            out
            for rows in passing
            for out in self.select(rows, found[tuple(self.group(rows)) if self.rule.group else ""])
        ]


def leads(side):
    return side.window.last or side.window.kind == "everything"


def owners(condition):
    return {node.owner for node in tree.walk(condition) if isinstance(node, s.Column)}


def covered(node, groups):
    if isinstance(node, s.Item):
        return covered(node.expression, groups)
    if isinstance(node, s.Star):
        return False
    if isinstance(node, s.Aggregate | s.Literal) or show(node) in groups:
        return True
    return not isinstance(node, s.Column) and all(covered(child, groups) for child in tree.children(node))


def in_time(text, rows, keys, times, *, functions=None, streams=None, now=None):
    """All results of rows that come in the order of their times; with batches that are over at `now`, or all."""
    model = Model(text, functions, streams)
    out = []
    for place in sorted(range(len(rows)), key=lambda place: times[place]):
        row = {**rows[place], "#key": keys[place], "#time": times[place] * 10**6}
        out += model.push(row, row["#time"])
    return out + model.ended(None if now is None else now * 10**6)


def run(text, rows, keys, times=None, *, functions=None, streams=None, lateness=None):
    """(place, values) of all results, and the places of late rows."""
    model, latest, out, late = (
        Model(text, functions, streams, None if lateness is None else lateness * 10**6),
        {},
        [],
        [],
    )
    for place, (row, key) in enumerate(zip(rows, keys, strict=True)):
        time = 0 if times is None else times[place] * 10**6
        if lateness is not None and key in latest and time < latest[key] - lateness * 10**6:
            late.append(place)
            continue
        latest[key] = max(latest.get(key, time), time)
        out += [(place, found) for found in model.push({**row, "#key": key, "#time": time}, latest[key])]
    return out, late
