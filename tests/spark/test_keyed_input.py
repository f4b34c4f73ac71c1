"""`keyed` with bad input: one clear error on the side that can act, everyone else unharmed."""

import re
import threading

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

import evenflow as ef
from evenflow.errors import ClusterStopped, InvalidArgument
from evenflow.model.routing import MOST_UNITS
from evenflow.operators.keyed import KeyedOperator
from tests.support.moving import Moving, Nth, nth_of, region, source

BALANCES = "auto, dlb-h, dlb-l, exchange, flux, flux-auto, flux-hybrid, flux-memory, hash, kg, lptf, pkg, river"


@pytest.fixture(scope="module")
def df(spark):
    return spark.range(0, 300, 1, 1).selectExpr("id", "id % 7 as k", "map('a', id) as m", "id / 2 as `x y`")


@pytest.fixture(scope="module", autouse=True)
def _unharmed(shared_cluster, df):
    """After all of this the shared cluster goes on as if nothing had happened."""
    yield
    check(shared_cluster.keyed(df, "k", Nth()))


def check(out):
    got = out.select("id", "nth").toArrow().sort_by("id")
    assert got["nth"].to_pylist() == nth_of(number % 7 for number in range(300))


def error_of(out) -> str:
    """The message that reaches whoever evaluates the DataFrame."""
    with pytest.raises(Exception, match="evenflow") as caught:
        out.collect()
    return str(caught.value)


# -- refused at once


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("nix", ["no column 'nix'", "'id', 'k', 'm', 'x y'"]),
        (["k", "nix"], ["no column 'nix'", "'id', 'k', 'm', 'x y'"]),
        (lambda: F.col("nix"), ["nix", "'id', 'k', 'm', 'x y'"]),
        ("m", ["m", "map"]),
        (["k", "m"], ["m", "map"]),
        ([], ["key is empty"]),
        ((), ["key is empty"]),
        ([3], ["key 3"]),
        (3, ["key 3"]),
        (None, ["key None"]),
        ("", ["''", "'id', 'k', 'm', 'x y'"]),
    ],
    ids=str,
)
def test_wrong_key(cluster, df, key, words):
    with pytest.raises(InvalidArgument) as caught:
        cluster.keyed(df, key() if callable(key) else key, Nth())
    assert [word for word in words if word.lower() not in str(caught.value).lower()] == []
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize("operator", [None, 3, Nth, lambda rows: rows, "RollingMean"])
def test_operator_that_is_none(cluster, df, operator):
    with pytest.raises(InvalidArgument, match="give an object of a subclass of KeyedOperator"):
        cluster.keyed(df, "k", operator)


class Silent(KeyedOperator):
    """Does not tell what it returns."""

    def process(self, rows, units, keys):
        return rows

    def extract(self, unit):
        return None

    def install(self, unit, state):
        pass


def test_operator_without_a_schema(cluster, df):
    with pytest.raises(InvalidArgument, match="Silent does not say what columns it returns: give keyed a schema"):
        cluster.keyed(df, "k", Silent())


@pytest.mark.parametrize("schema", ["id lung", "", 3, "array<int>"], ids=repr)
def test_wrong_schema(cluster, df, schema):
    with pytest.raises(InvalidArgument, match="schema"):
        cluster.keyed(df, "k", Silent(), schema)


@pytest.mark.parametrize("units", [0, -1, 3, 2.5, "64", True, MOST_UNITS + 1], ids=repr)
def test_wrong_units(cluster, df, units):
    with pytest.raises(InvalidArgument, match=r"units=.*from .*\(?the workers\)? to 1,000,000"):
        cluster.keyed(df, "k", Nth(), tuning=ef.Tuning(units=units))


@pytest.mark.parametrize("balance", ["fair", "credits", "round-robin", "", 3, None, ef.policy.Hash], ids=str)
def test_wrong_balance(cluster, df, balance):
    with pytest.raises(InvalidArgument, match=BALANCES):
        cluster.keyed(df, "k", Nth(), balance=balance)


def test_balances_of_the_other_kind(cluster, df):
    with pytest.raises(InvalidArgument, match=BALANCES):
        cluster.keyed(df, "k", Nth(), balance=ef.policy.Credits())
    for balance in ("flux", ef.policy.Flux(), ef.policy.River()):
        with pytest.raises(InvalidArgument, match=r"blocking-rate, credits, .*round-robin"):
            cluster.ordered_map(df, lambda batch: batch, df.schema, balance=balance)


def test_wrong_options(cluster, df):
    with pytest.raises(
        InvalidArgument,
        match=r"does not take th_imbalance",
    ):
        cluster.keyed(df, "k", Nth(), balance="flux", th_imbalance=2)
    with pytest.raises(InvalidArgument, match=r"th_imb is 0\.5"):
        cluster.keyed(df, "k", Nth(), balance="flux", th_imb=0.5)
    with pytest.raises(InvalidArgument, match=r"give these to Flux\(\.\.\.\) itself"):
        cluster.keyed(df, "k", Nth(), balance=ef.policy.Flux(), th_imb=2)


@pytest.mark.parametrize("balance", ["river", ef.policy.River()], ids=["name", "object"])
def test_river_for_an_operator_that_minds(cluster, df, balance):
    with pytest.raises(InvalidArgument, match=r"Nth is content sensitive: use another balance"):
        cluster.keyed(df, "k", Nth(), balance=balance)


def test_operator_that_cannot_be_pickled(cluster, df):
    operator = Nth()
    operator.lock = threading.Lock()
    with pytest.raises(InvalidArgument, match=r"cannot be shipped to the workers.*lock"):
        cluster.keyed(df, "k", operator)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (ef.RollingMean("nix", rows=3), "needs column 'nix', which does not exist; there are: 'id', 'k', 'm', 'x y'"),
        (ef.RollingMean("m", rows=3), "needs numbers, column 'm' is map"),
        (ef.RollingMean("id", seconds=3, time="m"), "needs a time, column 'm' is map"),
        (ef.RunningSum("id", into="k"), "adds column 'k', which the rows have already"),
        (ef.DistinctCount("nix"), "'nix'"),
        (ef.DistinctCount("m"), "column 'm' cannot be hashed"),
        (ef.WindowJoin("id", "L", "R", rows=3), "tells sides apart by strings, column 'id' is int64"),
    ],
    ids=str,
)
def test_operators_that_do_not_fit_the_rows(cluster, df, operator, words):
    with pytest.raises(InvalidArgument, match=words):
        cluster.keyed(df, "k", operator)


def test_what_is_no_dataframe(cluster):
    with pytest.raises(InvalidArgument, match="not a DataFrame of Spark"):
        cluster.keyed([1, 2], "k", Nth())


def test_moves_that_make_no_sense(cluster, df):
    name = region("senseless")
    cluster.keyed(df, "k", Nth(), tuning=ef.Tuning(units=8), name=name)
    for units, target in (([9], 0), ([-1], 0), ([0], 4), ([0], -1)):
        with pytest.raises(InvalidArgument, match="units from 0 to 8, and a worker from 0 to 3"):
            cluster.region(name).move(units, target)
    with pytest.raises(InvalidArgument, match=f"no region '{name[:-1]}'; did you mean .*'{name}'"):
        cluster.region(name[:-1])


def test_a_region_does_what_its_kind_can(cluster, df):
    name = region("kinds")
    keyed, mapped = (f"{name}-{kind}" for kind in ("keyed", "mapped"))
    graph = ef.Graph(f"{name}-graph")
    graph.endpoint("big", graph.source("rows").filter("id > 1"))
    cluster.keyed(df, "k", Nth(), name=keyed)
    cluster.ordered_map(df, lambda batch: batch, df.schema, name=mapped)
    assert cluster.run(graph, {"rows": df.select("id")})["big"].count() == df.where("id > 1").count()
    ones = [cluster.region(each) for each in (mapped, keyed, f"{name}-graph.big")]
    assert [one.kind for one in ones] == ["ordered", "keyed", "graph"]
    assert [type(one.snapshot()).__name__ for one in ones] == ["Snapshot", "KeyedSnapshot", "KeyedSnapshot"]
    assert repr(ones[1]) == f"<region {keyed}: keyed>"
    assert list(ones[2].placement()) == ["filter"]
    with pytest.raises(InvalidArgument, match=f"region {mapped} is ordered: it has no units that could move"):
        ones[0].move([0], 0)
    for act, able in ((ones[1].placement, "have operators"), (ones[1].settled, "tell when they have settled")):
        with pytest.raises(InvalidArgument, match=f"region {keyed} is keyed: only graphs {able}"):
            act()
    for wrong in (0, "2", True, None):
        with pytest.raises(InvalidArgument, match="give a weight above 0"):
            ones[0].set_qos(wrong)
    with pytest.raises(InvalidArgument, match="planned with latency_ms=None and shed=None, and only its weight can"):
        ones[0].set_qos(ef.Qos(latency_ms=5))


def test_a_region_gets_another_weight_while_rows_flow(cluster, df, eventually):
    name = region("weighed")
    cluster.keyed(df, "k", Nth(), name=name)
    cluster.region(name).set_qos(ef.Qos(weight=4))

    def said():
        return [event for event in cluster.events() if event["event"] == "qos" and event["region"] == name]

    eventually(said, what="the controller has told the workers")
    assert [(event["why"], event["weight"]) for event in said()] == [("asked for", 4)]


@pytest.mark.parametrize(
    ("old", "arguments", "new"),
    [
        ("snapshot", (), "snapshot"),
        ("keyed_snapshot", (), "snapshot"),
        ("placement", (), "placement"),
        ("settled", (), "settled"),
        ("move", ([0], 0), "move"),
    ],
)
def test_verbs_that_moved_to_the_region_are_deprecated(cluster, old, arguments, new):
    rows, graph = cluster._spark.range(3), ef.Graph(region("old"))
    graph.endpoint("all", graph.source("rows").filter("id >= 0"))
    cluster.run(graph, {"rows": rows})["all"].count()
    mapped = region("old-map")
    cluster.ordered_map(rows, lambda batch: batch, rows.schema, name=mapped).count()
    name, other = (mapped, f"{graph.name}.all") if old == "snapshot" else (f"{graph.name}.all", mapped)
    said = rf"Cluster\.{old} is deprecated .*: give cluster\.region\('{name}'\)\.{new}\(...\)"
    with pytest.warns(DeprecationWarning, match=said) as seen:
        found = getattr(cluster, old)(name, *arguments)
    assert [each.filename for each in seen] == [__file__]
    assert type(found) is type(getattr(cluster.region(name), new)(*arguments))
    if new == "snapshot":
        with pytest.raises(InvalidArgument, match=r"ask cluster\.region"), pytest.warns(DeprecationWarning, match=old):
            getattr(cluster, old)(other)


# -- found out on the workers


class Fails(Nth):
    """Raises for one row."""

    def process(self, rows, units, keys):
        def deeper(value):
            return 1 // (value - 222)

        for value in rows.column("id").to_pylist():
            deeper(value)
        return super().process(rows, units, keys)


def test_operator_that_raises(spark, cluster, df):
    """Unit, key, worker and traceback reach the user, whatever Spark's retries run into."""
    message = error_of(cluster.keyed(df, "k", Fails(), tuning=ef.Tuning(units=16), name=region("fails")))
    assert "ZeroDivisionError" in message
    assert "in deeper" in message
    key = df.where("id = 222").select(F.xxhash64("k")).first()[0]
    assert re.search(rf"failed on worker [0-3] \(unit {key % 16}, key hash {key}\), in partition 0", message)


def test_operator_that_raises_in_a_stream(spark, cluster, tmp_path):
    spark.range(0, 300, 1, 1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    out = cluster.keyed(stream, F.col("id") % 7, Fails())
    query = out.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        query.awaitTermination(120)
    assert not query.isActive


class Wrong(Nth):
    """Returns something else than `keyed` was told."""

    schema = KeyedOperator.schema

    def __init__(self, change):
        super().__init__()
        self.change = change

    def process(self, rows, units, keys):
        return self.change(super().process(rows, units, keys).select(["id", "nth"]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b.rename_columns(["id", "n"]), ["columns ['id', 'n']", "missing: ['nth']"]),
        (lambda b: pa.record_batch({"id": b.column("id"), "nth": b.column("nth").cast("string")}), ["'nth' is string"]),
        (lambda b: None, ["returned NoneType"]),
        (lambda b: b.to_pandas(), ["returned DataFrame"]),
        (lambda b: (b, [0]), ["gave 1 places for"]),
        (lambda b: b.slice(0, 0), ["gave 0 rows for"]),
    ],
    ids=["renamed", "text", "none", "pandas", "places", "fewer"],
)
def test_wrong_result(cluster, df, change, words):
    out = cluster.keyed(df, "k", Wrong(change), "id long, nth long", ordered=True)
    message = error_of(out)
    assert [word for word in words if word not in message] == []


def test_null_times_are_an_error(cluster, df):
    frame = df.selectExpr("id", "k", "if(id = 100, null, id) as t")
    message = error_of(cluster.keyed(frame, "k", ef.RollingMean("id", seconds=3, time="t")))
    assert "column 't' is the time and is null in" in message


def test_unknown_tag_is_an_error(cluster, df):
    frame = df.selectExpr("id", "k", "if(id = 100, 'M', 'L') as tag")
    message = error_of(cluster.keyed(frame, "k", ef.WindowJoin("tag", "L", "R", rows=3)))
    assert "column 'tag' is 'M' in a row" in message


class Unpicklable(Nth):
    def extract(self, unit):
        counts = super().extract(unit)
        return None if counts is None else (counts, threading.Lock())

    def install(self, unit, state):
        super().install(unit, state[0])


class Stubborn(Nth):
    def extract(self, unit):
        raise ValueError("I will not go")


class Picky(Nth):
    def install(self, unit, state):
        raise ValueError("I will not take it")


@pytest.mark.parametrize(
    ("operator", "reason"),
    [(Unpicklable, "cannot be serialised: cannot pickle"), (Stubborn, "ValueError: I will not go")],
)
def test_state_that_cannot_be_moved(spark, cluster, conf, eventually, operator, reason):
    """The query goes on and is right; the log says why nothing moves."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "30")
    rows = pa.table({"id": list(range(1_500)), "k": [number % 50 for number in range(1_500)]})
    name = region("stays")
    out = cluster.keyed(source(spark, rows, pause_s=0.02), "k", operator(), tuning=ef.Tuning(units=16), name=name)

    def whys(kind):
        return [event["why"] for event in cluster.events() if event.get("region") == name and event["event"] == kind]

    with Moving(cluster, name, least=0) as moving:
        while moving.wanted() or not any(reason in why for why in whys("move-undone")):
            got = out.toArrow().sort_by("id")
            assert got["nth"].to_pylist() == nth_of(rows["k"].to_pylist())
    for target in range(3):
        cluster.region(name).move([0], target)
    eventually(
        lambda: any("cannot be moved" in why and reason in why for why in whys("move-refused")), what="a refusal"
    )


def test_install_that_raises(spark, cluster, conf):
    """The source takes its state back. `Picky` cannot, so it fails with a reason and does not count wrongly."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "30")
    rows = pa.table({"id": list(range(1_500)), "k": [number % 50 for number in range(1_500)]})
    name = region("picky")
    out = cluster.keyed(source(spark, rows, pause_s=0.02), "k", Picky(), tuning=ef.Tuning(units=16), name=name)
    try:
        with Moving(cluster, name, least=0):
            got = out.toArrow().sort_by("id")
    except Exception as error:
        assert "I will not take it" in str(error)  # noqa: PT017
    else:
        assert got["nth"].to_pylist() == nth_of(rows["k"].to_pylist())


def test_stopped_cluster(spark, df):
    with ef.Cluster(spark, workers=1) as cluster:
        out = cluster.keyed(df, "k", Nth())
        check(out)
    with pytest.raises(ClusterStopped, match="start a new Cluster"):
        cluster.keyed(df, "k", Nth())
    message = error_of(out)
    assert "does not serve region" in message
    assert "Start the query again on a running Cluster" in message


class Odd(Nth):
    """Says something odd of what it returns, or reads."""

    def __init__(self, **odd):
        super().__init__()
        self._odd = odd

    def schema(self, rows):
        return self._odd["schema"] if "schema" in self._odd else super().schema(rows)

    def reads(self, rows):
        return self._odd.get("reads", rows.names)


@pytest.mark.parametrize("odd", [None, ["id"], StructType([])])
def test_an_operator_that_says_no_schema(cluster, df, odd):
    with pytest.raises(InvalidArgument, match=r"Odd\.schema returned .*: return a pyarrow\.Schema"):
        cluster.keyed(df, "k", Odd(schema=odd))


def test_a_schema_that_is_not_the_operators(cluster, df):
    with pytest.raises(InvalidArgument, match="declares column 'nth' as string, and Nth returns int64"):
        cluster.keyed(df, "k", Nth(), schema=StructType([*df.schema.fields, StructField("nth", StringType())]))


def test_an_operator_that_reads_one_column(cluster, df):
    class One(Odd):
        def schema(self, rows):
            return pa.schema([rows.field("k"), pa.field("nth", pa.int64())])

    assert cluster.keyed(df, "k", One(reads="k"), name=region("one")).count() == df.count()
    with pytest.raises(InvalidArgument, match=r"Odd\.reads returned 5: return a list of column names"):
        cluster.keyed(df, "k", Odd(reads=5))
