import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
texts = spark.range(0, 200, 1, 1).selectExpr("id", "concat('story ', id % 7, ' of town ', id % 11) text")
sample = texts
ticks = spark.range(0, 1_000, 1, 2).selectExpr(
    "timestamp_seconds(id div 10) at", "concat('S', id % 9) symbol", "cast(id % 31 as double) price"
)
people = spark.readStream.format("rate").load().selectExpr("timestamp as at", "value % 10 as id")
auctions = spark.readStream.format("rate").load().selectExpr("timestamp as at", "value % 10 as id", "value as item")
rule = "SELECT symbol, price FROM Tick(price > 25)"
ticks.write.parquet("ticks")
ticks_stream = spark.readStream.schema(ticks.schema).parquet("ticks")
# The blocks of the page run here.
assert counts.count() > 9
assert stories.count() >= 1
assert "item" in matches.columns
assert late.columns == ticks.columns
