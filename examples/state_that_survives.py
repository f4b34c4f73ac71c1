"""State that survives: a worker is killed in the middle of a stream, and every row is still counted once."""

import os
import signal
import tempfile

import evenflow as ef

spark = ef.local_session(workers=2)
folder = tempfile.mkdtemp()
for part in range(4):  # four micro-batches
    rows = spark.range(part * 5_000, (part + 1) * 5_000, 1, 1).selectExpr(
        "id", "id % 20 as account", "id % 9 as amount"
    )
    rows.write.mode("append").parquet(f"{folder}/in")
killed = []

with ef.Cluster(spark, workers=2, checkpoint=f"{folder}/state", memory="64m") as cluster:

    def write(batch, number):
        if number == 2 and not killed:  # what a broken machine would do; leave it out
            killed.append(cluster.workers()[0].pid)
            os.kill(killed[0], signal.SIGKILL)
        batch.write.mode("overwrite").parquet(f"{folder}/out/batch={number}")

    def start():  # called again after each failure: it goes on where Spark's checkpoint and ours say
        stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        sums = cluster.keyed(stream, key="account", operator=ef.RunningSum("amount"), name="sums")
        writer = sums.writeStream.option("checkpointLocation", f"{folder}/spark").foreachBatch(write)
        return writer.trigger(availableNow=True).start()

    ef.supervise(start, cluster)

written = spark.read.parquet(f"{folder}/out")
plain = spark.read.parquet(f"{folder}/in").groupBy("account").agg({"amount": "sum"})
last = written.groupBy("account").agg({"amount_sum": "max"})
print("workers killed:", len(killed))
print(written.count(), "rows,", written.select("id").distinct().count(), "of them distinct")
print("sums that Spark SQL has otherwise:", last.exceptAll(plain).count())
spark.stop()
