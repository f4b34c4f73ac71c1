"""Score an ordered stream with a model: an expensive function on many workers, results in the order of the input."""

import tempfile

import numpy as np
import pyarrow as pa

import evenflow as ef

WEIGHTS = np.array([0.8, -1.5, 0.3])  # stands for a model that you have trained; it travels with the function


def score(batch: pa.RecordBatch) -> pa.RecordBatch:
    features = np.column_stack([batch["a"], batch["b"], batch["c"]])
    probability = 1 / (1 + np.exp(-features @ WEIGHTS))
    return pa.RecordBatch.from_arrays([batch["id"], pa.array(probability)], names=["id", "p"])


spark = ef.local_session(workers=2)
folder = tempfile.mkdtemp()
rows = spark.range(0, 20_000, 1, 1).selectExpr("id", "sin(id) a", "cos(id) b", "sin(id / 7) c")
for part in range(4):  # four files: a stream of four micro-batches
    rows.where(f"id div 5000 = {part}").write.mode("append").parquet(f"{folder}/in")

stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
with ef.Cluster(spark, workers=2) as cluster:
    scored = cluster.ordered_map(stream, score, "id long, p double")
    query = scored.writeStream.format("memory").queryName("scored").trigger(availableNow=True).start()
    query.awaitTermination()

found = spark.table("scored").toPandas()
plain = rows.toPandas()
expected = 1 / (1 + np.exp(-plain[["a", "b", "c"]].to_numpy() @ WEIGHTS))
print(len(found), "rows scored")
print("in order:", all((group["id"].diff().dropna() == 1).all() for _, group in found.groupby(found["id"] // 5000)))
print("as numpy has it:", np.allclose(found.sort_values("id")["p"], expected))
spark.stop()
