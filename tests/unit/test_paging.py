"""State within a memory budget: what comes out is what would come out with all memory in the world."""

import errno
import os
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import CorruptState, FunctionError, InvalidArgument, MemoryBudget, SpillError
from evenflow.operators.aggregates.rolling import RollingMean
from evenflow.scratch import files as scratch_files
from evenflow.scratch.files import Spill, pack, sweep, unpack
from evenflow.state.paging import swap
from evenflow.state.paging.operator import sizes_of
from evenflow.state.paging.paged import Spilled
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.residents import Residents
from evenflow.state.paging.sizing import bytes_of
from tests.support import paging_model as model

UNITS = 16


@pytest.fixture
def files(tmp_path):
    """Files there are."""
    return lambda: [path for path in tmp_path.rglob("*") if path.is_file()]


def means(count=400, keys=64, batches=4, units=UNITS, seed=0):
    """A rolling mean over uniform keys."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(batches):
        which = random.integers(0, keys, count)
        made.append((pa.record_batch({"v": random.normal(size=count)}), (which % units).astype(np.int32), which << 33))
    return model.hosted(RollingMean("v", rows=20), made[0][0], units), made


STEPS = ["process", "process", "process", "rotate", "drain", "move", "settle", "relinquish", "donate"]
PLANS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**16)), max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("name", model.OPERATORS)
@pytest.mark.parametrize("ordered", [True, False])
@settings(max_examples=20)
@given(plan=PLANS, seed=st.integers(0, 99))
def test_two_copies_that_page_and_move_units_give_what_one_gives(tmp_path_factory, name, ordered, plan, seed):
    batches = model.batches_of(seed, 1 + sum(step == "process" for step, _ in plan), 120, 60, UNITS)
    host = model.hosted(model.OPERATORS[name](), batches[0][0], UNITS)
    least = 3 * model.state_bytes(host, batches)[1]
    pools = [Pool(least * (1 + seed % 3)) for _ in range(2)]
    directory = tmp_path_factory.mktemp("paging")
    crew = [model.paged(host, directory, None, pool=pool, ordered=ordered) for pool in pools]
    owner, turn = np.zeros(UNITS, int), 0
    collected = model.Collected(batches)
    for step, number in [*plan, ("process", 0)]:
        copy, pool, unit = crew[number % 2], pools[number % 2], number // 2 % UNITS
        match step:
            case "process":
                rows, units, keys = batches[turn]
                for which, each in enumerate(crew):
                    mine = owner[units] == which
                    collected.parts[turn, which] = turn, np.flatnonzero(mine)
                    collected.take(each.process((turn, which), rows.filter(pa.array(mine)), units[mine], keys[mine]))
                turn += 1
            case "rotate":
                collected.take(copy.rotate(1e9))
            case "drain":
                collected.take(copy.drain())
                assert not copy.pending_rows
            case "settle":
                collected.take(copy.settle([unit]))
            case "move":
                state = crew[owner[unit]].extract(unit)
                owner[unit] = 1 - owner[unit]
                if state is not None:
                    crew[owner[unit]].install(unit, pickle.loads(pickle.dumps(state)))
            case "relinquish" if pool.budget > least:
                pool.relinquish(min(pool.budget // 3, pool.budget - least))
                assert pool.held <= pool.budget
            case "donate":
                pool.donate(pool.budget // 2)
    for copy, pool in zip(crew, pools, strict=True):
        collected.take(copy.drain())
        assert not copy.pending_rows
        assert pool.held <= pool.budget
        copy.close()
        assert not pool.held
    collected.check(model.plain(host, batches))
    assert not list(directory.iterdir())


def fed(host, batches, tmp_path, budget, drain=True, first=None, **options):
    """A paged copy that has had the first batches, or all, each drained; and its results."""
    collected = model.Collected(batches)
    copy = model.paged(host, tmp_path, budget, **options)
    for tag, (rows, units, keys) in enumerate(batches[:first]):
        collected.take(copy.process(tag, rows, units, keys))
        if drain:
            collected.take(copy.drain())
    return copy, collected


@pytest.mark.slow
@pytest.mark.parametrize("name", model.OPERATORS)
def test_a_tenth_of_the_memory(tmp_path, name):
    batches = model.batches_of(1, 8, 2000, 1280, 128)
    host = model.hosted(model.OPERATORS[name](), batches[0][0], 128)
    sizes, largest = model.state_bytes(host, batches)
    budget = max(int(sizes.sum()) // 10, 2 * largest)
    pool = Pool(budget)
    copy, collected = fed(host, batches, tmp_path, None, pool=pool)
    collected.check(model.plain(host, batches))
    assert copy.spilled_bytes > budget
    assert pool.peak <= budget + largest
    assert copy.files <= 64
    copy.close()
    assert not list(tmp_path.iterdir())


def test_who_applies_rows_himself_has_their_units_in_memory(tmp_path):
    """Every row once, in parts that fit; what was in memory comes first, and a fixed unit never goes."""
    host, batches = means(count=2000, keys=1280, batches=8, units=128)
    batches += means(count=40, keys=1280, batches=200, units=128)[1]  # files are left with few units, and written anew
    host.fixed_units = [0]
    sizes, largest = model.state_bytes(host, batches)
    pool = Pool(max(int(sizes.sum()) // 10, 2 * largest))
    copy, alone = model.paged(host, tmp_path, None, pool=pool), host.fresh()
    for rows, units, keys in batches:
        wanted = host.process(alone, rows, units, keys, False)[0].column(0).to_numpy()
        before, given, parts = copy.resident.copy(), np.full(len(wanted), np.nan), []
        for part in copy.parts(units):
            assert copy.resident[units[part]].all()
            assert np.isnan(given[part]).all()
            found, _ = host.process(copy.operator, rows.filter(pa.array(part)), units[part], keys[part], False)
            given[part] = found.column(0).to_numpy()
            parts.append(before[units[part]].all())
        np.testing.assert_array_equal(given, wanted)
        assert parts == sorted(parts, reverse=True)
        assert copy.resident[0]
    assert copy.traffic[0] > 128
    assert copy.spilled_bytes > pool.budget
    assert pool.peak <= pool.budget + largest
    copy.close()
    assert not list(tmp_path.iterdir())


def test_growth_that_begins_late_is_noticed(tmp_path):
    host, batches = means(count=1000, keys=64, batches=60)
    pool = Pool(400_000)
    copy = model.paged(host, tmp_path, None, pool=pool)
    for tag, batch in enumerate(batches):
        copy.process(tag, *batch)
    assert copy.resident.all()
    for tag in range(2):
        keys = np.arange(1000) + 1000 * (tag + 1)
        copy.process(100 + tag, batches[0][0], (keys % UNITS).astype(np.int32), keys)
        assert copy.operator.sizes(np.arange(UNITS, dtype=np.int32)).sum() < 1.3 * pool.budget
    assert not copy.resident.all()
    copy.close()


def test_without_a_budget_nothing_is_ever_on_disk(tmp_path):
    host, batches = means()
    copy, collected = fed(host, batches, tmp_path, None)
    collected.check(model.plain(host, batches))
    assert copy.resident.all()
    assert copy.traffic == (0, 0)
    assert copy.rotate(1e9) == []
    copy.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("share", "most"), [(2, 0.8), (10, 1.2)])
def test_a_unit_is_read_about_once_a_batch(tmp_path, share, most):
    host, batches = means(count=20_000, keys=2048, batches=8, units=256)
    sizes, _ = model.state_bytes(host, batches)
    copy = model.paged(host, tmp_path, int(sizes.sum()) // share)
    loads = []
    for tag, (rows, units, keys) in enumerate(batches):
        for at in range(0, rows.num_rows, 1000):
            end = at + 1000
            copy.process((tag, at), rows.slice(at, 1000), units[at:end], keys[at:end])
        copy.drain()
        loads.append(copy.traffic[0])
    assert max(np.diff(loads)) <= most * 256
    copy.close()


def test_rows_of_units_in_memory_do_not_wait_for_others(tmp_path):
    host, batches = means()
    copy, _ = fed(host, batches, tmp_path, 12_000, first=2)
    rows, units, keys = batches[2]
    here = copy.resident[units]
    assert 0 < here.sum() < len(here)
    given = copy.process("next", rows, units, keys)
    done = np.concatenate([each.places for each in given])
    assert len(done) >= here.sum() // 2
    assert given[-1].left == len(here) - len(done) == copy.pending_rows
    given = copy.drain()
    assert given[-1].left == 0
    copy.close()


def test_rotation_takes_turns_and_leaves_a_gap(tmp_path):
    host, batches = means(batches=30)
    clock = model.Clock(0)
    copy, collected = fed(host, batches, tmp_path, 12_000, first=10, drain=False, t_gap=5.0, clock=clock)
    ever = copy.resident.copy()
    rotations = 0
    for second in range(1, 60):
        clock.now = float(second)
        before = copy.traffic[0]
        collected.take(copy.rotate(clock.now))
        rotations += copy.traffic[0] > before
        ever |= copy.resident
        if second < 20:
            rows, units, keys = batches[9 + second]
            collected.take(copy.process(9 + second, rows, units, keys))
    assert rotations <= 12
    assert ever.all()
    collected.take(copy.process(29, *batches[29]))
    collected.take(copy.drain())
    collected.check(model.plain(host, batches))
    copy.close()


def test_a_rotation_is_not_worth_a_few_rows_until_they_have_waited_long(tmp_path):
    host, batches = means()
    clock = model.Clock(0)
    copy, _ = fed(host, batches, tmp_path, 12_000, clock=clock)
    away = int(np.flatnonzero(~copy.resident)[0])
    copy.process("few", pa.record_batch({"v": [1.0]}), np.array([away], np.int32), np.array([away << 33]))
    assert copy.pending_rows == 1
    assert copy.rotate(4.0) == []
    (done,) = copy.rotate(6.0)
    assert (done.tag, done.places.tolist(), done.left) == ("few", [0], 0)
    copy.close()


def test_what_fits_comes_back_when_memory_is_donated(tmp_path):
    host, batches = means()
    pool = Pool(12_000)
    copy, _ = fed(host, batches, tmp_path, None, pool=pool)
    assert copy.spilled_bytes
    pool.donate(1_000_000)
    copy.rotate(1e9)
    assert copy.resident.all()
    assert copy.files == copy.spilled_bytes == 0
    pool.relinquish(1_000_000)
    assert pool.held <= pool.budget == 12_000
    assert not copy.resident.all()
    copy.close()


def test_a_budget_that_cannot_be_kept_is_refused_and_nothing_changes(tmp_path, monkeypatch):
    """A unit that alone is larger, or a disk that is full."""
    host, batches = means()
    pool = Pool(100_000)
    copy, collected = fed(host, batches, tmp_path, None, first=3, pool=pool)
    with pytest.raises(MemoryBudget, match=r"unit \d+ of RollingMean has \d+ bytes .* budget of 500 bytes"):
        pool.resize(500)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(SpillError):
            pool.resize(12_000)
    assert pool.budget == 100_000
    assert copy.resident.all()
    pool.resize(12_000)
    assert pool.held <= pool.budget == 12_000
    assert not copy.resident.all()
    collected.take(copy.process(3, *batches[3]))
    collected.take(copy.drain())
    collected.check(model.plain(host, batches))
    pool.resize(100_000)
    for turn in range(4):
        copy.rotate(1e9 + turn)
    assert copy.resident.all()
    copy.close()


def test_the_size_of_pending_input_is_known_by_unit(tmp_path):
    host, batches = means()
    copy, _ = fed(host, batches, tmp_path, 12_000, first=3)
    rows, units, keys = batches[3]
    copy.process(3, rows, units, keys)
    every = np.arange(UNITS, dtype=np.int32)
    pending = copy.pending_of(every)
    assert ((pending > 0) == ~copy.resident).all()
    assert 0.7 * copy.pending_bytes <= pending.sum() <= copy.pending_bytes
    copy.drain()
    assert not copy.pending_of(every).any()
    copy.close()


def test_what_is_on_disk_returns_when_units_have_left(tmp_path, monkeypatch):
    """Nothing waits for it, and no row comes: a little each turn, until all is back that fits with room to grow."""
    monkeypatch.setattr(swap, "SMALLEST", 1)
    host, batches = means(count=20_000, keys=2048, batches=2, units=256)
    sizes, _ = model.state_bytes(host, batches)
    pool = Pool(int(sizes.sum()) // 2)
    copy, _ = fed(host, batches, tmp_path, None, pool=pool)
    for unit in np.flatnonzero(copy.resident)[:100].tolist():
        copy.extract(unit)
    batch, free, written = pool.budget // 16, pool.budget - pool.held, copy.traffic[1]
    assert free > 4 * batch
    before = copy.spilled_bytes
    for turn in range(2000):
        loads = copy.traffic[0]
        copy.rotate(float(turn))
        assert (copy.traffic[0] - loads) * int(sizes.min()) <= batch
    assert copy.spilled_bytes < before - free / 2
    assert batch <= pool.budget - pool.held <= 4 * batch
    assert not copy.returning
    for unit in np.flatnonzero(copy.resident).tolist():
        copy.extract(unit)
    for turn in range(2000):
        copy.rotate(1e6 + turn)
    assert copy.resident.all()
    assert copy.spilled_bytes == copy.files == 0
    assert copy.traffic[1] == written
    copy.close()


def test_nothing_returns_where_it_would_be_pushed_out_again(tmp_path):
    """Rows for all units, and twice the state that fits: a unit is read as often as without a turn between frames."""
    host, batches = means(count=20_000, keys=2048, batches=6, units=256)
    sizes, _ = model.state_bytes(host, batches)
    loads = {}
    for turns in (0, 3):
        copy = model.paged(host, tmp_path, int(sizes.sum()) // 2, clock=model.Clock(0))
        for tag, (rows, units, keys) in enumerate(batches):
            for at in range(0, rows.num_rows, 1000):
                copy.process((tag, at), rows.slice(at, 1000), units[at : at + 1000], keys[at : at + 1000])
                for _ in range(turns):
                    copy.rotate(0.0)
            copy.drain()
        loads[turns] = copy.traffic[0]
        copy.close()
    assert loads[3] <= 1.1 * loads[0]


def test_a_return_that_fails_is_told_and_not_tried_again_at_once(tmp_path, files):
    host, batches = means()
    pool, clock = Pool(12_000), model.Clock(0)
    copy, _ = fed(host, batches, tmp_path, None, pool=pool, clock=clock)
    content = {path: path.read_bytes() for path in files()}
    for path in content:
        os.truncate(path, 200)
    pool.donate(1_000_000)
    clock.now = 10.0
    with pytest.raises(CorruptState):
        copy.rotate(10.0)
    assert copy.rotate(11.0) == []
    for path, whole in content.items():
        path.write_bytes(whole)
    copy.rotate(20.0)
    assert copy.resident.all()
    copy.close()


def test_the_papers_rotation_takes_one_group_each_t_gap(tmp_path):
    """However little waits: ours would leave a row a unit for five seconds."""
    host, batches = means()
    clock = model.Clock(0)
    copy, _ = fed(host, batches, tmp_path, 12_000, clock=clock, t_gap=1.0)
    units = np.flatnonzero(~copy.resident).astype(np.int32)
    copy.process("few", pa.record_batch({"v": np.ones(len(units))}), units, units.astype(np.int64) << 33)
    given = {}
    for tenth in range(1, 100):
        clock.now = tenth / 10
        done = copy.rotate(clock.now)
        if done:
            given[tenth] = sum(len(each.places) for each in done)
        if not copy.pending_rows:
            break
    assert len(given) >= 3
    assert min(np.diff(list(given))) >= 10
    assert sum(given.values()) == len(units)
    copy.close()


def test_pending_input_goes_to_disk_and_comes_back_in_order(tmp_path, files):
    host, batches = means(count=3000, batches=10)
    pool = Pool(12_000)
    copy, collected = fed(host, batches, tmp_path, None, drain=False, pool=pool)
    assert copy.pending_rows > 10_000
    assert copy.pending_bytes > pool.budget
    assert pool.peak < 2 * pool.budget
    collected.take(copy.drain())
    collected.check(model.plain(host, batches))
    assert copy.pending_bytes == 0
    copy.close()


def test_evaluations_share_a_pool(tmp_path):
    host, batches = means(batches=6)
    pool, clock = Pool(24_000), model.Clock(0)
    crew = [model.paged(host, tmp_path, None, pool=pool, clock=clock) for _ in range(3)]
    found = [model.Collected(batches) for _ in crew]
    for tag, batch in enumerate(batches):
        for copy, collected in zip(crew, found, strict=True):
            collected.take(copy.process(tag, *batch))
            collected.take(copy.drain())
            assert pool.held <= pool.budget
    for collected in found:
        collected.check(model.plain(host, batches))
    assert all(copy.resident_bytes > 2000 for copy in crew)
    clock.now = 60.0
    for _ in range(2):
        crew[0].process("more", *batches[0])
        crew[0].drain()
    assert crew[0].resident_bytes > sum(copy.resident_bytes for copy in crew[1:])
    for copy in crew:
        copy.close()
    assert pool.held == 0


# -- errors


def test_a_unit_larger_than_the_budget_is_refused(tmp_path):
    host, batches = means(keys=64, units=2)
    with pytest.raises(MemoryBudget, match=r"unit [01] of RollingMean has \d+ bytes .* budget of 3000 bytes"):
        fed(host, batches, tmp_path, 3000)


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_is_positive(budget):
    with pytest.raises(InvalidArgument, match=str(budget)):
        Pool(budget)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    host, batches = means(batches=8)
    copy = model.paged(host, tmp_path, 12_000)
    collected = model.Collected(batches)
    real, full = os.pwritev, []

    def pwritev(*arguments):
        full.append(len(full))
        if len(full) % 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, "pwritev", pwritev)
    errors = []
    for tag, batch in enumerate(batches):
        steps = [lambda tag=tag, batch=batch: copy.process(tag, *batch)] + 9 * [lambda: copy.rotate(1e9), copy.drain]
        for step in steps:
            try:
                collected.take(step())
            except SpillError as error:
                errors.append(str(error))
    monkeypatch.setattr(os, "pwritev", real)
    collected.take(copy.drain())
    assert errors
    assert all(str(tmp_path) in error and "bytes" in error and "No space left" in error for error in errors)
    collected.check(model.plain(host, batches))
    copy.close()
    assert not list(tmp_path.iterdir())


def test_a_flipped_bit_is_found_and_the_file_named(tmp_path, files):
    host, batches = means()
    copy, _ = fed(host, batches, tmp_path, 12_000)
    for path in files():
        content = bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
    copy.process("next", *batches[0])
    with pytest.raises(CorruptState, match=r"\.spill .* fails its checksum"):
        copy.drain()
    copy.close()
    assert not list(tmp_path.iterdir())


def test_a_file_cut_off_is_found_and_named(tmp_path, files):
    host, batches = means()
    copy, _ = fed(host, batches, tmp_path, 12_000)
    for path in files():
        os.truncate(path, 200)
    copy.process("next", *batches[0])
    with pytest.raises(CorruptState, match=r"\.spill ends at byte"):
        copy.drain()
    copy.close()


def test_state_that_cannot_be_pickled_stays(tmp_path):
    class Locked(model.Accounts):
        def extract(self, unit):
            state = super().extract(unit)
            return state if state is None else (lambda: 0, state)

        def install(self, unit, state):
            super().install(unit, state[1])

    batches = model.batches_of(0, 3, 400, 60, UNITS)
    host = model.hosted(Locked(), batches[0][0], UNITS)
    copy = model.paged(host, tmp_path, 4000)
    with pytest.raises(FunctionError, match="Locked cannot be pickled"):
        copy.process(0, *batches[0])
    assert set(copy.operator.values) == set(range(UNITS)) or copy.resident.all()
    copy.close()


def test_an_operator_that_does_not_say_where_rows_come_from_gets_batches_one_by_one(tmp_path):
    batches = model.batches_of(3, 6, 400, 60, UNITS)
    host = model.hosted(model.Thirds(), batches[0][0], UNITS)
    copy = model.paged(host, tmp_path, 5000, ordered=False)
    operator, given = host.fresh(), []
    for tag, batch in enumerate(batches):
        given += copy.process(tag, *batch)
    assert copy.pending_rows
    given += copy.drain()
    for tag, batch in enumerate(batches):
        expected, _ = host.process(operator, *batch, False)
        mine = [each for each in given if each.tag == tag]
        assert sorted(np.concatenate([each.places for each in mine]).tolist()) == list(range(batch[0].num_rows))
        found = [tuple(row.values()) for each in mine for row in each.batch.to_pylist()]
        assert sorted(found) == sorted(tuple(row.values()) for row in expected.to_pylist())
    copy.close()


# -- movement


def test_a_spilled_unit_moves_as_it_is_with_its_rows(tmp_path):
    host, batches = means()
    source, collected = fed(host, batches, tmp_path, 12_000, first=3)
    target = model.paged(host, tmp_path, 12_000)
    rows, units, keys = batches[3]
    collected.take(source.process(3, rows, units, keys))
    for unit in range(UNITS):
        moved = source.extract(unit)
        if isinstance(moved, Spilled):
            assert moved.rows
        target.install(unit, moved)
    assert source.pending_rows == 0
    assert source.sizes(np.arange(UNITS, dtype=np.int32)).sum() == 0
    assert source.files == 0
    assert (target.sizes(np.arange(UNITS, dtype=np.int32)) > 0).all()
    collected.take(target.drain())
    collected.check(model.plain(host, batches))
    source.close()
    target.close()


def test_snapshots_are_the_same_from_memory_and_from_disk(tmp_path):
    host, batches = means()
    copy, _ = fed(host, batches, tmp_path, 12_000)
    operator = host.fresh()
    for batch in batches:
        host.process(operator, *batch, False)
    for unit in range(UNITS):
        (keys, mean), (others, same) = copy.snapshot(unit), operator.extract(unit)
        for one, other in zip((keys, *mean), (others, *same), strict=True):
            assert np.array_equal(*(np.sort(np.atleast_1d(each), axis=0) for each in (one, other)))
    copy.close()


# -- files


def test_a_file_is_written_anew_when_most_of_it_is_dead(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch_files, "WORTH", 0)
    directory = Spill(tmp_path)
    segment = directory.segment()
    states = {number: [np.arange(100 * number), {"a": number}] for number in range(1, 10)}
    segment.append((number, pack(state)) for number, state in states.items())
    size, path = segment.path.stat().st_size, segment.path
    segment.drop(range(4, 10))
    assert segment.path != path
    assert not path.exists()
    assert segment.path.stat().st_size < size / 2
    for number, parts in segment.read([3, 1, 2]):
        array, rest = unpack(parts)
        assert np.array_equal(array, states[number][0])
        assert rest == states[number][1]
        assert array.flags.writeable
        assert array.flags.aligned
    segment.drop([1, 2, 3])
    assert directory.files == 0
    directory.close()
    assert not list(tmp_path.iterdir())


def test_files_stay_few_however_units_come_and_go(tmp_path, monkeypatch):
    monkeypatch.setattr(swap, "SMALLEST", 1)
    host, batches = means(count=3000, keys=1024, units=512, batches=2)
    pool = Pool(20_000)
    copy, _ = fed(host, batches, tmp_path, None, pool=pool)
    random = np.random.default_rng(0)
    for turn in range(200):
        unit = int(random.integers(512))
        which = np.array([unit, unit + 512])
        copy.process(turn, pa.record_batch({"v": [1.0, 2.0]}), (which % 512).astype(np.int32), which << 33)
        copy.drain()
    assert copy.files <= 16 + 2 * copy.spilled_bytes // (20_000 // 16) + 2
    copy.close()


def test_what_killed_processes_left_is_swept(tmp_path):
    mine = Spill(tmp_path)
    dead = tmp_path / f"{scratch_files.PREFIX}999999999-abc"
    dead.mkdir()
    (dead / "1.spill").write_bytes(b"x")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [mine.directory]
    mine.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpillError, match=r"cannot spill to .*file"):
        Spill(tmp_path / "file")


def test_the_size_of_a_value():
    assert bytes_of(None) == 0
    assert 8000 <= bytes_of(np.zeros(1000)) <= 8200
    assert 100_000 * 100 < bytes_of({number: float(number) for number in range(100_000)}) < 100_000 * 250
    assert bytes_of({"a": [np.zeros(1000)] * 1000}) > 8_000_000


@pytest.mark.parametrize("given", [{"x": 1}, [1.5, 2.0], [1], "many", [[1], [2]]])
def test_sizes_are_bytes_of_each_unit(given):
    class Odd:
        def sizes(self, units):
            return given

    with pytest.raises(FunctionError, match=r"Odd.sizes returned .* for 2 units: return an array of whole numbers"):
        sizes_of(Odd(), np.array([0, 1], np.int32))


class Told:
    """An operator that says too little of its even units: they are ten times as large."""

    def __init__(self, units):
        self.real = np.full(units, 40_000)

    def sizes(self, units):
        return np.where(units % 2, self.real[units], self.real[units] // 10)

    def extract(self, unit):
        return bytes(int(self.real[unit]))

    def install(self, unit, state):
        assert len(state) == self.real[unit]


def test_units_that_turn_out_large_do_not_make_all_others_heavier_and_heavier():
    """All are measured once, then many leave: what one teaches must not multiply what the ones before have taught."""
    operator = Told(60)
    memory, units = Residents(operator, 60), np.arange(60, dtype=np.int32)
    for turn in range(3):
        memory.note(units)
        memory.measure()
        assert (memory.weight < 11 * operator.real).all()
        assert memory.weight.sum() == memory.total
        large = units[::2].tolist()
        for unit in large:
            state = operator.extract(unit)
            memory.gone(unit, [state], state)
        memory.landed(large)
        operator.real += 10 * turn
    memory.note(units[::2])
    memory.measure()
    assert (memory.weight[::2] < 1.1 * operator.real[::2]).all()


def test_a_unit_is_refused_by_what_it_weighs_and_not_by_an_estimate(tmp_path):
    """What others have taught would make the newest unit ten times as large as it is."""
    host, batches = means(count=2000, keys=640, batches=4, units=64)
    copy, _ = fed(host, batches, tmp_path, 400_000)
    memory, real = copy._memory, copy._memory.weigh(3)
    memory._claimed[:], memory._ratio = 0, 1000.0
    memory.note(np.arange(64, dtype=np.int32))
    memory.measure()
    assert memory.weight[3] > 400_000
    copy._swap.make_fit()
    assert memory.weight[3] == real
    with pytest.raises(MemoryBudget, match=rf"has {memory.weight.max()} bytes of state"):
        copy._swap.check_fits(int(memory.weight.max()) - 1)
