"""What a keyed operator says of itself, checked when it is given: one clear error, and not at the first row."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.conform import fits
from evenflow.operators.keyed import KeyedOperator

COLUMN = b"evenflow.column"
"""The key in a field's metadata under which stands what Spark knows the column by; nothing if it is a new one."""
COLLATION = b"evenflow.collation"
"""The key under which stands the collation by which strings in the column are compared, where bytes are not enough."""


def spelled(operator: KeyedOperator, names: Sequence[str], case_sensitive: bool) -> KeyedOperator:
    """The operator with the columns it names spelled as they are; one that Spark would find is found.

    That is one in another case, or in backquotes. What is there as written is meant; a name that fits several columns
    in another case is left as it is.
    """
    meant: dict[str, str] = {}
    for attribute in operator.naming:
        given = getattr(operator, attribute)
        fit = fitting(given, names, case_sensitive) if isinstance(given, str) else []
        if len(fit) == 1 and names[fit[0]] != given:
            meant[given] = names[fit[0]]
    if not meant:
        return operator
    found = copy.copy(operator)
    for attribute in operator.naming:
        given = getattr(operator, attribute)
        setattr(found, attribute, meant.get(given, given))
    found.hashed = tuple(meant.get(name, name) for name in operator.hashed)
    return found


def fitting(given: str, names: Sequence[str], case_sensitive: bool) -> list[int]:
    """The places of the columns that a name means: those called so, else in backquotes, else in another case."""
    bare = given[1:-1].replace("``", "`") if len(given) > 2 and given[0] == given[-1] == "`" else given
    for text in (given, bare):
        places = [place for place, name in enumerate(names) if name == text]
        if places:
            return places
    return [] if case_sensitive else [place for place, name in enumerate(names) if name.lower() == bare.lower()]


def check_apart(operator: KeyedOperator, names: Sequence[str], case_sensitive: bool) -> None:
    """Refuse an operator that adds a column which Spark could not tell from one that is there."""
    into = getattr(operator, "into", "")
    alike = [name for name in names if name != into and name.lower() == str(into).lower()]
    if operator.adds and alike and not case_sensitive:
        raise InvalidArgument(
            f"{operator} adds column '{into}', and the rows have '{alike[0]}', which Spark does not tell from it: give "
            "another into="
        )


def columns_of(operator: KeyedOperator, rows: pa.Schema) -> pa.Schema:
    """The columns it returns; NotImplementedError if it does not say."""
    returned = operator.schema(rows)
    if not isinstance(returned, pa.Schema) or not len(returned):
        raise InvalidArgument(
            f"{type(operator).__name__}.schema returned {returned!r:.100}: return a pyarrow.Schema with the columns of "
            "the result, as rows.append(pa.field(name, type))"
        )
    return returned


def check_declared(operator: KeyedOperator, rows: pa.Schema, declared: pa.Schema) -> None:
    """Refuse a schema that what the operator returns, if it says so, does not fit."""
    try:
        returned = columns_of(operator, rows)
    except NotImplementedError:
        return
    name = type(operator).__name__
    if sorted(returned.names) != sorted(declared.names):
        raise InvalidArgument(
            f"the schema declares columns {declared.names}, and {name} returns {returned.names}: leave the schema out, "
            "or declare these"
        )
    for field in declared:
        found = returned.field(returned.names.index(field.name)).type
        if not fits(found, field.type):
            raise InvalidArgument(
                f"the schema declares column {field.name!r} as {field.type}, and {name} returns {found}: leave the "
                "schema out, or declare that"
            )


def as_new(field: pa.Field) -> pa.Field:
    """A field that is not to be taken for the rows' column of that name."""
    return field.with_metadata({COLUMN: b""})


def as_struct(name: str, columns: list[pa.Field]) -> pa.Field:
    """A field that holds rows as they were; Spark knows their columns by what it knew them by."""
    made = pa.field(name, pa.struct([pa.field(column.name, column.type) for column in columns]))
    told = [json.loads(column.metadata[COLUMN]) for column in columns if (column.metadata or {}).get(COLUMN)]
    if len(told) != len(columns):
        return made
    fields = [{**column, "nullable": True} for column in told]
    known = {"name": name, "type": {"type": "struct", "fields": fields}, "nullable": True, "metadata": {}}
    return made.with_metadata({COLUMN: json.dumps(known)})


def collation_of(field: pa.Field) -> str:
    """The collation of a column's strings, empty if they are equal only if their bytes are."""
    return str((field.metadata or {}).get(COLLATION, b"").decode())


def reads_of(operator: KeyedOperator, rows: pa.Schema) -> list[str]:
    """The columns it reads."""
    given: Any = operator.reads(rows)
    if isinstance(given, str):
        return [given]
    names: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"{type(operator).__name__}.reads returned {given!r:.100}: return a list of column names")
    return names
