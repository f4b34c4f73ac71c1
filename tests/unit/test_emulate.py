"""Emulated capacity: the values, the ideal, and the sleeping (on a manual clock)."""

import math

import pytest

from evenflow.errors import InvalidArgument
from evenflow.runtime.worker.rows.emulation import EmulatedSpeed
from evenflow.testing import Emulate

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("slowdown", "factors"),
    [
        ({}, {0: 1, 5: 1}),
        ({0: 10}, {0: 10, 99: 10}),
        ({0: 0.5}, {0: 0.5}),
        ({1: 10}, {0: 1}),
        ({0: [(0, 100), (30, 1)]}, {0: 100, 29.9: 100, 30: 1, 1e9: 1}),
        ({0: [(30, 1), (0, 100)]}, {0: 100, 30: 1}),
        ({0: [(10, 3)]}, {0: 1, 9.9: 1, 10: 3}),
        ({0: []}, {0: 1}),
    ],
)
def test_factor_of_worker_0(slowdown, factors):
    emulate = Emulate(cost_us=20, slowdown=slowdown)
    assert {second: emulate.factor(0, second) for second in factors} == factors
    assert {second: emulate.row_s(0, second) for second in factors} == pytest.approx(
        {second: 20e-6 * factor for second, factor in factors.items()}
    )


def test_a_load_that_goes_round():
    emulate = Emulate(cost_us=20, slowdown=Emulate.rotating(3, 2.3, 0.5, until=60))
    for second in (0.0, 0.4, 0.5, 1.2, 1.49, 1.5, 31.0, 59.9):
        slow = int(second / 0.5) % 3
        assert [emulate.factor(worker, second) for worker in range(3)] == [
            2.3 if worker == slow else 1.0 for worker in range(3)
        ]


@pytest.mark.parametrize(
    ("slowdown", "workers", "start", "end", "ideal"),
    [
        ({}, 1, 0, 1, 1000),
        ({}, 4, 0, 2, 8000),
        ({0: 10}, 2, 0, 1, 1100),
        ({7: 10}, 2, 0, 1, 2000),
        ({0: [(0, 100), (30, 1)]}, 1, 0, 60, 300 + 30_000),
        ({0: [(0, 100), (30, 1)]}, 2, 20, 40, 100 + 10_000 + 20_000),
        ({0: [(0, 100), (30, 1)]}, 1, 30, 31, 1000),
        ({0: [(0, 2), (10, 4)], 1: [(5, 2)]}, 2, 0, 20, 5000 + 2500 + 5000 + 7500),
        ({0: 10}, 2, 5, 5, 0),
    ],
)
def test_ideal_rows_are_the_integral_of_capacity(slowdown, workers, start, end, ideal):
    assert Emulate(cost_us=1000, slowdown=slowdown).rows(workers, start, end) == pytest.approx(ideal)


@pytest.mark.parametrize(
    ("cost_us", "slowdown", "message"),
    [
        (0, {}, "cost_us is 0"),
        (-1, {}, "cost_us is -1"),
        (NAN, {}, "cost_us is nan"),
        (INF, {}, "cost_us is inf"),
        (1, {3: 0}, r"slowdown of worker 3 has the step \(0.0, 0.0\)"),
        (1, {3: -2}, r"\(0.0, -2.0\)"),
        (1, {3: NAN}, r"\(0.0, nan\)"),
        (1, {3: INF}, r"\(0.0, inf\)"),
        (1, {3: [(0, 1), (-1, 2)]}, r"\(-1.0, 2.0\)"),
        (1, {3: [(0, 1), (9, 0)]}, r"\(9.0, 0.0\)"),
        (1, {3: "fast"}, "slowdown of worker 3 is 'fast'"),
        (1, {3: [1, 2]}, r"slowdown of worker 3 is \[1, 2\]"),
        (1, {3: None}, "slowdown of worker 3 is None"),
    ],
)
def test_bad_input(cost_us, slowdown, message):
    with pytest.raises(InvalidArgument, match=message):
        Emulate(cost_us=cost_us, slowdown=slowdown)


class Time:
    """A clock that only sleeping moves, `late` seconds further than asked."""

    def __init__(self, late=0.0):
        self.now = 100.0
        self.late = late
        self.slept = []

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(round(seconds, 9))
        self.now += seconds + self.late


def pace(time, **emulate):
    return EmulatedSpeed(Emulate(**emulate), 0, time.perf_counter, time.sleep)


def test_service_time_is_slept_off():
    time = Time()
    served = pace(time, cost_us=1000, slowdown={0: 2})
    assert served.serve(10, spent_s=0.005) == pytest.approx(0.02)
    assert time.slept == [0.015]


def test_small_debts_wait_for_more():
    time = Time()
    served = pace(time, cost_us=100)
    for _ in range(25):
        assert served.serve(4, spent_s=0.0) == pytest.approx(0.0004)
    assert time.slept == [0.0012] * 8  # every third call


def test_oversleeping_is_paid_back():
    time = Time(late=0.004)
    served = pace(time, cost_us=1000)
    for _ in range(3):
        served.serve(10, spent_s=0.0)
    assert time.slept == [0.01, 0.006, 0.006]


def test_credit_is_bounded():
    time = Time(late=60.0)
    served = pace(time, cost_us=1000)
    served.serve(10, spent_s=0.0)
    served.serve(60, spent_s=0.0)
    assert time.slept == [0.01, 0.01]  # 60 ms of work less the most that is paid back, 50 ms


def test_work_that_takes_longer_than_emulated():
    time = Time()
    assert pace(time, cost_us=1).serve(10, spent_s=0.5) == 0.5
    assert time.slept == []


def test_schedule_follows_the_controllers_clock():
    time = Time()
    served = pace(time, cost_us=1000, slowdown={0: [(0, 100), (30, 1)]})
    assert served.serve(1, 0.0) == pytest.approx(0.1)  # no feeder yet: second 0
    served.set_clock(29.95)
    assert served.serve(1, 0.0) == pytest.approx(0.1)
    assert served.serve(1, 0.0) == pytest.approx(0.001)
