import numpy as np
import pyarrow as pa

import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
trades = spark.range(0, 2_000, 1, 2).selectExpr(
    "id",
    "timestamp_seconds(id div 10) at",
    "concat('S', id % 9) symbol",
    "cast(id % 31 as double) price",
    "id % 4 venue",
)
quotes = trades.selectExpr("symbol", "at", "price + 1 as price", "id", "venue")
news = trades.where("id % 50 = 0").selectExpr("symbol as ticker", "at as published", "id as story")
clicks = trades.selectExpr("symbol as user", "venue as page", "at")
sample = pa.RecordBatch.from_pylist([{"symbol": f"S{n % 5}", "price": float(n * 7 % 13)} for n in range(60)])
visits_sample = pa.RecordBatch.from_pylist(
    [{"user": f"u{n % 5}", "at": (n * n % 17) * 200_000_000 + n * 90_000_000} for n in range(60)],
    schema=pa.schema({"user": pa.string(), "at": pa.timestamp("us", "UTC")}),
)
# The blocks of the page run here.
assert minutes.count() == 2_000
sessions = cluster.keyed(clicks, key="user", operator=Sessions(), order_by="at")
assert sessions.groupBy().sum("rows").first()[0] == 2_000
