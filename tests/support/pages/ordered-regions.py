import pyarrow as pa
import pyarrow.compute as pc

import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
df = spark.range(0, 10_000, 1, 2).selectExpr("id", "id / 10000.0D as x")
other = df


def score(batch):
    return pa.RecordBatch.from_arrays([batch["id"], pc.negate(batch["x"])], names=["id", "p"])


def slow(batch):
    return pa.RecordBatch.from_arrays([batch["id"], batch["x"]], names=["id", "q"])


# The blocks of the page run here.
last = shared_cluster().ordered_map(df, score, "id long, p double", balance="static", weights=[0.7, 0.2, 0.1])
assert last.count() == 10_000
