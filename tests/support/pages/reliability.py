import os

import evenflow as ef

spark = ef.local_session(workers=2)
shared = os.path.abspath("shared")
trades = spark.range(0, 1_000, 1, 1).selectExpr("id", "concat('S', id % 9) symbol", "cast(id as double) price")
trades.write.parquet("in")
os.environ["EVENFLOW_CHECKPOINT_KEY"] = "a key for this test alone"


def events():
    return spark.readStream.schema(trades.schema).parquet("in")


# The blocks of the page run here.
assert spark.read.parquet(f"{shared}/means").count() == 1_000
