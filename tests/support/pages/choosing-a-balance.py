import pyarrow as pa

import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
df = spark.range(0, 1_000, 1, 1).selectExpr("id", "cast(id as double) x")
trades = spark.range(0, 1_000, 1, 1).selectExpr("id", "concat('S', id % 9) symbol", "cast(id as double) price")


def score(batch):
    return pa.RecordBatch.from_arrays([batch["id"], batch["x"]], names=["id", "p"])


# The blocks of the page run here.
