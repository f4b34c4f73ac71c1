"""Entries of the event log for tests of what the controller writes, by the names that users read in the log."""

from evenflow.model.entries import RawEntry, as_dict, entry_of


def record(time, event, fields):
    """An entry as the controller gives it, which is not written yet."""
    found = entry_of({"time": time, "event": event, **fields})
    assert not isinstance(found, RawEntry) or not found.why, found.why
    return found


def latency_fields(latencies):
    """What is written of latencies in an entry."""
    told = {"total_s": latencies.total_s, "buckets": {str(bucket): rows for bucket, rows in latencies.rows.items()}}
    return told | ({"latency_ms": latencies.summary_ms} if latencies else {})


def fields_of(entry):
    """What is written of an entry beside what all of them have."""
    return {name: value for name, value in as_dict(entry).items() if name not in ("time", "at", "event")}
