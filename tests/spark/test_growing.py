"""Aggregates that are added to an operator which has state: the old ones go on, the new ones begin empty."""

import logging

import pandas as pd
import pytest

import evenflow as ef
from evenflow import functions as F
from tests.support.stored_stream import EACH, FILES, some, stream


def run(spark, files, tmp_path, number, aggregates, memory=None, **options):
    """The results of all batches that are due."""
    window = {"rows": 30} if options.get("order_by") else {}
    operator = ef.Aggregates(**aggregates, **window)
    with ef.Cluster(spark, number, checkpoint=tmp_path / "state", memory=memory) as cluster:
        out = cluster.keyed(stream(spark, files), "k", operator, name="sums", was="", **options)
        writer = out.writeStream.option("checkpointLocation", str(tmp_path / "spark"))
        writer = writer.foreachBatch(
            lambda batch, _: batch.write.mode("append").parquet(str(tmp_path / f"out{number}"))
        )
        writer.trigger(availableNow=True).start().awaitTermination(120)
    return spark.read.parquet(str(tmp_path / f"out{number}")).toPandas().sort_values("id").reset_index(drop=True)


@pytest.mark.parametrize("how", ["plain", "little memory", "in order"])
def test_new_aggregates_begin_empty_and_old_ones_go_on(spark, tmp_path, files, how, caplog):
    """Started with one aggregate, then two, then four: each from its own batch on, whatever was in logs then.

    Rows that wait for their order were sent without the hashes that a further `count_distinct` needs: that is refused.
    """
    options = {"order_by": "id"} if how == "in order" else {}
    options |= {"memory": "64k"} if how == "little memory" else {}
    given = {"n": F.count(), "high": F.max("v"), "top": F.count("v"), "kinds": F.count_distinct("id")}
    last = 30 if how == "in order" else FILES * EACH
    rows = pd.DataFrame({"id": range(FILES * EACH)})
    rows["k"], rows["v"] = rows["id"] % 97, rows["id"] * 0.5
    found = {}
    for number, names in enumerate((["high"], ["n", "high"], ["kinds", "n", "high", "top"]), 1):
        names = [name for name in names if name != "kinds" or how != "in order"]
        back = some(files, number) if number < 3 else None
        found[number] = run(spark, files, tmp_path, number, {name: given[name] for name in names}, **options)
        if back is not None:
            back()
    assert [len(each) for each in found.values()] == [EACH, EACH, 2 * EACH]
    for number, columns in ((2, {"n": 2}), (3, {"n": 2, "kinds": 3, "top": 3})):
        for name, since in columns.items():
            if name not in found[number]:
                continue
            new = rows[rows["id"] >= (since - 1) * EACH]
            expected = new.groupby("k").cumcount().add(1).clip(upper=last)
            got = found[number].set_index("id")[name]
            assert got.tolist() == expected[got.index].tolist(), (number, name)
        assert (found[number]["high"] == found[number]["v"]).all()
    assert [text for text in (record.getMessage() for record in caplog.records) if "new in it" in text] == [
        f"operator sums of query {query_id(tmp_path)} goes on with its state; new in it, and empty before batch "
        f"{batch}: {names}"
        for batch, names in ((1, "n"), (2, "top" if how == "in order" else "kinds, top"))
    ]


def query_id(tmp_path):
    return (tmp_path / "spark" / "metadata").read_text().split('"')[3]


@pytest.fixture(autouse=True)
def warnings_are_heard(caplog):
    caplog.set_level(logging.WARNING, "evenflow")


@pytest.mark.parametrize("other", [{"n": F.count("v")}, {}, {"low": F.min("v")}], ids=["changed", "none", "other"])
def test_other_aggregates_are_refused(spark, tmp_path, files, other):
    back = some(files, 2)
    run(spark, files, tmp_path, 1, {"n": F.count(), "high": F.max("v")})
    back()
    with pytest.raises(Exception, match=r"and this is Aggregates\(.*give that operator"):
        run(spark, files, tmp_path, 2, {"high": F.max("v"), **other})


def test_a_column_that_was_not_sent_is_refused_where_rows_wait(spark, tmp_path, files):
    back = some(files, 2)
    run(spark, files, tmp_path, 1, {"n": F.count()}, order_by="id")
    back()
    with pytest.raises(Exception, match=r"lack column 'xxhash64.v.', which the operator reads: leave out what is new"):
        run(spark, files, tmp_path, 2, {"n": F.count(), "kinds": F.count_distinct("v")}, order_by="id")


def test_an_aggregate_that_fails_in_its_first_batch_may_be_left_out_again(spark, tmp_path, files):
    """Nothing is whole with it, so the query goes on as it was; and later with another one under its name."""
    back = some(files, 2)
    run(spark, files, tmp_path, 1, {"n": F.count()}, order_by="id")
    back()
    for _ in range(2):
        with pytest.raises(Exception, match=r"lack column 'xxhash64.v.', which the operator reads"):
            run(spark, files, tmp_path, 2, {"n": F.count(), "kinds": F.count_distinct("v")}, order_by="id")
    hide = some(files, 3)
    one = run(spark, files, tmp_path, 3, {"n": F.count(), "kinds": F.max("v")}, order_by="id")
    hide()
    two = run(spark, files, tmp_path, 4, {"n": F.count(), "kinds": F.max("v")}, order_by="id")
    both = pd.concat([one, two]).sort_values("id")
    assert both["id"].tolist() == list(range(2 * EACH, FILES * EACH))
    assert (both["kinds"] == both["v"]).all()
    assert (both["n"] == 30).sum() > EACH
