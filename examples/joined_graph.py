"""Two streams joined as a graph of operators: orders that are paid, totals by customer, large orders for an audit."""

import evenflow as ef

spark = ef.local_session(workers=2)
orders = spark.range(0, 6_000, 1, 2).selectExpr("id as number", "id % 50 as customer", "pmod(hash(id), 400) as amount")
payments = spark.range(0, 6_000, 1, 2).where("id % 3 != 0").selectExpr("id as number", "id % 7 as bank")

g = ef.Graph()
asked = g.source("orders").filter("amount >= 100")
paid = asked.join(g.source("payments"), on="number", rows=1)
g.endpoint("totals", paid.keyed("customer", ef.RunningSum("amount")))
g.endpoint("audit", asked.filter("amount >= 395"))

with ef.Cluster(spark, workers=2) as cluster:
    out = cluster.run(g, inputs={"orders": orders, "payments": payments})
    totals = out["totals"].groupBy("customer").agg({"amount_sum": "max"}).toDF("customer", "total").persist()
    audited = out["audit"].count()
    print("customers:", totals.count(), "to be audited:", audited)
    for row in totals.orderBy("customer").limit(3).collect():
        print("customer", row["customer"], "has paid", row["total"])

    plain = orders.where("amount >= 100").join(payments, "number").groupBy("customer").agg({"amount": "sum"})
    print("totals that Spark SQL has otherwise:", totals.exceptAll(plain).count())
    print("audited as Spark SQL has it:", audited == orders.where("amount >= 395").count())
spark.stop()
