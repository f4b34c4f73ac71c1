"""Operators of checkpointed queries: those that break, are renamed, vanish, or have two uses."""

import pytest

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.moving import Nth
from tests.support.stored_stream import check, some, start, stream


def boom(*_anything):
    raise MemoryError("on purpose")


def test_an_operator_that_breaks_ends_its_own_query_alone(spark, tmp_path, files):
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        broken = start(spark, cluster, files, tmp_path / "a", name="broken")
        region = cluster._regions.find("broken")
        cluster._driver.ask(lambda _: setattr(region, "hear", boom))
        sound = start(spark, cluster, files, tmp_path / "b", name="sound")
        with pytest.raises(Exception, match=r"could not go on with it \(MemoryError: on purpose"):
            broken.awaitTermination(120)
        sound.awaitTermination(120)
        check(spark, tmp_path / "b")
        with pytest.raises(ef.EvenflowError, match=r"region broken has failed: .*on purpose"):
            cluster.region("broken").snapshot()
        start(spark, cluster, files, tmp_path / "a", name="broken").awaitTermination(120)
        assert [e["region"] for e in cluster.events() if e["event"] == "region-failed"] == ["broken"]
    check(spark, tmp_path / "a")


def test_a_name_that_is_too_long_for_the_store_is_refused(spark, tmp_path, files):
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        with pytest.raises(InvalidArgument, match="takes 540 bytes, over 255: give a shorter one"):
            cluster.keyed(stream(spark, files), "k", Nth(), name="数" * 60)
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
    check(spark, tmp_path)


def test_a_rule_without_a_name_is_refused_by_the_call_and_costs_nobody(spark, tmp_path, files):
    rule = "select a.id as first from pattern [every a=rows(v > 1) -> b=rows(v > 2)]"
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        with pytest.raises(InvalidArgument, match=r"the cluster has a checkpoint.* give name="):
            cluster.detect(stream(spark, files), rule, key="k")
        start(spark, cluster, files, tmp_path).awaitTermination(120)
    check(spark, tmp_path)


@pytest.mark.parametrize("again", ["same cluster", "new cluster"])
def test_a_renamed_operator_is_refused_until_it_says_what_it_was(spark, tmp_path, files, again):
    """Else its counts would begin again, and nobody would say a word."""
    back = some(files, 2)
    cluster = ef.Cluster(spark, 2, checkpoint=tmp_path / "state")
    try:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        back()
        if again == "new cluster":
            cluster.stop()
            cluster = ef.Cluster(spark, 1, checkpoint=tmp_path / "state")
        with pytest.raises(Exception, match=r"is started without operator 'n', which has state .* give it was='n'"):
            start(spark, cluster, files, tmp_path, name="counts").awaitTermination(120)
        start(spark, cluster, files, tmp_path, name="counts", was="n").awaitTermination(120)
    finally:
        cluster.stop()
    check(spark, tmp_path)


def test_an_operator_that_had_no_name_gets_one(spark, tmp_path, files):
    """State from before names were asked for, which is under a description of the operator."""
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="Nth() by k (bigint)").awaitTermination(120)
    back()
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="counts", was="").awaitTermination(120)
    check(spark, tmp_path)


@pytest.mark.parametrize("how", ["side by side", "one after the other"])
def test_two_uses_of_one_name_in_a_query_are_told_to_have_two(spark, tmp_path, files, how):
    def run(cluster, first, second):
        rows, place = stream(spark, files), {"checkpointLocation": str(tmp_path / "spark")}
        one = cluster.keyed(rows, "k", Nth(), name=first)
        if how == "side by side":
            out = one.union(cluster.keyed(rows, "k", Nth(), name=second))
        else:
            out = cluster.keyed(one.drop("nth"), "k", Nth(), name=second)
        out.writeStream.format("noop").options(**place).trigger(availableNow=True).start().awaitTermination(120)

    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        with pytest.raises(Exception, match=r"operator n is 2 times in query .* give each a name= of its own"):
            run(cluster, "n", "n")
        run(cluster, "n", "m")
