"""Newswire stories of 1987 in the order of their times, read from a tab-separated file, gzipped or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from evenflow.errors import InvalidArgument

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "time": pa.timestamp("us"),
        "topics": pa.string(),
        "title": pa.string(),
        "body": pa.string(),
        "text": pa.string(),
    }
)
"""Topics are separated by spaces; the text is title and body."""
COLUMNS = ("time", "id", "topics", "title", "body")


def stories(path: str | Path, size: int = 1000) -> Iterator[pa.RecordBatch]:
    """The stories that have a time, earliest first, in batches of `size`."""
    try:
        raw = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=list(COLUMNS), block_size=1 << 24),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string())),
        )
        raw = raw.filter(pc.not_equal(raw["time"], ""))
        times = raw["time"].cast(SCHEMA.field("time").type, safe=False)
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidArgument(f"{path} holds no stories (time, id, topics, title and body, by tabs): {error}") from None
    texts = pc.binary_join_element_wise(raw["title"], raw["body"], "\n")
    table = pa.table([raw["id"].cast(pa.int64()), times, raw["topics"], raw["title"], raw["body"], texts], SCHEMA)
    yield from table.sort_by("time").combine_chunks().to_batches(size)
