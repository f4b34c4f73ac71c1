"""Rolling statistics by key, where one key is hot: its worker gives other keys away while rows flow."""

import evenflow as ef
from evenflow import functions as F

spark = ef.local_session(workers=2)
trades = spark.range(0, 40_000, 1, 4).selectExpr(
    "id at",
    "if(id % 10 < 6, 'HOT', concat('S', pmod(hash(id), 200))) symbol",  # six rows in ten
    "cast(pmod(hash(id, 7), 10000) / 100 as decimal(6, 2)) price",
)

statistics = ef.Aggregates(n=F.count(), mean=F.mean("price"), top=F.max("price"), rows=100)
with ef.Cluster(spark, workers=2) as cluster:
    rolling = cluster.keyed(trades, key="symbol", operator=statistics, order_by="at").persist()
    for row in rolling.where("symbol = 'HOT'").orderBy("at").limit(3).collect():
        print(row["at"], row["price"], row["n"], row["mean"], row["top"])
    print(rolling.count(), "rows")

    trades.createOrReplaceTempView("trades")
    plain = spark.sql("""
        SELECT *, count(*) OVER recent n, avg(price) OVER recent mean, max(price) OVER recent top FROM trades
        WINDOW recent AS (PARTITION BY symbol ORDER BY at ROWS 99 PRECEDING)""")
    print("rows that Spark SQL has otherwise:", rolling.exceptAll(plain).count())
spark.stop()
