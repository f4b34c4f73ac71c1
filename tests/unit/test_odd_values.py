"""Odd values for arguments: numbers of numpy work where Python's do, everything else has one clear refusal."""

import inspect
from decimal import Decimal
from math import inf, nan

import numpy as np
import pytest

import evenflow as ef
from evenflow import functions as F
from evenflow.errors import InvalidArgument
from evenflow.graph.build.verbs import JoinSpec, MapSpec
from evenflow.model.graphs.placement import EnergyWeights
from evenflow.policy import BALANCES, KEYED_BALANCES, PLACEMENTS
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments import graph as graph_arguments
from evenflow.runtime.cluster.arguments import verbs as arguments
from evenflow.runtime.cluster.spark.restarts import supervise
from evenflow.stories.lsh import Fingerprints
from evenflow.stories.operator import FirstStory
from evenflow.stories.vectors import Vectors
from evenflow.testing import Emulate

WRONG = ("x", "", "1", b"x", nan, -1, [], {}, object, Decimal(1), np.True_)
"""Nothing that any parameter of a balance takes."""
CLASSES = {f"{name} {kind.__name__}": kind for choice in (BALANCES, KEYED_BALANCES, PLACEMENTS)
           for name, kind in choice.items()}  # fmt: skip
NEEDED = {"weights": [0.5, 0.5], "capacities": [1, 1]}
PARAMETERS = [
    (kind, parameter) for kind in CLASSES for parameter in inspect.signature(CLASSES[kind]).parameters.values()
]


def made(kind, **given):
    """A balance or placement; what it cannot do without is added."""
    parameters = inspect.signature(CLASSES[kind]).parameters
    needed = {name: NEEDED[name] for name, each in parameters.items() if each.default is each.empty}
    return CLASSES[kind](**{**needed, **given})


@pytest.mark.parametrize(("kind", "parameter"), PARAMETERS, ids=lambda each: getattr(each, "name", each))
def test_a_parameter_of_a_balance_takes_no_nonsense(kind, parameter):
    fine = {"seed": "-1", "terms": "[]", "schedule": "'' [] {}"}.get(parameter.name, "").split()
    for wrong in WRONG:
        if repr(wrong) in fine:
            continue
        with pytest.raises(InvalidArgument, match=parameter.name):
            made(kind, **{parameter.name: wrong})
    if isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
        for wrong in (True, None):
            with pytest.raises(InvalidArgument, match=f"{parameter.name} is {wrong}: give"):
                made(kind, **{parameter.name: wrong})
        for number in (np.float64, np.float32) if isinstance(parameter.default, float) else (np.int64, np.int16):
            found = getattr(made(kind, **{parameter.name: number(parameter.default)}), parameter.name)
            assert found == pytest.approx(parameter.default)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("blocking-rate BlockingRate", {"explore": "x"}, "explore is 'x': give True or False"),
        ("blocking-rate BlockingRate", {"every": 1.5}, "every is 1.5: give a whole number from 1 to 1,000,000"),
        ("flux Flux", {"delta_min": 0.0001}, "delta_min is 0.0001: .* at least 0.01, since workers report no more"),
        ("caps CapsPlacement", {"granularity": 1e-300}, "granularity is 1e-300"),  # a search without an end
        ("caps CapsPlacement", {"relax": 1e-300}, "relax is 1e-300"),
        ("dp DynProgPlacement", {"terms": (1,)}, "terms is .*: give a tuple of functions"),
        ("oracle Oracle", {"capacities": None, "schedule": [(0, [1]), 5]}, "schedule is .*: give a list of .second"),
        ("oracle Oracle", {"capacities": {"0": 1}}, "capacities name worker '0'"),
        ("static StaticWeights", {"weights": ["1"]}, "weights of worker 0 is '1': give a number"),
        ("static StaticWeights", {"weights": {0.5: 1}}, "weights name worker 0.5: ids are whole numbers"),
    ],
)
def test_values_that_would_mean_nothing(kind, given, said):
    with pytest.raises(InvalidArgument, match=said):
        made(kind, **given)


@pytest.mark.parametrize(
    ("balance", "options", "said"),
    [
        ("static", {"weights": [0.5, 0.5]}, "weights has 2 shares and there are 3 workers: give one for each"),
        ("static", {"weights": [0.25] * 4}, "weights has 4 shares and there are 3 workers"),
        ("static", {"weights": {0: 0.5, 3: 0.5}}, "weights name worker 3: there are workers 0 to 2"),
        ("oracle", {"capacities": [1, 1, 1, 2]}, "capacities name worker 3: there are workers 0 to 2"),
        ("oracle", {"schedule": [(0, [1]), (9, {5: 1})]}, "capacities name worker 5"),
    ],
)
def test_numbers_of_workers_that_there_are_not(balance, options, said):
    with pytest.raises(InvalidArgument, match=said):
        arguments.balance_of(balance, options, 3)


@pytest.mark.parametrize(
    ("balance", "options"),
    [
        ("static", {"weights": {0: 1}}),
        ("static", {"weights": np.array([0.5, 0.25, 0.25])}),
        ("oracle", {"capacities": [2]}),
        ("oracle", {"capacities": {np.int64(2): np.float32(2)}}),
    ],
)
def test_numbers_of_some_workers(balance, options):
    assert arguments.balance_of(balance, options, 3).name == balance


@pytest.mark.parametrize(
    ("qos", "said"),
    [
        ({1: 4}, "qos has 1 for 4: give the name of an operator, as {'prices': 4}"),
        ({"": 4}, "qos has '' for 4"),
        ({None: 4}, "qos has None"),
        ({"a": True}, "qos of 'a' is True"),
        ({"a": nan}, "qos of 'a' is nan"),
        ({"a": "2"}, "qos of 'a' is '2'"),
        ([("a", 1)], "give a dict of weights"),
    ],
)
def test_wrong_qos(qos, said):
    with pytest.raises(InvalidArgument, match=said):
        arguments.weights_of(qos)


def test_weights_of_numpy_become_plain_numbers():
    found = arguments.weights_of({"a": np.int64(2), "b": np.float32(0.5), "c": ef.Qos(weight=np.float64(3))})
    assert found == {"a": 2, "b": 0.5, "c": 3}
    assert {type(weight) for weight in found.values()} <= {int, float}
    target = ef.Qos(latency_ms=np.float32(200), weight=np.int8(2))
    assert (type(target.latency_ms), type(target.weight)) == (float, int)


@pytest.mark.parametrize("wrong", [1.5, np.float64(4096), True, None, -1, nan, "1.5x", "", "٣", "9" * 30, 1 << 63])
def test_sizes_are_whole_bytes(wrong):
    with pytest.raises(InvalidArgument, match=r"skew_bytes=.*: give bytes as a whole number"):
        amounts.room_of(wrong)
    with pytest.raises(InvalidArgument, match=r"queue_bytes=.*: give bytes as a whole number"):
        amounts.queue_of(wrong)
    if wrong is not None:  # no budget
        with pytest.raises(InvalidArgument, match=r"memory=.*: give bytes as a whole number"):
            amounts.bytes_of(wrong)


def test_sizes():
    assert amounts.room_of(np.int64(4096)) == 4096
    assert amounts.room_of("1.5k") == 1536
    assert amounts.bytes_of("64k") == amounts.bytes_of(1 << 16) == 1 << 16


@pytest.mark.parametrize("wrong", ["3", True, 0, -1, 1.0, nan, None, np.float64(3)])
def test_numbers_of_workers(wrong):
    with pytest.raises(InvalidArgument, match=r"workers=.*at least 1 worker, and a whole number of them"):
        amounts.workers_of(wrong)


@pytest.mark.parametrize("wrong", ["3", True, 0, -1, nan, inf, None, 1e-9, 1e7, Decimal(1)])
def test_periods(wrong):
    with pytest.raises(InvalidArgument, match=r"period=.*: give seconds from 0.001 to 3600"):
        amounts.period_of(wrong)


@pytest.mark.parametrize("wrong", ["3", True, 0, -1, nan, inf, None, 1e300, Decimal(1)])
def test_seconds(wrong):
    with pytest.raises(InvalidArgument, match=r"stall_timeout=.*: give seconds, above 0"):
        amounts.seconds_of(stall_timeout=wrong)


def test_numbers_of_numpy():
    assert type(amounts.workers_of(np.int64(3))) is int
    assert type(amounts.period_of(np.float32(0.5))) is float
    assert [amounts.seconds_of(a=each) for each in (np.int8(3), np.float64(0.5))] == [3, 0.5]
    assert type(amounts.check_units(np.int64(8), 3)) is int
    assert amounts.gap_of(np.float32(1), True) == 1
    known = graph_arguments.known_of_workers(
        2, {np.int64(1): np.float32(0.5)}, {0: np.int64(2)}, {(np.int64(0), 1): (np.float32(1), np.int64(5))}
    )
    assert known == ({1: 0.5}, {0: 2}, {(0, 1): (1.0, 5)})
    assert {type(worker) for worker in known.quotas} == {int}
    assert type(known.links[0, 1][1]) is int
    assert (amounts.rows_of(np.int64(5)), amounts.queue_of("1m")) == (5, 1 << 20)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"quota": {True: 0.5}}, "quota names worker True"),
        ({"quota": {0: True}}, "quota of worker 0 is True"),
        ({"coefficients": {0: inf}}, "coefficients of worker 0 is inf"),
        ({"coefficients": {"0": 1}}, "coefficients names worker '0'"),
        ({"links": {(0, True): (1, 1)}}, "links names"),
        ({"links": {(0, 0): (1, 1)}}, "links names"),
        ({"links": {(0, 1): (True, 1)}}, "links of"),
        ({"links": {(0, 1): (nan, 1)}}, "links of"),
    ],
)
def test_what_is_known_of_workers(given, said):
    with pytest.raises(InvalidArgument, match=said):
        graph_arguments.known_of_workers(2, **{"quota": None, "coefficients": None, "links": None, **given})


@pytest.mark.parametrize("wrong", [3, True, "", b"x", 1.5])
def test_event_logs(wrong):
    with pytest.raises(InvalidArgument, match=r"event_log=.*: give the path of a file"):
        arguments.check_event_log(wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cost_us": "1"}, "cost_us is '1'"),
        ({"cost_us": True}, "cost_us is True"),
        ({"cost_us": 1, "slowdown": [2]}, r"slowdown is \[2\]: give a dict"),
        ({"cost_us": 1, "slowdown": {"0": 2}}, "slowdown names worker '0'"),
        ({"cost_us": 1, "slowdown": {-1: 2}}, "slowdown names worker -1"),
        ({"cost_us": 1, "slowdown": {0: True}}, "slowdown of worker 0 is True"),
        ({"cost_us": 1, "slowdown": {0: [(0, "2")]}}, "slowdown of worker 0 is"),
        ({"cost_us": 1, "slowdown": {0: [(inf, 2)]}}, "has the step"),
        ({"cost_us": 1, "costs": {1: 2}}, "costs has 2 for 1"),
        ({"cost_us": 1, "link_ms": {("a", "b"): 2}}, "link_ms has"),
        ({"cost_us": 1, "link_ms": {(0, 1): True}}, "link_ms of"),
        ({"cost_us": 1, "arrival": 3}, "arrival is 3"),
    ],
)
def test_emulated_capacity(given, said):
    with pytest.raises(InvalidArgument, match=said):
        Emulate(**given)


def test_emulated_capacity_of_a_cluster():
    with pytest.raises(InvalidArgument, match="emulate=5: give an Emulate"):
        arguments.check_emulated(5, 2)
    with pytest.raises(InvalidArgument, match=r"emulate has link \(0, 2\) of 2 workers"):
        arguments.check_emulated(Emulate(1, link_ms={(0, 2): 5}), 2)
    assert Emulate(np.int64(5), {0: np.int64(2)}).row_s(0, 0) == pytest.approx(1e-5)


@pytest.mark.parametrize("rows", ["3", True, 0, -1, 1.0, nan, 1 << 31])
def test_rows_of_windows(rows):
    for make in (lambda **window: ef.RollingMean("x", **window), lambda **window: ef.Aggregates(n=F.count(), **window),
                 lambda **window: ef.WindowJoin("t", "a", "b", **window),
                 lambda **window: JoinSpec((("k", "k"),), window["rows"], None, None, 1)):  # fmt: skip
        with pytest.raises(InvalidArgument, match="got rows="):
            make(rows=rows)


@pytest.mark.parametrize("seconds", ["3", True, 0, -1, nan, inf, 1e-9])
def test_seconds_of_windows(seconds):
    for make in (ef.RollingMean, ef.RollingMax):
        with pytest.raises(InvalidArgument, match="got seconds="):
            make("x", seconds=seconds, time="at")


def test_windows_in_numbers_of_numpy_are_the_same_windows():
    from evenflow.operators.keyed import identity

    assert identity(ef.RollingMean("x", rows=np.int64(3))) == identity(ef.RollingMean("x", rows=3))
    window = {"seconds": np.float64(9), "time": "at"}
    assert identity(ef.Aggregates(n=F.count(), **window)) == identity(
        ef.Aggregates(n=F.count(), seconds=9.0, time="at")
    )
    assert JoinSpec((("k", "k"),), np.int64(3), None, None, np.int64(4)).units == 4


@pytest.mark.parametrize("wrong", ["3", True, 0, 1.0, nan, None])
def test_stories(wrong):
    for make in (lambda: FirstStory(history=wrong), lambda: Vectors(wrong), lambda: Fingerprints(wrong)):
        with pytest.raises(InvalidArgument, match="give a"):
            make()
    assert Fingerprints(np.int64(3), seed=np.int64(1)).bits == FirstStory(history=np.int64(3)).history == 3
    assert Vectors(np.int64(8)).of(["a b"]).cells["word"].max() < 8


def test_others():
    for wrong in (True, "1", nan):
        with pytest.raises(InvalidArgument, match="the weight of load is"):
            EnergyWeights(load=wrong)
        with pytest.raises(InvalidArgument, match="local_session"):
            ef.local_session(workers=wrong)
    with pytest.raises(InvalidArgument, match="backoff=inf"):
        supervise(lambda: pytest.fail("it must not be started"), backoff=inf)


ARRAY = np.array([1, 2])
"""Compared with a text it gives an array, which is neither true nor false."""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: arguments.check_function(len, ARRAY), "input=array"),
        (lambda: ef.Tuning(transfer=ARRAY), "transfer=array"),
        (lambda: ef.Tuning(spread=ARRAY), "spread=array"),
        (lambda: arguments.balance_of(ARRAY, {}, 2), "balance=array"),
        (lambda: F.count(ARRAY), "an aggregate is of array"),
        (lambda: MapSpec(len, "x long", ARRAY, False), "input=array"),
        (lambda: ef.Similarity(5), "Similarity got 5: give Vectors"),
        (lambda: Vectors(8, documents=1.5), "documents=1.5: give the number of texts"),
        (lambda: Vectors(2, documents=3, counts="ab"), "counts='ab': give a list of numbers"),
        (lambda: Vectors(2, documents=3, counts=[True, False]), "give a list of numbers"),
        (lambda: Vectors(2, documents=3, counts=[-1, 2]), "give a list of numbers"),
        (lambda: ef.local_session(conf=[("a", "b")]), "conf=.*: give settings by their names"),
        (lambda: ef.local_session(conf={1: "b"}), "conf=.*: give settings by their names"),
        (lambda: ef.local_session(name=5), "name=5: give a string"),
    ],
)
def test_what_is_no_text_and_no_number(call, said):
    with pytest.raises(InvalidArgument, match=said):
        call()
