"""What a worker notes of a query: segments in order, who is told when, which units are saved."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.worker import query_log
from evenflow.runtime.worker.query_log import QueryLog
from evenflow.state.checkpoint.segments import Rows, Tenure, read_segment
from evenflow.state.store.blob_names import parse
from tests.support.query_log_model import SCHEMA, UNITS, FakeJournal, Sums, rows, saved


def made(**options):
    return QueryLog("r", "query q", "0.7", FakeJournal(), UNITS, **options)


def log(noted, *units):
    noted.log(rows(*units), SCHEMA, np.array(units, np.int32))


def kinds(put):
    name, content, _ = put
    return [
        (record.move, record.units) if isinstance(record, Tenure) else record.batch.num_rows
        for record in read_segment(content, name)[1]
        if isinstance(record, Rows | Tenure)
    ]


# -- the log


def test_a_segment_is_put_when_it_is_full_and_when_somebody_asks_for_the_end(monkeypatch):
    monkeypatch.setattr(query_log, "SEGMENT_BYTES", (1, 1 << 20))
    noted = made()
    noted.enter(3, 2)
    log(noted, 0, 1)
    log(noted, 2)
    assert [name for name, _, _ in noted.blob_writer.puts] == ["r/q/log/3.2.0.7.0"]
    noted.end("feeder")
    assert [name for name, _, _ in noted.blob_writer.puts] == ["r/q/log/3.2.0.7.0", "r/q/log/3.2.0.7.1"]
    assert [kinds(put) for put in noted.blob_writer.puts] == [[2], [1]]
    noted.end("another")
    assert len(noted.blob_writer.puts) == 2


def test_ticks_have_segments_of_their_own():
    ticks = pa.schema([("now", pa.int64()), ("key", pa.int64())])
    body = pa.record_batch([pa.array([5, 5]), pa.array([0, 1])], schema=ticks).serialize()
    noted = made()
    noted.enter(0, 1)
    noted.arrived(7, [3], np.array([0]))
    log(noted, 0, 1)
    log(noted, 2)
    noted.arrived(8, [2], np.array([0]))
    noted.log(memoryview(body), ticks, np.array([0, 1], np.int32))
    noted.end("feeder")
    assert [kinds(put) for put in noted.blob_writer.puts] == [[(7, [3]), 2, 1], [(8, [2]), 2]]
    assert [read_segment(content, name)[0] for name, content, _ in noted.blob_writer.puts] == [SCHEMA, ticks]


def test_who_asks_is_told_when_all_before_is_durable():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.end("one")
    log(noted, 1)
    noted.end("other")
    assert noted.acknowledged() == []
    noted.put((0, 1), "")
    assert noted.acknowledged() == ["one"]
    noted.put((0, 1), "")
    assert (noted.acknowledged(), noted.durable) == (["other"], 2)


def test_a_segment_that_cannot_be_put_is_told_to_all_who_wait():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.end("one")
    noted.put((0, 1), "no room")
    assert (noted.acknowledged(), noted.error) == (["one"], "no room")


def test_news_of_an_earlier_attempt_do_not_count():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.end("one")
    noted.enter(0, 2)
    log(noted, 0)
    noted.end("two")
    noted.put((0, 1), "")
    assert noted.acknowledged() == []
    assert noted.durable == 0


def test_rows_of_an_earlier_attempt_are_too_late():
    noted = made()
    noted.enter(2, 2)
    for late in ((2, 1), (1, 9)):
        with pytest.raises(ProtocolError, match=r"came after those of batch 2, attempt 2: they are too late"):
            noted.enter(*late)
    assert noted.enter(2, 2) is False
    assert noted.enter(3, 1) is True


def test_units_that_arrive_are_noted_before_their_rows():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.arrived(5, [1, 2], np.array([-1, -1]))
    noted.arrived(8, [1], np.array([-1]))
    log(noted, 1)
    noted.end("one")
    assert kinds(noted.blob_writer.puts[0]) == [1, (5, [1, 2]), (8, [1]), 1]


def test_units_that_arrive_between_batches_are_noted_in_the_next():
    noted = made()
    noted.enter(0, 1)
    noted.arrived(5, [1], np.array([0]))
    noted.enter(1, 1)
    log(noted, 1)
    noted.end("one")
    assert kinds(noted.blob_writer.puts[0]) == [(5, [1]), 1]


# -- snapshots


def test_units_are_saved_as_they_were_at_the_end_of_the_batch_before():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0, 2)
    noted.end("feeder")
    noted.blob_writer.done()
    noted.enter(1, 1)
    noted.save(Sums(u0=1, u2=5), 0)
    epoch, states, about = saved(noted.blob_writer.puts[0])
    assert (epoch, states) == (0, {0: 1, 2: 5})
    assert about.units.tolist() == [0, 2]
    noted.enter(2, 1)
    noted.save(Sums(u0=1, u2=5), 1)
    assert len(noted.blob_writer.puts) == 1


def test_units_with_rows_of_the_batch_that_begins_are_not_saved():
    """One came from a worker where the batch had begun already."""
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.arrived(5, [1], np.array([1]))
    noted.enter(1, 1)
    noted.save(Sums(u0=1, u1=7), 0)
    assert saved(noted.blob_writer.puts[0])[1] == {0: 1}


def test_units_that_have_left_are_not_saved():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0, 1)
    noted.enter(1, 1)
    noted.save(Sums(u0=1), 0, np.array([False, True, False, False]))
    assert saved(noted.blob_writer.puts[0])[1] == {0: 1}


def test_the_longest_unsaved_come_first_and_no_more_than_were_logged(monkeypatch):
    monkeypatch.setattr(query_log, "CYCLE", 4)
    monkeypatch.setattr(query_log, "SLICE_BYTES", 150)
    noted = made()
    sums = Sums(u0=1, u1=2, u2=3, u3=4)
    found = []
    for epoch in range(4):
        noted.enter(epoch, 1)
        noted.save(sums, epoch - 1)
        log(noted, 0, 1, 2, 3)
        noted.end("somebody")
        found += [
            (about.epoch, about.units.tolist()) for *_, about in noted.blob_writer.puts if hasattr(about, "units")
        ]
        noted.blob_writer.puts.clear()
    assert found == [(0, [0, 1]), (1, [2, 3]), (2, [0, 1])]


def test_units_without_further_rows_are_saved_within_one_cycle(monkeypatch):
    monkeypatch.setattr(query_log, "CYCLE", 4)
    noted = QueryLog("r", "query q", "0.7", FakeJournal(), 64)
    noted.enter(0, 1)
    noted.touched[:] = 0
    for epoch in range(1, 6):
        noted.enter(epoch, 1)
        noted.save(Sums(), epoch - 1)
    assert sorted(unit for *_, about in noted.blob_writer.puts for unit in about.units.tolist()) == list(range(64))
    assert len(noted.blob_writer.puts) == 4


def test_a_snapshot_that_could_not_be_put_is_taken_again():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.enter(1, 1)
    noted.save(Sums(u0=1), 0)
    about = noted.blob_writer.puts[0][2]
    noted.not_saved(about.units, about.epoch)
    noted.enter(2, 1)
    noted.save(Sums(u0=1), 1)
    assert [parse(name).epoch for name, _, _ in noted.blob_writer.puts] == [0, 1]
    assert noted.blob_writer.puts[0][0] != noted.blob_writer.puts[1][0]
    noted.not_saved(about.units, about.epoch)  # of the first: the second counts
    noted.enter(3, 1)
    noted.save(Sums(u0=1), 2)
    assert len(noted.blob_writer.puts) == 2
