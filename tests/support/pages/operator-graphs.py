import pyarrow as pa

import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
ticks_df = spark.range(0, 2_000, 1, 1).selectExpr("id", "concat('S', id % 9) symbol", "cast(id % 200 as double) price")
news_df = spark.range(0, 100, 1, 1).selectExpr("concat('S', id % 9) symbol", "id as story")
ticks_df.write.parquet("ticks")
news_df.write.parquet("news")
ticks_stream = spark.readStream.schema(ticks_df.schema).parquet("ticks")
news_stream = spark.readStream.schema(news_df.schema).parquet("news")


def score(batch):
    return pa.RecordBatch.from_arrays([batch["symbol"], batch["price_mean"]], names=["symbol", "score"])


# The blocks of the page run here.
assert spark.read.parquet("alerts").count() > 0
writer.trigger(availableNow=True).start().awaitTermination()
assert spark.read.parquet("audit").count() == ticks_df.where("price > 100").count()
