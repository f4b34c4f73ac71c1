"""What graphs are given: every kind of value and name goes through, and what is wrong is refused or told once."""

import re
import threading

import pyarrow.compute as pc
import pytest

import evenflow as ef
from evenflow.errors import EvenflowError, InvalidArgument
from tests.support.graph_frames import check, graph_of, numbers, run
from tests.support.moving import Nth

ODD = {
    "timestamp": "timestamp_micros(id * 3600000001)",
    "timestamp_ntz": "timestamp_ntz'2024-03-10 01:59:59.999999'",
    "interval day to second": "make_dt_interval(1, 1, 2, 3.000004)",
    "binary": "unhex(hex(id))",
    "decimal(38,10)": "cast(id as decimal(38,10)) / 7",
    "array<array<string>>": "array(array('a', null, cast(id as string)), array(), null)",
    "map<string,double>": "map('half', id / 2, 'none', null)",
    "struct<a:int,b:array<timestamp>>": "named_struct('a', cast(id as int), 'b', array(timestamp_seconds(id), null))",
    "string collate UTF8_LCASE": "cast(id as string)",
    "void": "null",
}


def test_types(spark, cluster, conf):
    """All kinds of values go through one source and through two, with nulls among them."""
    chosen = [f"cast(if(id % 4 = 0, null, {each}) as {kind}) as c{at}" for at, (kind, each) in enumerate(ODD.items())]
    df = spark.range(0, 24, 1, 2).selectExpr("id", *chosen)
    got = run(cluster, graph_of(lambda s: s.filter("id < 20").keyed("id", Nth(), units=3)), s=df)
    check(got.drop("nth"), df.filter("id < 20"))
    conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    other = spark.range(0, 24).selectExpr("id", "cast(id as string) as more")
    check(
        run(cluster, graph_of(lambda a, b: a.join(b, "id", rows=3, units=2), "a", "b"), a=df, b=other),
        df.join(other, "id"),
    )


def test_keys_of_many_types(spark, cluster):
    keys = {
        "decimal(9,2)": "id % 5 / 4",
        "decimal(38,10)": "id % 6 / 7",
        "double": "if(id % 5 = 2, double('NaN'), if(id % 2 = 0, -0.0d, 0.0d))",
        "date": "date_add(date'2024-01-01', cast(id % 5 as int))",
        "timestamp": "timestamp_seconds(id % 5)",
        "string": "concat('ä', id % 5)",
        "binary": "cast(id % 5 as string)",
        "boolean": "id % 4 > 1",
    }
    columns = [
        f"cast(if(id % 11 = {n}, null, {each}) as {kind}) as k{n}" for n, (kind, each) in enumerate(keys.items())
    ]
    df = spark.range(0, 100, 1, 2).selectExpr(*columns, "id")
    other, on = df.withColumnRenamed("id", "other"), df.columns[:-1]
    check(
        run(cluster, graph_of(lambda a, b: a.join(b, on, rows=999, units=3), "a", "b"), a=df, b=other),
        df.join(other, on),
    )


def test_names(spark, cluster, conf):
    """Dots, backquotes, spaces, names that we use ourselves, and names that differ in case."""
    df = spark.range(20).selectExpr("id as `a.b`", "id % 3 as `back``tick`", "id as `a b`", "id as c0", "id as source")
    other = spark.range(20).selectExpr("id as `A.B`", "id as `x.y`")
    graph = graph_of(lambda a, b: a.filter("`a.b` > 3").join(b, "a.b", rows=9).keyed("back`tick", Nth()), "a", "b")
    check(run(cluster, graph, a=df, b=other).drop("nth"), df.filter("`a.b` > 3").selectExpr("*", "`a.b` as `x.y`"))
    conf("spark.sql.caseSensitive", "true")
    twins = spark.range(10).selectExpr("id", "-id as ID")
    graph = graph_of(lambda s: s.filter("ID < -3").keyed("ID", Nth()))
    check(run(cluster, graph, s=twins).drop("nth"), twins.filter("ID < -3"))
    conf("spark.sql.caseSensitive", "false")
    check(run(cluster, graph_of(lambda s: s.filter(lambda rows: pc.less(rows["ID"], 99))), s=twins), twins)


def boom(batch):
    if 77 in batch["id"].to_pylist():
        raise ValueError("on purpose")
    return batch


class Failing(Nth):
    def process(self, rows, units, keys):
        raise KeyError("lost")


class Unloadable:
    """A model that is not where workers look for it."""

    def __call__(self, batch):
        return batch

    def __reduce__(self):
        return __import__, ("no_such_model",)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s: s.filter("id > 3").map(boom, "id long", name="scorer"),
            r"failed on worker \d \(operator 'scorer', \d+ rows\), in partition \d: ValueError: on purpose.*in boom",
        ),
        (lambda s: s.keyed("id", Failing(), name="scorer"), r"\(operator 'scorer', \d+ rows\).*KeyError: 'lost'"),
        (lambda s: s.filter(lambda rows: [1, 2]), "filter 'filter' returned list: return a boolean for each row"),
        (lambda s: s.map(lambda rows: rows, "a long"), r"map 'map': the function returned columns \['id'\].*'a'"),
        (lambda s: s.map(Unloadable(), "id long"), "the graph could not be loaded.*No module named 'no_such_model'"),
    ],
)
def test_errors(spark, cluster, build, message):
    with pytest.raises(Exception, match=f"(?s)FunctionError.*{message}") as caught:
        run(cluster, graph_of(build), s=spark.range(0, 100, 1, 1)).collect()
    assert str(caught.value).count(" failed on worker ") == 1
    assert "here again" not in str(caught.value)


JOIN = graph_of(lambda a, b: a.join(b, "id", rows=3), "a", "b")


def joined(*columns):
    return graph_of(lambda a, b: a.join(b.map(lambda rows: rows, "s string, w long"), [columns], rows=3), "a", "b")


BAD = {
    "inputs does not have 'b': give an input for each source": {"inputs": ["a"]},
    "inputs has 'c', and the graph has no such source; there are: 'a', 'b'": {"inputs": ["a", "b", "c"]},
    "df is a int, not a DataFrame of Spark": {"inputs": {"a": 3}},
    "inputs=3: give a DataFrame for each source": {"inputs": 3},
    "the graph is 'g': give an evenflow.Graph": {"graph": "g"},
    "graph 'graph' has no endpoint": {"graph": ef.Graph(), "inputs": []},
    "join 'join' would have two columns 'k'": {},
    "the left side of join 'join' needs column 'nope', which does not exist": {"graph": joined("nope", "s")},
    "compares column 'id', which is int64, with 's', which is string": {"graph": joined("id", "s")},
    "needs column 'nope', which does not exist; there are: 'id', 'k', 's', 'v'": {
        "graph": graph_of(lambda a: a.keyed("nope", Nth()), "a"),
        "inputs": ["a"],
    },
    "unknown column 'nope'": {"graph": graph_of(lambda a: a.filter("nope > 1"), "a"), "inputs": ["a"]},
    "quota names worker 9: there are workers 0 to 3": {"quota": {9: 0.5}},
    "quota of worker 0 is 0: give a number above 0, at most 1": {"quota": {0: 0}},
    "quota=0.5: give {worker: number}": {"quota": 0.5},
    "coefficients of worker 1 is -1: give a number above 0": {"coefficients": {1: -1}},
    "links names (0, 9): give pairs of two workers from 0 to 3": {"links": {(0, 9): (1, 1)}},
    "links of (0, 1) is 3: give (delay in ms, bytes a second)": {"links": {(0, 1): 3}},
    "there is no placement 'nope'": {"placement": "nope"},
    "placement=<class 'object'>: give a name, or an object from evenflow.policy": {"placement": object},
    "options ['k'] go with the name of a placement": {"placement": object(), "k": 1},
    "transfer='store': give 'direct', or 'store' in a cluster with a checkpoint": {
        "tuning": ef.Tuning(transfer="store")
    },
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(spark, cluster, message):
    given = {"graph": JOIN, "inputs": ["a", "b"], **BAD[message]}
    inputs, df = given.pop("inputs"), numbers(spark, 3)
    named = dict.fromkeys(inputs, df) if isinstance(inputs, list) else inputs
    with pytest.raises(EvenflowError, match=re.escape(message)):
        cluster.run(given.pop("graph"), inputs=named, **given)


def test_bad_input_of_endpoints(spark, cluster):
    out = cluster.run(graph_of(lambda s: s), inputs={"s": spark.range(3)})
    with pytest.raises(InvalidArgument, match="there is no endpoint 'nope'; there are: 'out'"):
        out["nope"]
    with pytest.raises(InvalidArgument, match="writeStream is for streaming inputs"):
        out.writeStream(print)
    months = spark.range(3).selectExpr("id", "make_ym_interval(1, 2) as m")
    with pytest.raises(InvalidArgument, match="column 'm' is interval year to month, which Spark cannot give"):
        cluster.run(graph_of(lambda s: s), inputs={"s": months})
    lock = threading.Lock()
    out = cluster.run(graph_of(lambda s: s.map(lambda rows: rows and lock, "id long")), inputs={"s": spark.range(3)})
    with pytest.raises(InvalidArgument, match="cannot be shipped to the workers"):
        out["out"]


def test_structs_that_are_null_though_their_fields_may_not_be(spark, cluster):
    """Spark has them wherever a struct is made behind a condition."""
    df = spark.range(0, 20, 1, 2).selectExpr("id", "if(id % 4 = 0, null, named_struct('p', id)) as v")
    assert not df.schema["v"].dataType["p"].nullable
    more = df.selectExpr("*", "array(v, null) as many", "map('v', v) as named")
    wanted = more.collect()
    for made in (lambda s: s.filter("id >= 0"), lambda s: s.keyed("id", Nth(), units=3)):
        got = run(cluster, graph_of(made), s=more).select(more.columns)
        assert sorted(got.collect()) == wanted, "toArrow of Spark itself cannot read these"
    assert sorted(cluster.ordered_map(more, lambda rows: rows, schema=more.schema).collect()) == wanted


def test_rules_over_columns_that_may_not_be_null(spark, cluster):
    df = spark.range(0, 40, 1, 1).selectExpr("id", "concat('k', id % 5) as k")
    rule = "SELECT a.id AS i, b.id AS j FROM PATTERN [every a=T(id < 10) -> b=T(id > 20)]"
    got = run(cluster, graph_of(lambda s: s.detect(rule, key="k"), "T"), T=df)
    check(got, cluster.detect(df, rule, key="k", functions=None, order="arrival"))
