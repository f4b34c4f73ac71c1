"""The live page of a cluster: `Cluster(..., dashboard=True)`."""

import json
import urllib.request

import pytest

import evenflow as ef


def frame_of(link):
    """The latest frame that the page of a link got."""
    with urllib.request.urlopen(f"{link}api/stream", timeout=60) as stream:
        for line in stream:
            if line.startswith(b"data: ") and b'"headline"' in line:
                return json.loads(line.removeprefix(b"data: "))
    raise AssertionError("the stream has ended")


def test_a_cluster_has_its_page(spark, capsys, eventually):
    with ef.Cluster(spark, workers=2, start_timeout=150, dashboard=True) as cluster:
        link = cluster.dashboard_link
        assert f"evenflow dashboard: {link}" in capsys.readouterr().out
        assert f'<a href="{link}">' in cluster._repr_html_()
        assert "2 of 2 live" in cluster._repr_html_()
        rows = spark.range(0, 4_000_000, 1, 1).selectExpr("id", "id % 50 as k", "cast(id as double) x")
        cluster.keyed(rows, "k", ef.RollingMean("x", rows=5), tuning=ef.Tuning(units=8), name="<b>means</b>").count()
        frame = eventually(lambda: (now := frame_of(link))["regions"] and now, what="the region on the page")
        assert [worker["state"] for worker in frame["workers"]] == ["live", "live"]
        assert [worker["executor"] for worker in frame["workers"]] == [w.executor for w in cluster.workers()]
        assert frame["regions"][0]["name"] == "<b>means</b>"
        logged = {entry["event"] for entry in cluster.events()}
        assert {"executors", "unit-owners"} <= logged
    assert cluster.dashboard_link == ""
    assert "dashboard" not in cluster._repr_html_()


def test_values_of_keys_are_told_where_they_were_asked_for(spark, shared_cluster, eventually):
    rows = spark.range(0, 400_000, 1, 1).selectExpr("if(id % 10 < 7, 'Alice', concat('c', id % 90)) who", "1.0 x")
    mean = ef.RollingMean("x", rows=5)

    def keys_of(name):
        samples = (entry for entry in shared_cluster.events() if entry["event"] == "keyed-sample")
        return [entry.get("keys") for entry in samples if entry["region"] == name]

    shared_cluster.keyed(rows, "who", mean, tuning=ef.Tuning(units=8), name="told", keys=True).count()
    told = eventually(lambda: [keys for keys in keys_of("told") if keys], what="values of keys")
    assert "Alice" in told[-1].values()
    shared_cluster.keyed(rows, "who", mean, tuning=ef.Tuning(units=8), name="untold").count()
    untold = eventually(lambda: keys_of("untold"), what="a sample")
    assert not any(untold)
    with pytest.raises(ef.errors.InvalidArgument, match=r"keys=True shows values of key columns, .* withColumn"):
        shared_cluster.keyed(rows, rows.who, mean, keys=True)
    with pytest.raises(ef.errors.InvalidArgument, match="keys"):
        shared_cluster.keyed(rows, "who", mean, keys="yes")


def test_without_it_there_is_none(shared_cluster):
    assert shared_cluster.dashboard_link == ""
