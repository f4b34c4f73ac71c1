"""A small checkpoint, and `evenflow state` run on it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.model.checkpoint import BatchLog
from evenflow.state.checkpoint.chain import QueryRecord, note_operators, query_record
from evenflow.state.checkpoint.manifest import Manifest, put_manifest
from evenflow.state.checkpoint.segments import SegmentWriter
from evenflow.state.checkpoint.unit_snapshots import pack_units
from evenflow.state.store.blob_names import log_name, units_name

SCHEMA = pa.schema({"x": pa.float64(), "hash": pa.int64()})
LIFE = "0.5f"


def run(*arguments):
    result = CliRunner().invoke(app, ["state", *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def write_epoch(store, region, query, epoch, rows=10):
    """Epoch after epoch, each with a log; the first one with a snapshot too."""
    segment = SegmentWriter(SCHEMA)
    columns = [pa.array(np.zeros(rows)), pa.array(np.arange(rows))]
    segment.rows(memoryview(pa.record_batch(columns, SCHEMA).serialize()))
    manifest = Manifest(region, query, "RollingMean('x')", 64, epoch, 1, (0,), logs=(BatchLog(epoch, 1, {LIFE: 1}),))
    store.put(log_name(manifest.prefix, epoch, 1, LIFE, 0), segment.finish())
    snapshot = units_name(manifest.prefix, epoch, LIFE, 0)
    store.put(snapshot, pack_units({unit: np.zeros(100) for unit in range(7)}))
    for kind, more in (("begun", {}), ("whole", {"logs": manifest.logs}), ("epoch", {"snapshots": (snapshot,)})):
        logs = {"logs": manifest.logs} if kind == "epoch" else {}
        put_manifest(store, replace(manifest, kind=kind, **{"logs": ()} | more | logs))
    note_operators(store, query, (query_record(store, query) or QueryRecord({})).added(region, 0))
