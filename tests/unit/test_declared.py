"""What keyed operators say of themselves is checked when they are given."""

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.conform import conform
from evenflow.operators.declared import check_apart, check_declared, columns_of, fitting, reads_of, spelled
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator

ROWS = pa.schema([("k", pa.int64()), ("v", pa.float64())])


class Says(KeyedOperator):
    """Says, and returns, what it is told."""

    def __init__(self, schema=None, reads=None, result=None):
        self.said, self.read, self.result = schema, reads, result

    def schema(self, rows):
        return self.said

    def reads(self, rows):
        return self.read

    def process(self, rows, units, keys):
        if isinstance(self.result, type):
            raise self.result
        return self.result

    def extract(self, unit):
        return None

    def install(self, unit, state):
        pass


class Silent(Says):
    schema = KeyedOperator.schema


@pytest.mark.parametrize("said", [None, ["k"], "k long", {"k": "int"}, pa.schema([]), 5])
def test_a_schema_that_is_none(said):
    with pytest.raises(InvalidArgument, match=r"Says\.schema returned .*: return a pyarrow\.Schema with the columns"):
        columns_of(Says(said), ROWS)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"k": pa.int64()}, r"declares columns \['k'\], and Says returns \['k', 'v'\]"),
        ({"k": pa.int64(), "v": pa.int64()}, "declares column 'v' as int64, and Says returns double"),
        ({"k": pa.string(), "v": pa.float64()}, "declares column 'k' as string, and Says returns int64"),
    ],
)
def test_a_schema_that_does_not_fit_the_operators_own(declared, said):
    with pytest.raises(InvalidArgument, match=said):
        check_declared(Says(ROWS), ROWS, pa.schema(declared))


def test_a_schema_that_fits():
    check_declared(Says(ROWS), ROWS, pa.schema([("v", pa.float64()), ("k", pa.float64())]))
    check_declared(Silent(), ROWS, pa.schema([("else", pa.string())]))


def test_what_is_read():
    assert reads_of(Says(reads="price"), ROWS) == ["price"]
    assert reads_of(Says(reads=("k", "v")), ROWS) == ["k", "v"]
    for wrong in (None, 5, [1], [b"k"]):
        with pytest.raises(InvalidArgument, match=r"Says\.reads returned .*: return a list of column names"):
            reads_of(Says(reads=wrong), ROWS)


def frame(*values):
    columns = [pa.array(values, pa.int64()), pa.array([1.0] * len(values)), pa.array(values, pa.int64())]
    return pa.record_batch(columns, pa.schema([*ROWS, pa.field("hash", pa.int64())]))


def test_errors_of_operators_name_the_operator():
    hosted = Hosted(Says(result="nonsense"), ROWS, ROWS, 8)
    with pytest.raises(FunctionError, match=r"Says\.process returned str, not a pyarrow\.RecordBatch"):
        hosted.process(hosted.fresh(), *hosted.unpacked(frame(1)), ordered=False)
    with pytest.raises(FunctionError, match=r"the function returned str"):
        conform("nonsense", ROWS)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_operator_that_ends_its_process_is_blamed_like_any_other(error):
    hosted = Hosted(Says(result=error), ROWS, ROWS, 8)
    assert hosted.blame(frame(3, 4)) == (3, 3)


@pytest.mark.parametrize(
    ("names", "case_sensitive", "column", "time"),
    [
        (["price", "at"], False, "price", "at"),
        (["PRICE", "At"], False, "PRICE", "At"),
        (["Price", "AT"], True, "Price", "at"),  # as given, and refused later
        (["price", "PRICE", "at"], False, "Price", "at"),  # either may be meant
        (["Price", "PRICE", "AT"], False, "Price", "AT"),
    ],
)
def test_columns_are_found_in_any_case_as_spark_does(names, case_sensitive, column, time):
    given = ef.RollingMean("Price", seconds=5, time="at")
    found = spelled(given, names, case_sensitive)
    assert (found.column, found.time, found.into) == (column, time, "Price_mean")
    assert (given.column, given.time) == ("Price", "at")


@pytest.mark.parametrize(
    ("given", "names", "places"),
    [
        ("`a.b`", ["x", "a.b"], [1]),
        ("`A.b`", ["x", "a.b"], [1]),
        ("`a``b`", ["a`b"], [0]),
        ("`a`", ["a", "`a`"], [1]),  # as written comes first
        ("`", ["`"], [0]),
        ("a", ["A", "a", "a"], [1, 2]),
        ("`b`", ["a"], []),
    ],
)
def test_names_in_backquotes(given, names, places):
    assert fitting(given, names, False) == places


def test_a_column_that_spark_cannot_tell_from_the_new_one_is_refused():
    operator = ef.RunningSum("v")
    with pytest.raises(InvalidArgument, match=r"adds column 'v_sum', and the rows have 'V_SUM'.*give another into="):
        check_apart(operator, ["v", "V_SUM"], False)
    check_apart(operator, ["v", "V_SUM"], True)
    check_apart(ef.RunningSum("v", into="sum"), ["v", "V", "V_SUM"], False)
    either = spelled(ef.RunningSum("V"), ["v", "v"], False)
    with pytest.raises(InvalidArgument, match="needs column 'V', which is there more than once"):
        either.schema(pa.schema([("v", pa.int64()), ("v", pa.int64())]))


def test_hashes_are_of_the_column_that_is_meant():
    assert spelled(ef.DistinctCount("Who"), ["who"], False).hashed == ("who",)


def test_a_column_that_is_not_there_brings_those_it_may_be():
    with pytest.raises(InvalidArgument, match=r"needs column 'prize', which does not exist; did you mean 'price'\?"):
        ef.RunningSum("prize").schema(pa.schema([("price", pa.int64()), ("at", pa.int64())]))
