"""Parts of the demo, on the shared session: they run, and check their own results."""

import pytest
from rich.console import Console

from evenflow.cli.demo.show import PARTS
from evenflow.cli.demo.stage import Stage
from evenflow.eventlog.reading import LogReader
from evenflow.model.entries import RegionOpenedEntry


@pytest.mark.parametrize("name", ["ordered", "keyed", "graph"])
def test_a_part(spark, tmp_path, name):
    log = tmp_path / "events.jsonl"
    stage = Stage(Console(quiet=True), spark, seconds=4.0, workers=2, log=log)
    try:
        part = PARTS[name][1](stage)
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert part.sound
    assert part.without.figure > 0
    assert part.balanced.figure > 0
    assert len(part.balanced.seconds) == len(part.balanced.values) > 0
    regions = {entry.region for entry in LogReader(log).entries() if isinstance(entry, RegionOpenedEntry)}
    assert regions == {part.without.label, part.balanced.label}
