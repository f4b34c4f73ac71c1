"""Operators that get further parts while they keep their state."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow import functions as F
from evenflow.errors import FunctionError
from evenflow.operators.growing import earlier_of, new_parts
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import identity

KEYS = np.zeros(3, np.int64)
UNITS = np.zeros(3, np.int32)


def rows(*values, **more):
    return pa.record_batch({"v": list(values), **more})


@pytest.mark.parametrize("window", [{}, {"rows": 2}, {"seconds": 2, "time": "t"}], ids=str)
@pytest.mark.parametrize("new", [F.count(), F.max("w"), F.count_distinct("w"), F.last("w"), F.stddev("w")], ids=str)
def test_what_is_new_begins_empty(window, new):
    old, bare = ef.Aggregates(n=F.sum("v"), **window), ef.Aggregates(new=new, **window)
    grown = ef.Aggregates(new=new, n=F.sum("v"), **window)
    old.process(rows(1, 2, 3, t=[1, 2, 3]), UNITS, KEYS)
    grown.install(0, old.extract(0))
    assert grown.sizes(np.array([0]))[0] > 0
    again = ef.Aggregates(new=new, n=F.sum("v"), **window)
    again.install(0, grown.extract(0))  # it may move before any row comes
    old.install(0, again.snapshot(0))
    given = rows(4, 5, 6, t=[4, 5, 6], w=[2.0, 3.0, 3.0], **{"xxhash64(w)": [20, 30, 30]})
    assert again.process(given, UNITS, KEYS).column("n").equals(old.process(given, UNITS, KEYS).column("n"))
    assert (
        again.process(given, UNITS, KEYS)
        .column("new")
        .equals([bare.process(given, UNITS, KEYS) for _ in range(2)][1].column("new"))
    )


def test_rows_of_the_log_go_through_the_parts_of_then():
    old, grown = ef.Aggregates(n=F.count()), ef.Aggregates(n=F.count(), top=F.max("new"))
    then, now = pa.schema({"v": pa.int64()}), pa.schema({"v": pa.int64(), "new": pa.int64()})
    result = pa.schema({"n": pa.int64(), "top": pa.int64()})
    before, after = Hosted(old, then, result, 4, adds=True), Hosted(grown, now, result, 4, adds=True)
    logged = pa.record_batch({"v": [1, 2], "hash": [3, 3]})
    body = logged.cast(before.columns_in_log(logged.schema))
    actor = after.fresh()
    after.replay_as(actor, after.note_of(body))
    out = actor.process(*after.replayed(body))
    assert out.select(["n", "top"]).to_pydict() == {"n": [1, 2], "top": [None, None]}
    after.replay_as(actor, "")
    new = pa.record_batch({"v": [1], "new": [7], "hash": [3]})
    assert after.note_of(new.cast(after.columns_in_log(new.schema))) == "" == after.note_of(new)
    assert actor.process(*after.replayed(new)).select(["n", "top"]).to_pydict() == {"n": [3], "top": [7]}
    with pytest.raises(FunctionError, match=r"went through Aggregates\(.*top.*: give that operator again"):
        before.replayed(new.cast(after.columns_in_log(new.schema)))


@pytest.mark.parametrize(
    "stored",
    [
        ef.Aggregates(n=F.count("v")),
        ef.Aggregates(n=F.count(), gone=F.max("v")),
        ef.Aggregates(n=F.count(), rows=3),
        ef.RollingMean("v", rows=3),
    ],
    ids=str,
)
def test_other_operators_are_not_earlier_ones(stored):
    now = ef.Aggregates(n=F.count(), top=F.max("v"))
    assert earlier_of(now, identity(stored)) is None
    assert new_parts(now, identity(stored)) == ()


@pytest.mark.parametrize(
    "text", ["", "Aggregates", "Aggregates()", "Aggregates(rows=inf)", "no(", "a.b", "Aggregates(*x)"]
)
def test_texts_that_are_no_operator(text):
    assert new_parts(ef.Aggregates(n=F.count()), text) == ()
