import evenflow as ef

spark = ef.local_session(workers=2)
trades = spark.range(0, 1_000, 1, 1).selectExpr("id", "concat('S', id % 9) symbol", "cast(id as double) price")
# The blocks of the page run here.
from pathlib import Path

assert Path(log).read_text().count("\n") > 3
