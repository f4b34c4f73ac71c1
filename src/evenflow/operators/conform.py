"""Fits the result of a user's function to the declared schema, or says exactly what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from evenflow.errors import FunctionError


def conform(result: object, schema: pa.Schema, who: str = "the function") -> pa.RecordBatch:
    """`result`, returned by `who`, with exactly the declared columns, in order, of exactly the declared types.

    Columns are matched by name. A column may be cast where no value can change its meaning: dictionary-encoded to
    plain, narrower to wider numbers, time units, from one zone to another, large to plain strings. Anything else is an
    error.
    """
    batch = one_batch(result.columns, result.schema) if isinstance(result, pa.Table) else result
    if not isinstance(batch, pa.RecordBatch):
        raise FunctionError(f"{who} returned {type(batch).__name__}, not a pyarrow.RecordBatch")
    if not batch.schema.equals(schema):
        batch = _cast(batch, schema, who)
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise FunctionError(f"column '{field.name}' has {column.null_count} nulls, the schema declares it not null")
    return batch


def refit(rows: pa.RecordBatch, schema: pa.Schema, read: Collection[str] = ()) -> pa.RecordBatch:
    """Rows of an earlier run of a query, with the columns that it has now.

    A column that is new is null in them, one that is gone is left out. A new column among those that the operator reads
    (`read`) is an error: its values are not known. So is a column that has another type now, unless no value changes
    its meaning, and one whose name is there more than once.
    """
    names = rows.schema.names
    if names == schema.names:
        columns = rows.columns
    else:
        columns = [_earlier(rows, field, field.name in read, schema) for field in schema]
    fitting = []
    for field, column in zip(schema, columns, strict=True):
        try:
            fitting.append(_column(column, field))
        except FunctionError:
            raise FunctionError(
                f"rows of an earlier run of the query have column '{field.name}' as {column.type}, and it is "
                f"{field.type} now: cast it to what it was, or give the new one another name"
            ) from None
    return pa.RecordBatch.from_arrays(fitting, names=schema.names)


def _earlier(rows: pa.RecordBatch, field: pa.Field, read: bool, schema: pa.Schema) -> pa.Array:
    """A column of rows of an earlier run, or nulls if it is new and the operator does not read it."""
    names, alike = rows.schema.names, [each for each in rows.schema.names if each.lower() == field.name.lower()]
    if len(alike) > 1 or schema.names.count(field.name) > 1:
        raise FunctionError(
            f"rows of an earlier run of the query have columns {names}, and it has {schema.names} now: which is which "
            f"is not known where '{field.name}' is there more than once. Give columns different names"
        )
    if alike and alike[0] != field.name:
        raise FunctionError(f"column '{alike[0]}' of an earlier run of the query is '{field.name}' now: keep its name")
    if not alike and read:
        raise FunctionError(
            f"rows of an earlier run of the query lack column '{field.name}', which the operator reads: leave out "
            "what is new and reads it, such as an aggregate; give the operator another name=, which begins with empty "
            "state; or, if the column only passes through it, say so by `reads` of the operator"
        )
    return rows.column(field.name) if alike else pa.nulls(rows.num_rows, field.type)


def _cast(result: pa.RecordBatch, schema: pa.Schema, who: str) -> pa.RecordBatch:
    names, wanted = result.schema.names, schema.names
    if sorted(names) != sorted(wanted):
        missing, extra = sorted(set(wanted) - set(names)), sorted(set(names) - set(wanted))
        raise FunctionError(
            f"{who} returned columns {names}, the schema declares {wanted}"
            + (f"; missing: {missing}" if missing else "")
            + (f"; not declared: {extra}" if extra else "")
        )
    columns = [_column(result.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if not fits(column.type, field.type):
        raise FunctionError(f"column '{field.name}' is {column.type}, the schema declares {field.type}")
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise FunctionError(f"column '{field.name}' does not fit {field.type}: {error}") from None


def fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type keep their meaning in the other (the cast itself still checks ranges)."""
    is_ = pa.types
    if source == target or is_.is_null(source):
        return True
    if is_.is_dictionary(source):
        return fits(source.value_type, target)
    if is_.is_floating(target):
        return bool(is_.is_integer(source) or is_.is_floating(source))
    if is_.is_timestamp(target):  # a local time and an instant are different things
        return is_.is_timestamp(source) and (source.tz is None) == (target.tz is None)
    for family in (is_.is_integer, is_.is_decimal, is_.is_duration, _is_text, _is_bytes):
        if family(target):
            return bool(family(source))
    if _is_list(target):
        return _is_list(source) and fits(source.value_type, target.value_type)
    if is_.is_map(target):
        return (
            is_.is_map(source) and fits(source.key_type, target.key_type) and fits(source.item_type, target.item_type)
        )
    if is_.is_struct(target):
        return (
            is_.is_struct(source)
            and [f.name for f in source] == [f.name for f in target]
            and all(fits(a.type, b.type) for a, b in zip(source, target, strict=True))
        )
    return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def one_batch(columns: Iterable[pa.ChunkedArray], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of tables as one batch."""
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in columns], schema=schema)
