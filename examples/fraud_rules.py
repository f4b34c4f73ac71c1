"""Fraud as rules: a small payment that tries a card out, then a large one elsewhere; and too many in a short time."""

import evenflow as ef

RULES = {
    "tried out": """
        SELECT a.card AS card, b.at AS at, b.amount AS amount FROM PATTERN [
            every a=Payment(amount < 2)
                -> b=Payment(amount > 500 and country != a.country) where timer:within(1 min)]""",
    "too many": """
        SELECT card, at, amount FROM Payment.win:time(LIMIT_S) HAVING count(*) > 4 OUTPUT FIRST EVERY 100 EVENTS""",
}

spark = ef.local_session(workers=2)
usual = spark.range(0, 5_000, 1, 2).selectExpr(
    "timestamp_seconds(id * 20) at", "concat('card-', id % 500) card", "'de' country", "20.0 + id % 80 amount"
)
odd = spark.createDataFrame(
    [
        (5_000, "card-7", "de", 1.0),  # tried out, and used abroad 30 s later
        (5_030, "card-7", "br", 900.0),
        (5_000, "card-8", "de", 1.0),  # too late to be taken for the same
        (5_100, "card-8", "br", 900.0),
        (7_000, "card-9", "de", 1.0),  # at home
        (7_010, "card-9", "de", 900.0),
        *((9_000 + second, "card-3", "de", 30.0 + second) for second in range(6)),
    ],
    "seconds int, card string, country string, amount double",
)
payments = usual.union(odd.selectExpr("timestamp_seconds(seconds) at", "card", "country", "amount"))

with ef.Cluster(spark, workers=2) as cluster:
    alerts = cluster.detect(payments, RULES, key="card", time="at", variables={"LIMIT_S": 10})
    for alert in alerts.selectExpr("rule", "card", "unix_seconds(at) second", "amount").orderBy("second").collect():
        print(*alert)
spark.stop()
