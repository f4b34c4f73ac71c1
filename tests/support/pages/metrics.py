import evenflow as ef

spark = ef.local_session(workers=1)
cluster = ef.Cluster(spark, workers=1, event_log="events.jsonl")
assert cluster.ordered_map(spark.range(0, 1_000, 1, 1), lambda batch: batch, "id long").count() == 1_000
# The blocks of the page run here.
spark.streams.removeListener(listener)
cluster.stop()
assert entries
assert b"evenflow_" in body
