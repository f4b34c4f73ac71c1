import evenflow as ef
from tests.support.programs import shared_cluster

cluster = shared_cluster()
spark = ef.local_session(workers=3)
trades = spark.range(0, 600, 1, 2).selectExpr(
    "id", "timestamp_seconds(id div 10) at", "concat('S', id % 9) symbol", "cast(id % 31 as double) price"
)
quotes = trades.selectExpr("symbol", "at", "price + 1 as price", "id")
news = trades.where("id % 50 = 0").selectExpr("symbol as ticker", "at as published", "id as story")
# The blocks of the page run here.
assert {"symbol", "price_trade", "price_quote"} <= set(pairs.columns)
assert {"symbol", "story"} <= set(latest.columns)
