"""What a worker notes of a query: segments in order, who is told when, which units are saved."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.worker.limits import WorkerLimits
from evenflow.runtime.worker.saving.query_log import QueryLog
from evenflow.state.checkpoint.segments import AppliedRows, Tenure, read_segment
from evenflow.state.store.blob_names import parse
from tests.support.query_log_model import SCHEMA, UNITS, rows


class Noted(QueryLog):
    """A query log; what it wants put is in `puts`, and each unit of the state takes 100 bytes."""

    def __init__(self, units=UNITS, **limits):
        super().__init__("r", "query q", "0.7", units, WorkerLimits(**limits))
        self.puts = []

    def rows(self, *units):
        self.puts += self.log(rows(*units), SCHEMA, np.array(units, np.int32))

    def end(self, feeder):
        self.puts += super().end(feeder)

    def snapshot(self, epoch, away=None):
        """The units that are saved at the end of a batch."""
        due = self.due(epoch, away)
        if not len(due):
            return []
        chosen = self.choose(due, np.full(len(due), 100))
        self.puts.append(self.save(self.snapshot_name(epoch), epoch, chosen, [b"state"]))
        return chosen.tolist()


def kinds(put):
    return [
        (record.move, record.units) if isinstance(record, Tenure) else record.batch.num_rows
        for record in read_segment(b"".join(put.parts), put.name)[1]
        if isinstance(record, AppliedRows | Tenure)
    ]


# -- the log


def test_a_segment_is_put_when_it_is_full_and_when_somebody_asks_for_the_end():
    noted = Noted(segment_bytes=(1, 1 << 20))
    noted.enter(3, 2)
    noted.rows(0, 1)
    noted.rows(2)
    assert [put.name for put in noted.puts] == ["r/q/log/3.2.0.7.0"]
    noted.end("feeder")
    assert [put.name for put in noted.puts] == ["r/q/log/3.2.0.7.0", "r/q/log/3.2.0.7.1"]
    assert [kinds(put) for put in noted.puts] == [[2], [1]]
    noted.end("another")
    assert len(noted.puts) == 2


def test_rows_of_several_kinds_share_a_segment():
    ticks = pa.schema([("now", pa.int64()), ("key", pa.int64())])
    body = pa.record_batch([pa.array([5, 5]), pa.array([0, 1])], schema=ticks).serialize()
    noted = Noted()
    noted.enter(0, 1)
    noted.arrived(7, [3], np.array([0]))
    noted.rows(0, 1)
    noted.rows(2)
    noted.arrived(8, [2], np.array([0]))
    noted.puts += noted.log(memoryview(body), ticks, np.array([0, 1], np.int32))
    noted.rows(3)
    noted.end("feeder")
    assert [kinds(put) for put in noted.puts] == [[(7, [3]), 2, 1, (8, [2]), 2, 1]]
    _, records = read_segment(b"".join(noted.puts[0].parts), noted.puts[0].name)
    schemas = [record.batch.schema for record in records if isinstance(record, AppliedRows)]
    assert schemas == [SCHEMA, SCHEMA, ticks, SCHEMA]


def test_who_asks_is_told_when_all_before_is_durable():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0)
    noted.end("one")
    noted.rows(1)
    noted.end("other")
    assert noted.acknowledged() == []
    noted.segment_put((0, 1), "")
    assert noted.acknowledged() == ["one"]
    noted.segment_put((0, 1), "")
    assert (noted.acknowledged(), noted.durable) == (["other"], 2)


def test_a_segment_that_cannot_be_put_is_told_to_all_who_wait():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0)
    noted.end("one")
    noted.segment_put((0, 1), "no room")
    assert (noted.acknowledged(), noted.error) == (["one"], "no room")


def test_news_of_an_earlier_attempt_do_not_count():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0)
    noted.end("one")
    noted.enter(0, 2)
    noted.rows(0)
    noted.end("two")
    noted.segment_put((0, 1), "")
    assert noted.acknowledged() == []
    assert noted.durable == 0


def test_rows_of_an_earlier_attempt_are_too_late():
    noted = Noted()
    noted.enter(2, 2)
    for late in ((2, 1), (1, 9)):
        with pytest.raises(ProtocolError, match=r"came after those of batch 2, attempt 2: they are too late"):
            noted.enter(*late)
    assert noted.enter(2, 2) is False
    assert noted.enter(3, 1) is True


def test_units_that_arrive_are_noted_before_their_rows():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0)
    noted.arrived(5, [1, 2], np.array([-1, -1]))
    noted.arrived(8, [1], np.array([-1]))
    noted.rows(1)
    noted.end("one")
    assert kinds(noted.puts[0]) == [1, (5, [1, 2]), (8, [1]), 1]


def test_units_that_arrive_between_batches_are_noted_in_the_next():
    noted = Noted()
    noted.enter(0, 1)
    noted.arrived(5, [1], np.array([0]))
    noted.enter(1, 1)
    noted.rows(1)
    noted.end("one")
    assert kinds(noted.puts[0]) == [(5, [1]), 1]


# -- snapshots


def test_units_are_saved_as_they_were_at_the_end_of_the_batch_before():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0, 2)
    noted.end("feeder")
    noted.enter(1, 1)
    assert noted.snapshot(0) == [0, 2]
    put = noted.puts[-1]
    assert (put.epoch, put.units.tolist(), put.size) == (0, [0, 2], 5)
    assert parse(put.name).epoch == 0
    noted.enter(2, 1)
    assert noted.snapshot(1) == []


def test_units_with_rows_of_the_batch_that_begins_are_not_saved():
    """One came from a worker where the batch had begun already."""
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0)
    noted.arrived(5, [1], np.array([1]))
    noted.enter(1, 1)
    assert noted.snapshot(0) == [0]


def test_units_that_have_left_are_not_saved():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0, 1)
    noted.enter(1, 1)
    assert noted.snapshot(0, np.array([False, True, False, False])) == [0]


def test_the_longest_unsaved_come_first_and_no_more_than_were_logged():
    noted = Noted(cycle=4, slice_bytes=150)
    found = []
    for epoch in range(4):
        noted.enter(epoch, 1)
        found.append(noted.snapshot(epoch - 1))
        noted.rows(0, 1, 2, 3)
        noted.end("somebody")
    assert found == [[], [0, 1], [2, 3], [0, 1]]


def test_units_without_further_rows_are_saved_within_one_cycle():
    noted = Noted(64, cycle=4)
    noted.enter(0, 1)
    noted.touched[:] = 0
    found = []
    for epoch in range(1, 6):
        noted.enter(epoch, 1)
        found.append(noted.snapshot(epoch - 1))
    assert sorted(unit for units in found for unit in units) == list(range(64))
    assert [bool(units) for units in found] == [True, True, True, True, False]


def test_a_snapshot_that_could_not_be_put_is_taken_again():
    noted = Noted()
    noted.enter(0, 1)
    noted.rows(0)
    noted.enter(1, 1)
    noted.snapshot(0)
    noted.not_saved(np.array([0]), 0)
    noted.enter(2, 1)
    noted.snapshot(1)
    assert [parse(put.name).epoch for put in noted.puts] == [0, 1]
    assert noted.puts[0].name != noted.puts[1].name
    noted.not_saved(np.array([0]), 0)  # of the first: the second counts
    noted.enter(3, 1)
    assert noted.snapshot(2) == []
