"""The cases of the differential test come from their seeds alone, and its comparison sees what differs."""

import pyarrow as pa
import pytest
from tests.differential.cases import ALL, BATCH, FIRST_LAGGING, LAGGING, NEWER, OPERATORS, RULES, STREAM, draw
from tests.differential.compare import difference
from tests.differential.source import CLOSING, ENDING, make
from tests.differential.values import KINDS

NAN = float("nan")


def test_a_seed_gives_one_case(tmp_path):
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    assert str(make(draw(7), tmp_path).tables) == str(make(draw(7), tmp_path).tables)


def test_seeds_have_all_there_is():
    cases = [draw(seed) for seed in range(6000)]
    assert {(case.what, case.action) for case in cases} == {
        (what, action) for what in (*OPERATORS, *NEWER, *RULES) for action in (*BATCH, *STREAM)
    }
    assert {case.value for case in cases} == set(KINDS)
    assert {case.how for case in cases} == {"", *ALL}
    assert {case.partitions for case in cases} == {1, 2, 3, 4, 6, 8}


def test_seeds_of_streams_that_lag_have_all_there_is():
    cases = [draw(seed) for seed in range(FIRST_LAGGING, FIRST_LAGGING + 600)]
    assert {(case.what, case.action) for case in cases} == {(what, action) for what in LAGGING for action in STREAM}
    assert all(case.lags and case.streaming and "one side lags" in str(case) for case in cases)


@pytest.mark.parametrize("seed", [*range(40), *range(FIRST_LAGGING, FIRST_LAGGING + 10)])
def test_every_row_is_in_one_file(seed, tmp_path):
    case = draw(seed)
    tables = make(case, tmp_path).tables
    assert {len(parts) for parts in tables} == {case.partitions}
    assert len(tables) == max(1, case.batches) + (CLOSING if case.waiting else 0)
    ids = pa.concat_tables(part for parts in tables for part in parts)["id"].to_pylist()
    assert sorted(row for row in ids if row < ENDING) == list(range(case.rows))


@pytest.mark.parametrize("seed", [*range(60), *range(FIRST_LAGGING, FIRST_LAGGING + 20)])
def test_no_row_is_too_late(seed, tmp_path):
    """Of what came in earlier micro-batches nothing is later by more than the lateness."""
    case, latest = draw(seed), None
    for parts in make(case, tmp_path).tables:
        times = pa.concat_tables(parts)["at"].cast(pa.int64()).to_pylist()
        assert latest is None or min(times) > latest - max(1, case.lateness * 1_000_000)
        latest = max(times)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ([(1, 2.0)], [(1, 2.0), (1, 2.0)]),
        ([(1, 2.0), (1, 2.0)], [(1, 2.0)]),
        ([(1, 2.0)], [(1, 2.1)]),
        ([(1, 2)], [(1, 2.0)]),
        ([(1, None)], [(1, 2.0)]),
        ([(1, NAN)], [(1, 2.0)]),
        ([(0.0, 2.0)], [(-0.0, 2.0)]),
    ],
)
def test_what_differs(got, want):
    given = [True, False]
    assert difference(got, want, given)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ([(1, 2.0), (2, 3.0)], [(2, 3.0), (1, 2.0)]),
        ([(1, 0.1 + 0.2)], [(1, 0.3)]),
        ([(NAN, NAN)], [(NAN, NAN)]),
        ([(1, 0.0)], [(1, -0.0)]),
        ([], []),
    ],
)
def test_what_does_not_differ(got, want):
    assert difference(got, want, [True, False]) == ""


def test_a_part_of_the_rows():
    want = [(1, 2.0), (1, 2.0), (2, 3.0)]
    assert difference([(1, 2.0)], want, [True, False], partial=True) == ""
    assert difference([(1, 2.0)] * 3, want, [True, False], partial=True)
