"""What a keyed operator declares about itself, checked before any row comes, so that errors are early and clear."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.conform import fits
from evenflow.operators.keyed import KeyedOperator

COLUMN = b"evenflow.column"
"""The key in a field's metadata for Spark's own description of the column (JSON), which is empty for new columns."""
COLLATION = b"evenflow.collation"
"""The key in a field's metadata for the collation of a string column whose strings are not compared by bytes."""


def spelled(operator: KeyedOperator, names: Sequence[str], case_sensitive: bool) -> KeyedOperator:
    """The operator (or a copy) with the column names it was given replaced by the columns' real names.

    A name is resolved as Spark would: exact, else in backquotes, else in another case. A name that fits several columns
    in another case is left as it is.
    """
    meant: dict[object, str] = {}
    for attribute in operator.naming:
        for given in _several(getattr(operator, attribute)):
            fit = fitting(given, names, case_sensitive) if isinstance(given, str) else []
            if len(fit) == 1 and names[fit[0]] != given:
                meant[given] = names[fit[0]]
    if not meant:
        return operator
    found = copy.copy(operator)
    for attribute in operator.naming:
        given = getattr(operator, attribute)
        now = tuple(meant.get(name, name) for name in _several(given))
        setattr(found, attribute, now if isinstance(given, tuple) else now[0])
    found.hashed = tuple(meant.get(name, name) for name in operator.hashed)
    return found


def _several(given: object) -> tuple[object, ...]:
    """Names that an attribute holds: one, or a tuple of them."""
    return given if isinstance(given, tuple) else (given,)


def fitting(given: str, names: Sequence[str], case_sensitive: bool) -> list[int]:
    """The positions of the columns that a name means: an exact match, else in backquotes, else in another case."""
    bare = given[1:-1].replace("``", "`") if len(given) > 2 and given[0] == given[-1] == "`" else given
    for text in (given, bare):
        places = [place for place, name in enumerate(names) if name == text]
        if places:
            return places
    return [] if case_sensitive else [place for place, name in enumerate(names) if name.lower() == bare.lower()]


def check_apart(operator: KeyedOperator, names: Sequence[str], case_sensitive: bool) -> None:
    """Refuse an operator that adds a column whose name differs from that of another one in case only."""
    if case_sensitive or not operator.adds:
        return
    new = [str(into) for into in _several(operator.into)]
    for into in new:
        alike = [name for name in (*names, *new) if name != into and name.lower() == into.lower()]
        if alike:
            whose = "the rows have" if alike[0] in names else "adds"
            raise InvalidArgument(
                f"{operator} adds column '{into}', and {whose} '{alike[0]}', which Spark does not tell from it: "
                f"{operator.other_name}"
            )


def columns_of(operator: KeyedOperator, rows: pa.Schema) -> pa.Schema:
    """The columns that the operator returns; NotImplementedError if it does not say."""
    returned = operator.schema(rows)
    if not isinstance(returned, pa.Schema) or not len(returned):
        raise InvalidArgument(
            f"{type(operator).__name__}.schema returned {returned!r:.100}: return a pyarrow.Schema with the columns of "
            "the result, as rows.append(pa.field(name, type))"
        )
    return returned


def check_declared(operator: KeyedOperator, rows: pa.Schema, declared: pa.Schema) -> None:
    """Refuse a declared schema that does not fit the columns the operator says it returns, if it says so."""
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
    """The field marked as a new column, so that it is not taken for an input column of the same name."""
    return field.with_metadata({COLUMN: b""})


def as_struct(name: str, columns: list[pa.Field]) -> pa.Field:
    """A struct field that holds whole input rows; Spark's descriptions of their columns are kept inside."""
    made = pa.field(name, pa.struct([pa.field(column.name, column.type) for column in columns]))
    told = [json.loads(column.metadata[COLUMN]) for column in columns if (column.metadata or {}).get(COLUMN)]
    if len(told) != len(columns):
        return made
    fields = [{**column, "nullable": True} for column in told]
    known = {"name": name, "type": {"type": "struct", "fields": fields}, "nullable": True, "metadata": {}}
    return made.with_metadata({COLUMN: json.dumps(known)})


def collation_of(field: pa.Field) -> str:
    """The collation of a column's strings; empty if strings are equal only when their bytes are."""
    return str((field.metadata or {}).get(COLLATION, b"").decode())


def reads_of(operator: KeyedOperator, rows: pa.Schema) -> list[str]:
    """The names of the columns that the operator reads."""
    given: object = operator.reads(rows)
    if isinstance(given, str):
        return [given]
    told = list(given) if isinstance(given, Iterable) else [None]
    names = [name for name in told if isinstance(name, str)]
    if len(names) < len(told):
        raise InvalidArgument(f"{type(operator).__name__}.reads returned {given!r:.100}: return a list of column names")
    return names
