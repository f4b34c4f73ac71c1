# The blocks of the page run here.
import pyarrow.parquet as pq

assert pq.read_table("scored").num_rows == 20_000
assert pq.read_table("counted").num_rows == 10_000
