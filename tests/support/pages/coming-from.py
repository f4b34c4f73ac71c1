import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
df = spark.range(0, 1_000, 1, 2).selectExpr("id", "id / 1000.0D as x")
trades = spark.range(0, 1_000, 1, 1).selectExpr("id", "concat('S', id % 9) symbol", "cast(id % 31 as double) price")
trades.write.parquet("in")
stream = spark.readStream.schema(trades.schema).parquet("in")
sample = pa.RecordBatch.from_pylist([{"symbol": f"S{n % 5}", "price": float(n * 7 % 13)} for n in range(60)])
# The blocks of the page run here.


def totals_of(result, name):
    query = result.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.table(name).select("id", "symbol", "price_sum")


theirs, ours = totals_of(before, "theirs"), totals_of(after, "ours")
spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
assert ours.count() == 1_000
assert theirs.exceptAll(ours).count() == 0
assert own.select("id", "symbol", "price_sum").exceptAll(ours).count() == 0
assert "price_mean" in means.columns
