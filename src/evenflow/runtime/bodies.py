"""What is in the frames between feeders and a worker, as the worker sees it: rows come; results and errors go.

pyarrow is imported by those who need it: a worker without an operator stays small.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from evenflow.errors import FunctionError, ProtocolError
from evenflow.runtime.frames import MAX_BODY, Frame

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.runtime.copies import Answer

RESULT_BYTES = 8 * 1024 * 1024
"""Larger results are sent in parts."""


def read_schema(frame: Frame) -> pa.Schema:
    """The schema of a feeder's rows."""
    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.py_buffer(frame.body))
    except (pa.ArrowException, OSError, EOFError) as error:  # Arrow has no one class for bytes it cannot read
        raise ProtocolError(f"a SCHEMA frame holds no schema: {error}") from None


def read_batch(frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """A feeder's rows."""
    import pyarrow as pa

    try:
        return pa.ipc.read_record_batch(pa.py_buffer(frame.body), schema)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise ProtocolError(f"frame {frame.sequence} is no record batch of its schema: {error}") from None


def parts_of(answer: Answer) -> list[memoryview]:
    """Results, with their places if these are told, as bodies of about RESULT_BYTES at most, one at least."""
    if answer.origin is None:
        return list(_parts(answer.batch))
    import pyarrow as pa

    from evenflow.operators.hosted import ORIGIN

    return list(_parts(answer.batch.append_column(ORIGIN, pa.array(answer.origin))))


def _parts(batch: pa.RecordBatch) -> Iterator[memoryview]:
    count = max(1, -(-batch.nbytes // RESULT_BYTES))
    step = max(1, -(-batch.num_rows // count))
    for start in range(0, max(1, batch.num_rows), step):
        piece = batch if count == 1 else batch.slice(start, step)
        body = memoryview(piece.serialize())
        if body.nbytes > MAX_BODY:
            raise FunctionError(
                f"{piece.num_rows} rows of the result take {body.nbytes} bytes, over the {MAX_BODY} bytes a frame can "
                "hold: return smaller values"
            )
        yield body


def error_body(worker: int, error: BaseException, where: str) -> bytes:
    """What went wrong, and which row it seems to come from."""
    trace = "".join(traceback.format_exception(type(error), error, _without_ours(error.__traceback__)))
    said = {"error": _printable(_summary(error)), "traceback": _printable(trace[-20_000:])}
    return json.dumps({"worker": worker, "where": where} | said).encode()


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Where the user's own code begins; all of it if there is none."""
    rest = trace
    while rest is not None and str(rest.tb_frame.f_globals.get("__name__", "")).startswith("evenflow."):
        rest = rest.tb_next
    return rest or trace


def _summary(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own text fails
        return type(error).__name__


def _printable(text: str) -> str:
    """Without lone surrogates, which Spark cannot pass on."""
    return text.encode("utf-8", "backslashreplace").decode()
