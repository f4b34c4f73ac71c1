"""Rows that wait for their time within a budget of memory: the same results, with most of them on disk."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import SpillError
from evenflow.operators.aggregates.rolling import RollingMean, RunningCount
from evenflow.operators.hosted import Hosted
from evenflow.operators.time.chunks import ROW_BYTES
from evenflow.operators.time.room import BANDS, SMALL, WaitingRoom
from evenflow.operators.time.timed import END, NOW, Timed
from evenflow.operators.time.waiting import Waiting
from evenflow.scratch.files import Segment, Spill
from evenflow.state.paging.paged import Paged, Spilled
from evenflow.state.paging.pool import Pool

UNITS = 33
ROWS = pa.schema({"who": pa.int64(), "at": pa.int64(), "text": pa.string()})
S = 1_000_000


def hosted():
    operator = RunningCount("who", into="n")
    schema = operator.schema(ROWS)
    return Hosted(Timed(operator, ROWS, [0, 1, 2], [1], True, UNITS, schema), ROWS.append(NOW), schema, UNITS)


def frames(seed):
    """Frames of rows, and after every tenth of ticks, until all rows are through."""
    random = np.random.default_rng(seed)
    for batch in range(6):
        for _ in range(10):
            who = random.integers(0, 100, 200)
            at = 100 * batch + random.integers(0, 100, 200)
            text = ["x" * 100 + str(one) for one in random.integers(0, 1000, 200)]
            yield pa.RecordBatch.from_arrays([*map(pa.array, (who, at, text, who))], names=[*ROWS.names, "key"])
        yield ticks((100 * batch - 50) * S)
    yield ticks(END)


def ticks(now):
    units = np.arange(UNITS)
    hashes = pa.array(units, mask=units == UNITS - 1)
    return pa.RecordBatch.from_arrays([pa.array(np.full(UNITS, now)), hashes], names=[NOW.name, "key"])


def run(budget, directory, seed):
    """All results, and the most that was on disk."""
    code, clock = hosted(), iter(range(1_000_000_000))
    state = Paged(code, Pool(budget), directory, lambda: float(next(clock)))
    results, spilled, resident = [], 0, 0
    for number, frame in enumerate(frames(seed)):
        done = state.process(number, *code.unpacked(frame))
        if NOW.name in frame.schema.names:
            done += state.drain()
        results += [row for each in done for row in each.batch.to_pylist()]
        spilled, resident = max(spilled, state.spilled_bytes), max(resident, state.resident_bytes)
    assert state.pending_rows == 0
    state.close()
    return sorted(tuple(row.values()) for row in results), spilled, resident


def test_most_of_what_waits_is_on_disk_and_results_are_the_same(tmp_path):
    want, nothing, _ = run(None, tmp_path, 0)
    got, spilled, resident = run(128 * 1024, tmp_path, 0)
    assert nothing == 0
    assert len(want) == 12_000
    assert got == want
    assert spilled > 64 * 1024
    assert resident < 256 * 1024
    by_key = sorted((who, n, at) for who, at, _, n in got)
    assert [at for _, _, at in by_key] == [at for _, at, _ in sorted((who, at, n) for who, n, at in by_key)]


def test_rows_wait_on_disk_by_their_time_and_are_read_when_it_comes(tmp_path):
    spill = Spill(tmp_path)
    room = WaitingRoom(UNITS)
    room.largest = 1 << 14
    for start in range(0, 1000, 100):
        room.add(waiting(start, start + 100))
    everyone = np.arange(UNITS, dtype=np.int32)
    room.shelve(1 << 40, spill.segment)
    assert (room.nbytes, len(room)) == (0, 1000)
    read = spill.read
    assert room.take(everyone, np.full(UNITS, 0)) is None
    assert spill.read == read, "nothing was due"
    first = room.take(everyone, np.full(UNITS, 100))
    assert sorted(first.times) == [*range(100)]
    assert spill.read - read < spill.written / 3, "what is not due stays where it is"
    rest = room.take(everyone, np.full(UNITS, 2000))
    assert sorted(rest.times) == [*range(100, 1000)]
    assert (room.shelved, spill.files, len(room)) == (0, 0, 0)


def test_a_unit_on_disk_is_looked_at_taken_out_and_put_in(tmp_path):
    code = hosted()
    state = Paged(code, Pool(128 * 1024), tmp_path / "a", lambda: 0.0)
    other = Paged(code, Pool(128 * 1024), tmp_path / "b", lambda: 0.0)
    for number, frame in enumerate(frames(1)):
        if NOW.name in frame.schema.names:
            break
        state.process(number, *code.unpacked(frame))
    assert state.operator.shelved > 0
    count = int(state.operator._room.counts[7])
    assert state.snapshot(7)[1][0].num_rows == count > 0
    taken = state.extract(7)
    assert taken[1][0].num_rows == count
    assert state.extract(7) is None
    other.install(7, taken)
    assert other.operator._room.counts[7] == count
    assert state.resident_bytes < 256 * 1024


@pytest.mark.parametrize("budget", [80 * 1024, 1 << 24])
def test_units_whose_state_and_rows_are_on_disk_move(tmp_path, budget):
    want = moved(None, None, tmp_path)
    on_disk = []
    got = moved(80 * 1024, budget, tmp_path, on_disk)
    assert got == want
    assert on_disk
    assert len({kind for kind, _ in on_disk}) == 2, "units whose state was in memory, and others"


def moved(first, second, directory, seen=None):
    """Results where all units move in the middle, from one budget to another."""
    operator = RollingMean("at", rows=50, into="n")
    schema = operator.schema(ROWS)
    code = Hosted(Timed(operator, ROWS, [0, 1, 2], [1], True, UNITS, schema), ROWS.append(NOW), schema, UNITS)
    results = []
    state = Paged(code, Pool(first), directory, lambda: 0.0)
    for number, frame in enumerate(frames(3)):
        done = state.process(number, *code.unpacked(frame))
        if NOW.name in frame.schema.names:
            done += state.drain()
        results += [tuple(row.values()) for each in done for row in each.batch.to_pylist()]
        if number == 32:  # the third batch's ticks
            other = Paged(code, Pool(second), directory, lambda: 0.0)
            for unit in range(UNITS):
                kept = state.snapshot(unit)
                taken = state.extract(unit)
                whole = state.operator.joined(taken.aside, taken.state()) if isinstance(taken, Spilled) else taken
                assert (kept is None) == (whole is None)
                if whole is not None:
                    assert kept[0] == whole[0]
                    assert kept[1] is None or kept[1][0].equals(whole[1][0])
                    other.install(unit, taken)
                    if seen is not None:
                        seen.append((type(taken), unit))
            assert len(state.operator._room) == 0
            state.close()
            state = other
    state.close()
    return sorted(results)


def test_a_full_disk_loses_no_row(tmp_path):
    spill, made = Spill(tmp_path), []

    def segment():
        made.append(None)
        if len(made) == 3:
            raise SpillError("no space")
        return spill.segment()

    room = WaitingRoom(UNITS)
    room.largest = 1 << 12
    room.add(waiting(0, 100))
    with pytest.raises(SpillError):
        room.shelve(1, segment)
    assert (room.shelved, spill.files) == (0, 0)
    assert sorted(room.take(np.arange(UNITS, dtype=np.int32)).times) == [*range(100)]


@pytest.mark.parametrize("sizes", [(90, 49), (60, 41), (30, 30, 30, 30, 30), (99, 60, 60)])
def test_batches_that_do_not_fit_into_one_are_left_apart(sizes):
    room = WaitingRoom(UNITS)
    each = waiting(0, 100)
    per_row = (each.rows.nbytes + 100 * ROW_BYTES) / 100
    room.largest = int(100 * per_row) + 1
    for size in sizes:
        room.add(waiting(0, size))
        room.copy(np.arange(3, dtype=np.int32))  # joins
    assert len(room.take(np.arange(UNITS, dtype=np.int32))) == sum(sizes)


def waiting(start, stop):
    times = np.arange(start, stop)
    rows = pa.record_batch({"at": times})
    return Waiting(rows, (times % UNITS).astype(np.int32), times, times)


def test_a_unit_that_cannot_be_taken_out_stays_whole(tmp_path, monkeypatch):
    """Whether its own state or the rows on disk are what cannot be had."""
    code = hosted()
    operator = code.fresh()
    operator.process(*code.unpacked(next(frames(2))))
    operator.process(*code.unpacked(ticks(20 * S)))
    before = operator.snapshot(7)
    spill = Spill(tmp_path)
    operator.shelve(1 << 40, 1 << 20, spill.segment)

    def fails(*_args, **_kwargs):
        raise SpillError("no file can be opened now")

    for owner, name in ((type(operator._room._shelved[0]), "read"), (type(operator.inner), "extract")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails)
            with pytest.raises(SpillError):
                operator.extract(7)
        after = operator.snapshot(7)
        assert after[0] == before[0] == 20 * S
        assert after[1][0].num_rows == before[1][0].num_rows > 0
        assert operator.inner.snapshot(7) is not None
    spill.close()


def test_rows_that_are_all_on_disk_weigh_what_they_weighed(tmp_path):
    operator = hosted().fresh()
    operator.process(*hosted().unpacked(next(frames(2))))
    units = np.arange(UNITS)
    before = operator.aside_sizes(units)
    spill = Spill(tmp_path)
    operator.shelve(1 << 40, 1 << 20, spill.segment)
    assert operator.aside == 0
    after = operator.aside_sizes(units)
    spill.close()
    assert ((before > 0) == (after > 0)).all()
    assert before.sum() / 3 < after.sum() < before.sum() * 3


def test_a_band_of_units_is_read_once_for_snapshots_of_them_all(tmp_path, monkeypatch):
    units = 512
    room, spill = WaitingRoom(units), Spill(tmp_path)
    of = np.repeat(np.arange(units, dtype=np.int32), 2)
    rows = pa.RecordBatch.from_arrays([pa.array(of)], names=["n"])
    room.add(Waiting(rows, of, of.astype(np.int64), np.arange(len(of))))
    room.shelve(1 << 40, spill.segment)
    reads = []
    read = Segment.read
    monkeypatch.setattr(Segment, "read", lambda self, numbers: reads.append(numbers) or read(self, numbers))
    for unit in range(units):
        assert room.look(unit).rows.column(0).to_pylist() == [unit, unit]
    assert len(reads) == BANDS
    assert room.nbytes > 0, "what was read last is still here, and counts"
    room.shelve(0, spill.segment)
    assert (room.nbytes, room.files, spill.files) == (0, 1, 1)
    spill.close()


def test_small_files_are_joined(tmp_path):
    room, spill = WaitingRoom(8), Spill(tmp_path)
    for number in range(200):
        of = np.array([number % 8], np.int32)
        rows = pa.RecordBatch.from_arrays([pa.array([number])], names=["n"])
        room.add(Waiting(rows, of, of.astype(np.int64), np.array([number])))
        room.shelve(1, spill.segment)
        assert room.nbytes == 0
        assert room.files == spill.files <= SMALL + 1
    assert len(room) == 200
    taken = room.take(np.arange(8, dtype=np.int32))
    assert sorted(taken.rows.column(0).to_pylist()) == list(range(200))
    assert (room.files, spill.files) == (0, 0)
    spill.close()


@pytest.mark.slow
def test_units_that_leave_do_not_bring_their_neighbours_into_memory(tmp_path):
    """A file is read in bands of units: here of eight."""
    units, budget = 1024, 1 << 20
    operator = RunningCount("who", into="n")
    schema = operator.schema(ROWS)
    code = Hosted(Timed(operator, ROWS, [0, 1, 2], [1], True, units, schema), ROWS.append(NOW), schema, units)
    state = Paged(code, Pool(budget), tmp_path, lambda: 0.0)
    random = np.random.default_rng(0)
    for number in range(20):
        who, at = random.integers(0, 5000, 4000), random.integers(0, 1000, 4000)
        columns = [*map(pa.array, (who, at, ["x" * 50] * 4000, who))]
        state.process(number, *code.unpacked(pa.RecordBatch.from_arrays(columns, names=[*ROWS.names, "key"])))
    counts = state.operator._room.counts.copy()
    assert state.spilled_bytes > 4 * budget
    for unit in range(0, units, 8):
        state.extract(unit)
        counts[unit] = 0
    assert state.resident_bytes < 2 * budget
    assert state.spilled_bytes > 3 * budget  # larger files, so less of it than there was
    assert (state.operator._room.counts == counts).all()
    state.close()
