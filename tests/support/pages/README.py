# The blocks of the page run here.
import pyarrow.parquet as pq

assert pq.read_table("means").num_rows == 200_000
assert sum(worker.rows for worker in cluster.workers()) == 200_000
