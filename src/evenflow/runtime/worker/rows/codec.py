"""The content of frames between feeders and a worker: reads rows and schemas, packs results and errors.

Functions import pyarrow when they need it: a worker without an operator stays small.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.errors import FunctionError, ProtocolError, described
from evenflow.model.messages import OperatorFailed
from evenflow.runtime.wire.frames import MAX_BODY, Frame
from evenflow.runtime.wire.messages import packed

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from evenflow.runtime.worker.rows.instances import Answer

RESULT_BYTES = 8 * 1024 * 1024
"""Larger results are sent in parts."""


def read_schema(frame: Frame) -> pa.Schema:
    """The schema of a feeder's rows."""
    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.py_buffer(frame.body))
    except Exception as error:  # Arrow has no one class for bytes it cannot read
        raise ProtocolError(f"a SCHEMA frame holds no schema: {error}") from None


def read_batch(frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """A feeder's rows."""
    return read_rows(frame.body, schema, f"frame {frame.sequence}")


def read_rows(body: bytes | bytearray | memoryview, schema: pa.Schema, what: str = "a FLOW frame") -> pa.RecordBatch:
    """The rows that `what` holds."""
    import pyarrow as pa

    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(body), schema)
        batch.validate()
        for column in batch.columns:
            _check(column)
    except Exception as error:
        raise ProtocolError(f"{what} is no record batch of its schema: {error}") from None
    return batch


def _check(column: pa.Array) -> None:
    """Refuse a column that would be read beyond its bytes. Numbers cannot be; texts cost 1 ns a row here."""
    import pyarrow.types as pt

    kind = column.type
    if pt.is_primitive(kind) or pt.is_null(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind):
        return
    wide = pt.is_large_string(kind) or pt.is_large_binary(kind)
    if pt.is_nested(kind):
        column.view(_as_bytes(kind)).validate(full=True)
    elif not wide and not pt.is_string(kind) and not pt.is_binary(kind):
        column.validate(full=True)
    elif len(column):
        import numpy as np

        edges: npt.NDArray[np.integer] = np.frombuffer(column.buffers()[1], np.int64 if wide else np.int32)
        edges = edges[column.offset : column.offset + len(column) + 1]
        if (edges[1:] < edges[:-1]).any():
            raise ValueError("the places of its texts are not in order")


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """A type of the same layout, with bytes for texts, which may be no UTF-8.

    Fields may be null, also those that may not: where a struct of Spark is null, so are its fields.
    """
    import pyarrow as pa

    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([_may_be_null(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _may_be_null(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_may_be_null(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_may_be_null(kind.value_field))
    return kind


def _may_be_null(field: pa.Field) -> pa.Field:
    return field.with_type(_as_bytes(field.type)).with_nullable(True)


def parts_of(answer: Answer) -> list[memoryview]:
    """Results, with their places if these are told, as bodies of about RESULT_BYTES at most, one at least."""
    if answer.origin is None:
        return [body for _, body in batch_parts(answer.batch)]
    import pyarrow as pa

    from evenflow.operators.hosted import ORIGIN

    told = answer.batch.append_column(ORIGIN, pa.array(answer.origin))
    return [body for _, body in batch_parts(told)]


def batch_parts(batch: pa.RecordBatch, uncut: bool = False) -> Iterator[tuple[int, memoryview]]:
    """Rows in parts of about RESULT_BYTES at most, one at least: how many rows, and the body of a frame with them."""
    count = 1 if uncut else max(1, -(-batch.nbytes // RESULT_BYTES))
    step = max(1, -(-batch.num_rows // count))
    for start in range(0, max(1, batch.num_rows), step):
        piece = batch if count == 1 else batch.slice(start, step)
        body = memoryview(piece.serialize())
        if body.nbytes > MAX_BODY:
            raise FunctionError(
                f"{piece.num_rows} rows of the result take {body.nbytes} bytes, over the {MAX_BODY} bytes a frame can "
                "hold: return smaller values"
            )
        yield piece.num_rows, body


def error_body(worker: int, error: BaseException, where: str) -> bytes:
    """The body of an ERROR frame: an error, and the row that it seems to come from."""
    _cut(error)
    trace = "".join(traceback.format_exception(error))
    return packed(OperatorFailed(worker, where, _printable(described(error)), _printable(trace[-20_000:])))


def _cut(error: BaseException) -> None:
    """Let the tracebacks of an error, and of its causes, begin with the user's own code.

    A traceback without code of the user stays whole. That of a `FunctionError` goes: its text says what is wrong.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        rest = each.__traceback__
        while rest is not None and str(rest.tb_frame.f_globals.get("__name__", "")).startswith("evenflow."):
            rest = rest.tb_next
        if rest is not None or isinstance(each, FunctionError):
            each.__traceback__ = rest
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _printable(text: str) -> str:
    """Without lone surrogates, which Spark cannot pass on."""
    return text.encode("utf-8", "backslashreplace").decode()
