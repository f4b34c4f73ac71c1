"""`first_story` on Spark: the alarms of the reference, whatever moves, in batches and streams."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument
from evenflow.stories.lsh import Fingerprints
from evenflow.stories.vectors import Vectors
from tests.support import stories_reference as reference
from tests.support.comparison import run_to_end
from tests.support.moving import Moving, region, source
from tests.support.stories_model import some_texts

ROWS = 2_000
PARAMETERS = {"bits": 4, "features": 1 << 12, "history": 20, "seed": 5}


@pytest.fixture(scope="module")
def texts():
    return some_texts(ROWS, seed=8)


@pytest.fixture(scope="module")
def rows(texts):
    return pa.table({"n": np.arange(ROWS), "a text": pa.array(texts), "x.y": np.arange(ROWS) * 0.5})


@pytest.fixture(scope="module")
def expected(texts):
    vectors = Vectors.fit(texts, 1 << 12)
    return list(reference.similarities(texts, vectors, Fingerprints(4, 1 << 12, 5), 20))


def by_place(table):
    table = table.sort_by("n").to_pylist()
    return {row["n"]: (row["fingerprint"], row["similarity"]) for row in table}


def test_all_rows_while_units_move(spark, cluster, texts, rows, expected):
    name = region("stories")
    df = source(spark, rows)
    corpus = spark.createDataFrame([(text,) for text in texts], "`a text` string").repartition(3)
    vectors = ef.fit_vectors(corpus, "a text", 1 << 12)
    assert vectors == Vectors.fit(texts, 1 << 12)
    out = ef.first_story(
        df, "a text", cluster=cluster, corpus=corpus, all=True, balance="hash", name=name, **PARAMETERS
    )
    assert out.columns == ["n", "a text", "x.y", "fingerprint", "similarity"]
    with Moving(cluster, name) as moving:
        while moving.wanted():
            found = out.toArrow()
            assert by_place(found) == dict(enumerate(expected))
            assert found.sort_by("n").select(rows.column_names).to_pylist() == rows.to_pylist()
    assert ef.fingerprints(df, "a text", bits=4, features=1 << 12, seed=5, corpus=vectors).toArrow().sort_by("n")[
        "fingerprint"
    ].to_pylist() == [fingerprint for fingerprint, _ in expected]


def test_alarms_of_a_stream_with_the_usual_balance(spark, cluster, rows, texts, expected, tmp_path):
    (tmp_path / "in").mkdir()
    for part in range(4):
        file = tmp_path / "in" / f"{part}.parquet"
        pq.write_table(rows.slice(part * ROWS // 4, ROWS // 4), file)
        os.utime(file, (part, part))  # Spark takes the oldest first
    stream = (
        spark.readStream.schema("n long, `a text` string, `x.y` double")
        .option("maxFilesPerTrigger", 1)
        .option("latestFirst", False)
        .parquet(str(tmp_path / "in"))
    )
    out = ef.first_story(stream, "a text", cluster=cluster, corpus=texts, name=region("stories"), **PARAMETERS)
    sink = out.writeStream.format("memory").queryName("first_stories").trigger(availableNow=True)
    run_to_end(sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    found = spark.table("first_stories").toArrow()
    alarms = {place: near for place, near in enumerate(expected) if near[1] is not None and near[1] <= 0.2}
    assert by_place(found) == alarms
    assert 50 < len(alarms) < ROWS / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "txt"}, "df has no column 'txt'; there are: text, n"),
        ({"text": "n"}, "column 'n' of df is bigint: give texts, or cast it to string"),
        ({"tau": 2}, "tau=2: give a cosine, from 0 to 1"),
        ({"bits": 20}, "bits=20: give a whole number from 1 to 16"),
        ({"features": 1000}, "features=1000: give a power of two"),
        ({"history": 0}, "history=0"),
        ({"corpus": "a text"}, "a list of texts"),
        ({"corpus": [1, 2]}, "texts are int64"),
        ({"balance": "pkg"}, "sends rows of one key to several workers"),
        ({"tuning": ef.Tuning(units=2)}, "units=2"),
        ({"corpus": 5}, "corpus=5: give a batch DataFrame with the texts, texts, or Vectors"),
        ({"cluster": None}, "cluster=None: give a Cluster"),
        ({"cluster": "local"}, "cluster='local': give a Cluster"),
    ],
)
def test_bad_arguments(spark, cluster, options, message):
    df = spark.createDataFrame([("a", 1)], "text string, n long")
    with pytest.raises(InvalidArgument, match=message):
        ef.first_story(df, **{"cluster": cluster, **options})
    with pytest.raises(InvalidArgument, match=r"text=Column.*: give the name of a column"):
        ef.first_story(df, F.col("text"), cluster=cluster)


def test_columns_that_are_taken_and_streams_as_corpus(spark, cluster):
    df = spark.createDataFrame([("a", 1)], "text string, similarity long")
    with pytest.raises(InvalidArgument, match="column 'similarity' is added, and df has 'similarity' already"):
        ef.first_story(df, cluster=cluster)
    other = df.withColumnRenamed("similarity", "Fingerprint")
    for make in (lambda: ef.first_story(other, cluster=cluster), lambda: ef.fingerprints(other)):
        with pytest.raises(InvalidArgument, match="column 'fingerprint' is added, and df has 'Fingerprint' already"):
            make()
    stream = spark.readStream.format("rate").load().selectExpr("cast(value as string) text")
    with pytest.raises(InvalidArgument, match="corpus is a stream"):
        ef.first_story(df.select("text"), cluster=cluster, corpus=stream)
