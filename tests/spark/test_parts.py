"""A DataFrame that is evaluated in parts, by actions that read some of its partitions: right, or refused."""

import pytest

from tests.spark.moving import Nth

ROWS = 2_000
PARTS = 4
EACH = ROWS // PARTS


@pytest.fixture
def out(spark, cluster):
    """One key, whose rows are counted: 2,000 of them, in four partitions."""
    made = cluster.keyed(spark.range(0, ROWS, 1, PARTS).selectExpr("id", "0 as k"), "k", Nth(), name="parts")
    yield made
    made.unpersist()


def counted(rows):
    return sorted(row.nth for row in rows)


EVERYTHING = list(range(1, ROWS + 1))


def test_persisted_and_looked_at_first(out):
    out.persist()
    assert out.take(1)[0].nth == 1
    assert counted(out.collect()) == EVERYTHING
    assert counted(out.collect()) == EVERYTHING


def test_persisted_and_read_from_both_ends(out):
    some = out.select("id", "nth").persist()
    ends = some.take(1) + some.tail(1)
    assert counted(ends) == [1, 2 * EACH]
    assert counted(some.toLocalIterator()) == EVERYTHING
    assert counted(some.rdd.take(ROWS)) == EVERYTHING
    some.unpersist()


def test_more_than_the_first_partition(out):
    assert len(set(counted(out.take(ROWS - 1)))) == ROWS - 1
    assert counted(out.limit(ROWS).collect()) == EVERYTHING
    assert counted(out.tail(ROWS)) == EVERYTHING


def test_one_partition_after_the_other(out):
    assert [row.nth for row in out.toLocalIterator()] == EVERYTHING


def test_each_action_has_fresh_state(out):
    assert [counted(out.orderBy("id").collect()), counted(out.collect())] == [EVERYTHING] * 2


def test_a_second_operator_on_what_is_persisted(spark, cluster, out):
    out.persist()
    twice = cluster.keyed(out.selectExpr("id", "k"), "k", Nth(), name="twice")
    assert counted(twice.take(EACH + 1))[-1] >= EACH + 1
    assert [counted(twice.collect()), counted(out.collect()), counted(twice.collect())] == [EVERYTHING] * 3


def test_actions_of_an_rdd_on_a_part_are_refused(out):
    assert counted(out.rdd.collect()) == EVERYTHING
    with pytest.raises(Exception, match="evaluates only 1 of 4 partitions, for an action of an RDD"):
        out.rdd.take(1)


def test_state_goes_when_what_is_persisted_goes(cluster, out, eventually):
    out.persist()
    out.take(1)
    held = cluster._driver.ask(lambda controller: controller.kept())
    assert len(held) == 1
    out.unpersist()
    eventually(lambda: not cluster._driver.ask(lambda controller: controller.kept() & held))
    assert counted(out.collect()) == EVERYTHING
