"""The aggregates that `Aggregates` takes, with the names that they have in `pyspark.sql.functions`.

    from evenflow import functions as F

    statistics = ef.Aggregates(n=F.count(), mean=F.mean("price"), top=F.max("price"), rows=100)

`sum`, `min` and `max` are named as builtins of Python are: import the module, not the names.
"""

from evenflow.operators.aggregates.functions import (
    avg,
    count,
    count_distinct,
    first,
    last,
    max,
    mean,
    min,
    stddev,
    sum,
    variance,
)

__all__ = ["avg", "count", "count_distinct", "first", "last", "max", "mean", "min", "stddev", "sum", "variance"]
