"""The node that runs rules: a keyed operator whose rules see the rows of a key in the order of their arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.graph.build.dialect import Dialect
from evenflow.graph.build.verbs import DetectSpec
from evenflow.graph.nodes.keying import KeyedNode, hosted_node, key_places

if TYPE_CHECKING:
    from evenflow.rules.expressions.functions import UserFunction


def bind_detect(name: str, spec: DetectSpec, rows: pa.Schema, dialect: Dialect) -> tuple[KeyedNode, pa.Schema]:
    """The node, and the columns that it gives: those of the rules, as `Cluster.detect` has them."""
    from evenflow.rules.operator import RuleOperator  # the parser comes with it: only those who use it pay

    who = f"detect '{name}'"
    key = key_places(who, spec.key, rows, dialect)
    time = None if spec.time is None else rows.names[dialect.column(rows, spec.time, who)]
    functions = {each: _function(function, dialect, who) for each, function in (spec.functions or {}).items()}
    names = [rows.names[place] for place in key]
    operator = RuleOperator(spec.rules, functions, variables=spec.variables, key=names, time=time, as_they_come=True)
    return hosted_node(who, operator, key, rows, spec, dialect)


def _function(function: Callable[..., object], dialect: Dialect, who: str) -> UserFunction | Callable[..., object]:
    """A user's function; with its type, if it was made with Spark's `pandas_udf`, which the dialect understands."""
    from evenflow.rules.expressions.functions import UserFunction

    returns, inner = getattr(function, "returnType", None), getattr(function, "func", None)
    if returns is None or not callable(inner):
        return function
    text = returns if isinstance(returns, str) else returns.simpleString()
    return UserFunction(inner, dialect.schema(f"value {text}", who).field(0).type)
