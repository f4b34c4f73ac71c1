"""What is published of a log: how far it is read, and what could not be read of it."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from evenflow.cli import dashboard as command
from evenflow.dashboard.web import feed as feeding
from evenflow.dashboard.web.feed import Feed
from evenflow.dashboard.web.sources import FileSource, MemorySource
from tests.support import event_logs as logs


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def published(feed):
    feed.publish()
    return json.loads(feed.frame)


def followed(path):
    """The frame and the metrics of a log, once all of it has been read."""
    feed = Feed(FileSource(path))
    while feed.take():
        continue
    feed.reading = False
    return published(feed), feed.exposition().decode().splitlines()


def test_it_is_told_how_far_a_long_log_is_read(path, monkeypatch):
    monkeypatch.setattr(feeding, "AT_ONCE", 10)
    feed = Feed(FileSource(logs.write(path, logs.keyed_run(seconds=20))))
    told = [json.loads(feed.frame)["reading"]]
    while feed.take():
        told.append(published(feed)["reading"])
    assert told == sorted(told)
    assert (told[0], 0.5 < told[-1] < 1.0, len(set(told))) == (0.0, True, len(told))
    feed.reading = False
    assert published(feed)["reading"] is None
    assert json.loads(feed.at(logs.START + 5.0))["reading"] is None  # the past is not being read


def test_it_is_told_how_far_it_is_also_when_much_comes_later(path, monkeypatch):
    """As when a log grows by more than is taken in within a second; the clock waits until it has been."""
    monkeypatch.setattr(feeding, "AT_ONCE", 10)
    monkeypatch.setattr(feeding, "PERIOD_S", 0.0)
    more, told = logs.keyed_run(seconds=20), []
    feed = Feed(FileSource(logs.write(path, [logs.joined(0)]), clock=lambda: logs.START + 30 * bool(told)))

    async def publish():
        frame = published(feed)
        told.append((frame["reading"], frame["time"] - logs.START))
        if len(told) == 1:
            logs.write(path, more)
        elif frame["reading"] is None:
            feed.close()

    monkeypatch.setattr(feed, "_publish", publish)
    asyncio.run(feed.run())
    assert told[0] == (None, 0.0)
    assert told[-1] == (None, 30.0)
    assert [share for share, _ in told[1:-1]] == sorted({share for share, _ in told[1:-1]})
    assert len(told) == 2 + len(more) // 10
    assert max(time for _, time in told[1:-1]) < 21


def test_the_part_that_is_read_counts_all_pieces(path):
    for name in (path.with_name("events.jsonl.1"), path):
        logs.write(name, logs.keyed_run(seconds=10))
    source = FileSource(path)
    entries, half = source.entries(), len(logs.keyed_run(seconds=10))
    shares = [source.share for _ in entries]
    assert shares[half - 1] == pytest.approx(0.5, abs=0.02)
    assert source.share == 1.0


def test_a_cluster_in_this_process_is_not_read():
    assert MemorySource("cluster", lambda number: ([], number)).share == 1.0


def test_a_terminal_says_how_far_it_is(monkeypatch):
    shown = Console(force_terminal=True, record=True, width=80)
    monkeypatch.setattr(command, "console", shown)
    feed = SimpleNamespace(reading=True, source=SimpleNamespace(share=0.374))
    monkeypatch.setattr(command.time, "sleep", lambda seconds: setattr(feed, "reading", False))
    command.show_reading(SimpleNamespace(alive=True, feed=feed))
    assert "reading the log, 37 %" in shown.export_text()


def test_lines_that_are_no_entries_are_counted_and_told_of(path):
    logs.write(path, logs.keyed_run(seconds=4))
    with path.open("ab") as file:
        file.write(b'{"time": 1.0, "ev\n\xff\xfe\n[1]\n')
    logs.write(path, [logs.entry(4.5, "moved", region="orders", units="x")])
    frame, metrics = followed(path)
    assert frame["unread"] == 4
    assert (
        frame["note"] == "4 lines of events.jsonl could not be read and are left out: damaged, or of another version."
    )
    assert "evenflow_entries_unread_total 4.0" in metrics


def test_a_file_that_is_no_log_is_said_to_be_none(path):
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x01\n")
    frame, metrics = followed(path)
    assert frame["state"] == "empty"
    assert frame["note"].startswith(
        "3 lines of events.jsonl could not be read, and no other could: this is no event log"
    )
    assert "Cluster(event_log=...)" in frame["note"]
    assert "evenflow_entries_unread_total 3.0" in metrics


def test_a_sound_log_has_no_note(path):
    frame, _ = followed(logs.write(path, logs.keyed_run(seconds=2)))
    assert (frame["note"], frame["unread"]) == ("", 0)
