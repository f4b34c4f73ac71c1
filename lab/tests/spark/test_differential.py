"""Random DataFrames through the public API against Spark SQL: some of the cases that `evenflow_lab.bench` draws.

One case alone: `pytest lab/tests/spark/test_differential.py -k seed-29-`.
Many more: `python -m evenflow_lab.bench differential`.
"""

import pytest
from tests.differential.cases import BATCH, NEWER, OPERATORS, RULES, STREAM, draw
from tests.differential.run import Clusters, run_case
from tests.differential.values import COLLATED

import evenflow as ef

SEEDS = {
    "evaluated in parts": (29, 242, 504, 1191, 1274, 1423, 1443),
    "what equal is": (47, 105, 568, 1075, 1442),
    "types of sums": (1, 222, 1203),
    "order": (457, 1127, 1367),
    "order of two streams": (280, 767),
    "windows that end": (194, 1178),
    "micro-batches, and a restart in between": (675, 758, 1016, 1029, 1445),
    "the rest of the rules": (62, 229, 369, 666, 1007),
    "several aggregates": (2099, 2144, 2242),
    "two DataFrames": (2006, 2163),
    "two streams, one of which lags": (6000, 6002, 6003, 6018),
}
"""Each of the first few groups has cases that were wrong once, for one reason."""
CASES = [draw(seed) for seeds in SEEDS.values() for seed in seeds]


@pytest.fixture(scope="module")
def clusters(spark, shared_cluster, tmp_path_factory):
    """The shared one, and one that stores its state."""
    with ef.Cluster(spark, 2, checkpoint=tmp_path_factory.mktemp("state"), start_timeout=150) as stored:
        yield Clusters(shared_cluster, lambda: stored)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"seed-{case.seed}-{case.what}-{case.action}")
def test_as_spark_has_it(spark, clusters, case, tmp_path):
    outcome = run_case(spark, clusters, case, tmp_path)
    assert not outcome.wrong, str(outcome)


def test_the_cases_have_all_there_is():
    assert {case.what for case in CASES} == {*OPERATORS, *RULES, *NEWER}
    assert {case.action for case in CASES} == {*BATCH, *STREAM}
    assert {kind for case in CASES for kind in (*case.keys, case.value)} >= set(COLLATED)
