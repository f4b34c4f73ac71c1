"""A session that loads the Java classes which most tests need: scripts/test.sh makes an archive of them."""

import tempfile

from pyspark import SparkContext

import evenflow as ef

EXIT_S = 300
"""The JVM writes the archive when it ends."""


def main() -> None:
    spark = ef.local_session(workers=1)
    with tempfile.TemporaryDirectory() as folder, ef.Cluster(spark, 1, checkpoint=f"{folder}/state") as cluster:
        spark.range(100).selectExpr("id", "id % 7 k").repartition(2, "k").orderBy("id").write.parquet(f"{folder}/in")
        rows = spark.readStream.schema("id long, k long").parquet(f"{folder}/in")
        out = cluster.keyed(rows, "k", ef.RunningCount("id", into="count"), tuning=ef.Tuning(units=4), name="counts")
        writer = out.writeStream.option("checkpointLocation", f"{folder}/spark").option("path", f"{folder}/out")
        writer.format("parquet").trigger(availableNow=True).start().awaitTermination(120)
        counted = spark.read.parquet(f"{folder}/out").groupBy("k").count()
        cluster.ordered_map(counted, lambda batch: batch, counted.schema).toArrow()
    spark.stop()
    java = SparkContext._gateway.proc
    java.stdin.close()
    java.wait(EXIT_S)


if __name__ == "__main__":
    main()
