"""Names and types are checked before any row comes, and errors point at them."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.language.errors import RuleError
from evenflow.rules.operator import RuleOperator

TICK = pa.schema(
    {
        "symbol": pa.string(),
        "price": pa.float64(),
        "Volume": pa.int32(),
        "time": pa.timestamp("us", "UTC"),
        "big": pa.large_string(),
        "ok": pa.bool_(),
        "cost": pa.decimal128(10, 2),
    }
)


def half(value):
    return value / 2


def schema(text, **more):
    given = {"key": ["symbol"], "time": "time", "functions": {"half": half}} | more
    return RuleOperator(text, **given).schema(TICK)


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("select prise from Tick", 1, 8, "unknown column 'prise'; did you mean 'price'?"),
        ("select *\nfrom Tick t\nwhere t.prise > 1", 3, 7, "unknown column 'prise' of 't'; did you mean 'price'?"),
        ("select x.price from Tick t", 1, 8, "unknown stream or alias 'x'; there are: 't'"),
        ("select avrg(price) from Tick", 1, 8, "unknown function 'avrg'; did you mean 'avg'?"),
        (
            "select median(price) from Tick",
            1,
            8,
            "the aggregates count, sum, avg, min, max, stddev, first, last, prev and the functions",
        ),
        ("select xyzzy(price) from Tick", 1, 8, "unknown function 'xyzzy'; there are the aggregates count, sum, "),
        ("select * from Tick where helf(price) > 1", 1, 26, "unknown function 'helf'; did you mean 'half'?"),
        ("select Tock.half(price) from Tick", 1, 8, "unknown stream or alias 'Tock' before 'half'"),
        ("select * from Tick A, Tock.win:length(3) B", 1, 23, "unknown stream 'Tock'; did you mean 'Tick'?"),
        ("a=Tick -> b=Tock", 1, 11, "unknown stream 'Tock'"),
        ("select * from Tick where price = symbol", 1, 26, "price, which is double, and symbol, which is string"),
        (
            "select price + symbol from Tick",
            1,
            8,
            "'+' does not fit price, which is double, and symbol, which is string",
        ),
        ("select * from Tick where price", 1, 26, "WHERE needs a condition, price is double"),
        ("select * from Tick where not price", 1, 30, "'not' needs a boolean, price is double"),
        ("select * from Tick where symbol like price", 1, 38, "like needs a string in quotes"),
        ("select avg(symbol) from Tick", 1, 12, "avg needs a number, symbol is string"),
        ("select lower(price) from Tick", 1, 14, "'lower' needs a text, price is double"),
        ("select round() from Tick", 1, 8, "round takes 1 to 2 arguments, here are 0"),
        ("select half() from Tick", 1, 8, "'half' is called without arguments"),
        ("select coalesce(price, symbol) from Tick", 1, 8, "arguments of one type, these are double and string"),
        (
            "select case when ok then price else symbol end from Tick",
            1,
            8,
            "values of one type, these are double, string",
        ),
        ("select * from Tick where avg(price) > 1", 1, 26, "avg(price) cannot stand in WHERE"),
        ("select avg(max(price)) from Tick", 1, 12, "max(price) cannot stand in an aggregate"),
        ("select * from Tick(count(*) > 1)", 1, 20, "count(*) cannot stand in a filter"),
        ("select count(distinct price) from Tick", 1, 8, "count(distinct price) needs a window"),
        ("select price, price from Tick", 1, 15, "two columns are called 'price'"),
        ("select *, 1 as price from Tick", 1, 11, "two columns are called 'price'"),
        ("select null as nothing from Tick", 1, 8, "column 'nothing' is always null"),
        ("select * from Tick.win:len(3)", 1, 20, "unknown view 'win:len'; did you mean 'win:length'"),
        ("select * from Tick.win:length(0)", 1, 20, "win:length takes a number of rows from 1"),
        ("select * from Tick.win:length(3 sec)", 1, 20, "win:length takes a number of rows"),
        ("select * from Tick.win:time(symbol)", 1, 20, "win:time takes a time, such as win:time(10 sec)"),
        ("select * from Tick.std:groupwin(5).win:length(3)", 1, 20, "std:groupwin takes the names of columns"),
        ("select * from Tick.std:groupwin(symbol)", 1, 20, "std:groupwin needs a window behind it"),
        ("select * from Tick.std:groupwin(nobody).win:length(3)", 1, 20, "unknown column 'nobody'"),
        ("select * from Tick.win:length(3).win:length(3)", 1, 34, "win:length comes after another window"),
        ("select * from Tick.std:lastevent(3)", 1, 20, "std:lastevent() takes no argument"),
        ("select * from Tick A, Tick.win:length(3) A", 1, 23, "two streams are called 'A'"),
        ("select * from Tick A, Tick B", 1, 23, "'B' needs a window"),
        ("select * from Tick.win:length(2) A, Tick.win:length(3) B", 1, 15, "make one of them std:lastevent()"),
        ("select * from Tick A, Tick.win:length_batch(3) B", 1, 28, "a batch cannot be joined"),
        ("select * from Tick A, Tick.win:length(3) B, Tick C", 1, 45, "more than two streams"),
        ("select price from Tick A, Tick.win:length(3) B", 1, 8, "'price' may be 'A.price' or 'B.price'"),
        ("select B.price, count(*) from Tick A, Tick.win:length(3) B", 1, 8, "'B' has many rows for one trigger"),
        ("select B.*, count(*) from Tick A, Tick.win:length(3) B", 1, 8, "'B' has many rows for one trigger"),
        ("select count(*) from Tick A, Tick.win:length(3) B group by A.price", 1, 60, "GROUP BY cannot stand"),
        (
            "select count(*) from Tick A, Tick.std:groupwin(price).win:length(3) B",
            1,
            35,
            "std:groupwin(price) needs A.... = B.price in WHERE",
        ),
        ("select count(*) from pattern [a=Tick]", 1, 8, "count(*) cannot stand in a rule over a pattern"),
        ("select 9223372036854775808 as n from Tick", 1, 8, "too large for a whole number of 64 bits"),
        ("select -9223372036854775809 as n from Tick", 1, 8, "too large for a whole number of 64 bits"),
        ("select * from Tick.win:time(300000 days)", 1, 20, "of at most 1000000000 sec (11574 days)"),
        ("select Volume as a, price as A from Tick", 1, 21, "two columns 'a' and 'A' differ in case only"),
        ("select round(price, Volume) from Tick", 1, 21, "whole number of digits from -308 to 308, not Volume"),
        ("select round(price, 1.5) from Tick", 1, 21, "whole number of digits from -308 to 308, not 1.5"),
        ("select round(price, -309) from Tick", 1, 21, "whole number of digits from -308 to 308, not - 309"),
        (
            "select * from Tick.std:groupwin(nobody).std:lastevent() A, Tick.win:length(3) B",
            1,
            20,
            "unknown column 'nobody'",
        ),
    ],
)
def test_errors_point_at_what_is_wrong(text, line, column, says):
    with pytest.raises(RuleError) as caught:
        schema(text)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "text", ["select * from Tick.win:time(1 sec)", "every a=Tick -> b=Tick where timer:within(1 sec)"]
)
def test_what_is_in_time_needs_the_time(text):
    with pytest.raises(RuleError, match="needs the time of the rows: give time="):
        schema(text, time=None)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("price", pa.float64()),
        ("VOLUME", pa.int32()),
        ("Volume + 1", pa.int64()),
        ("Volume / 2", pa.float64()),
        ("cost * 2", pa.decimal128(12, 2)),
        ("big || symbol", pa.large_string()),
        ("length(big)", pa.int64()),
        ("time - time", pa.float64()),
        ("half(price)", pa.float64()),
        ("HALF(price)", pa.float64()),
        ("tick.Half(PRICE)", pa.float64()),
        ("name(symbol)", pa.string()),
        ("count(*)", pa.int64()),
        ("max(Volume)", pa.int32()),
        ("case when ok then 1 end", pa.int64()),
        ("price > cost", pa.bool_()),
    ],
)
def test_types(expression, kind):
    functions = {"half": half, "name": UserFunction(str, pa.string())}
    found = schema(f"select {expression} as it from Tick", functions=functions)
    assert found.field("it").type == kind


def test_names_are_found_as_spelled_first_and_by_any_case_if_there_is_one():
    rows = pa.schema({"a": pa.int64(), "A": pa.string(), "b": pa.int64()})
    operator = RuleOperator("select a, A as text, B from T")
    assert operator.schema(rows) == pa.schema({"a": pa.int64(), "text": pa.string(), "b": pa.int64()})
    both = pa.schema({"Ab": pa.int64(), "aB": pa.int64()})
    with pytest.raises(RuleError, match=r"may be 'T\.Ab' or 'T\.aB'"):
        RuleOperator("select ab from T").schema(both)


def test_only_what_is_needed_is_read():
    assert RuleOperator("select avg(price) from Tick where Volume > 1", key=["symbol"]).reads(TICK) == [
        "price",
        "Volume",
    ]
    assert RuleOperator("select count(*) from Tick").reads(TICK) == ["symbol"]
    timed = RuleOperator("select count(*) from Tick.win:time(1 sec)", time="time")
    assert timed.reads(TICK) == ["time"]
    late = RuleOperator("select count(*) from Tick", time="time", lateness_s=1)
    assert late.reads(TICK) == TICK.names
    pattern = RuleOperator("select a.price from pattern [a=Tick -> b=Tick(Volume > a.Volume)]", time="time")
    assert pattern.reads(TICK) == ["price", "Volume", "time"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rules": {}}, "rules is empty"),
        ({"rules": {"a": 5}}, "give names and texts"),
        ({"rules": "select * from T", "lateness_s": 1}, "lateness is 1 and time is None"),
        ({"rules": "select * from T", "lateness_s": -1, "time": "t"}, "lateness is -1"),
        ({"rules": "select * from T", "streams": {"T": ["a"], "U": ["a"]}}, "several streams need a column"),
        ({"rules": "select * from T", "functions": {"max": max}}, "the name of an aggregate"),
        ({"rules": "select * from T", "functions": {"f": 3}}, "something that can be called"),
    ],
)
def test_arguments_that_cannot_work(given, says):
    with pytest.raises(InvalidArgument, match=says):
        RuleOperator(**given)


def test_columns_that_do_not_fit():
    with pytest.raises(InvalidArgument, match="column 'x' is double in rule 'a' and string in rule 'b'"):
        schema({"a": "select price as x from Tick", "b": "select symbol as x from Tick"})
    with pytest.raises(InvalidArgument, match="selects a column 'rule'"):
        schema({"a": "select price as rule from Tick"})
    with pytest.raises(InvalidArgument, match=r"^the rule selects a column 'Late'"):
        schema("select price as Late from Tick", lateness_s=1)
    with pytest.raises(InvalidArgument, match="columns 'x' of rule 'a' and 'X' of rule 'b' differ in case only"):
        schema({"a": "select price as x from Tick", "b": "select price as X from Tick"})
    with pytest.raises(InvalidArgument, match="needs a time, column 'symbol' is string"):
        schema("select price from Tick", time="symbol")
    with pytest.raises(InvalidArgument, match="needs column 'when', which does not exist"):
        schema("select price from Tick", time="when")


def test_times_are_compared_and_subtracted():
    when = [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)]
    rows = pa.record_batch(
        {"one": pa.array(when[:1], TICK.field("time").type), "two": pa.array(when[1:], TICK.field("time").type)}
    )
    operator = RuleOperator("select two - one as s, one < two as less from T")
    found, _ = operator.process(rows, np.zeros(1, np.int32), np.zeros(1, np.int64))
    assert found.to_pylist() == [{"s": 86400.0, "less": True}]


@pytest.mark.parametrize(
    "text",
    [
        "select count(*) c from Tick group by symbol",
        "select count(*) c from Tick.win:length(3) group by symbol, price",
        "select count(*) c from Tick.std:groupwin(symbol).win:length(3)",
        "select count(*) c from Tick.win:length_batch(3) group by SYMBOL",
        "select count(*) c from Tick.std:groupwin(symbol).win:length_batch(3)",
        "select count(*) c from Tick A, Tick.std:groupwin(symbol).win:length(3) B",
        "select count(*) c from Tick.std:groupwin(symbol).std:lastevent() A, Tick.win:length(3) B",
        "select A.price from Tick A, Tick.win:length(3) B where A.symbol = B.symbol",
        "select a.price from pattern [a=Tick(symbol = 'x') -> b=Tick(Volume > a.Volume)] where b.ok",
    ],
)
def test_a_rule_can_be_bound_to_the_columns_it_reads(text):
    operator = RuleOperator(text, key=["symbol"])
    rows = pa.schema(list(reversed(TICK)))  # the first column is read if no other is
    names = operator.reads(rows)
    reduced = pa.schema([rows.field(name) for name in names])
    assert len(names) < len(rows)
    assert operator.schema(reduced) == operator.schema(rows)
    assert operator.reads(reduced) == names


def test_streams_are_found_in_another_case():
    streams = {"Tick": TICK.names, "News": ["symbol"], "news": ["symbol"]}

    def bound(text):
        operator = RuleOperator(text, streams=streams, stream_column="stream")
        return operator.schema(TICK.append(pa.field("stream", pa.string())))

    assert bound("select tick.price from tick").names == ["price"]
    assert bound("select A.price, B.ok from TICK A, tick.win:length(3) B").names == ["price", "ok"]
    assert bound("select * from news").names == ["symbol"]
    for text in ("select * from NEWS", "a=NEWS"):
        with pytest.raises(RuleError, match="stream 'NEWS' may be 'News' or 'news'"):
            bound(text)
