"""What is published of a log, and what could not be read of it."""

import json

import pytest

from evenflow.dashboard.web.feed import Feed
from evenflow.dashboard.web.sources import FileSource
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
    return published(feed), feed.exposition().decode().splitlines()


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
        "3 lines of events.jsonl could not be read and are left out, and none could: this is"
    )
    assert "Cluster(event_log=...)" in frame["note"]
    assert "evenflow_entries_unread_total 3.0" in metrics


def test_a_sound_log_has_no_note(path):
    frame, _ = followed(logs.write(path, logs.keyed_run(seconds=2)))
    assert (frame["note"], frame["unread"]) == ("", 0)
