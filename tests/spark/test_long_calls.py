"""Units that are to move while their operator is in one long call: the query goes on, and the rows are right."""

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.control.moves import movements, patience
from tests.support.background import Holding, Query
from tests.support.graph_frames import graph_of
from tests.support.moving import Nth, nth_of, region

ROWS = 200


class Slow(Nth):
    """Nth that stays in its call as long as it is held there."""

    def __init__(self, hold):
        super().__init__()
        self.hold = hold

    def process(self, rows: pa.RecordBatch, units, keys):
        self.hold(rows)
        return super().process(rows, units, keys)


@pytest.mark.parametrize("kind", ["keyed", "graph"])
def test_a_move_of_an_operator_in_a_long_call(spark, cluster, tmp_path, monkeypatch, eventually, kind):
    for limit in ("MARKERS_S", "MOST_MARKERS_S", "FLUSH_S"):  # the call takes longer than all
        monkeypatch.setattr(patience, limit, 0.2)
    monkeypatch.setattr(movements, "PATIENCE_S", 0.2)
    holding, name = Holding(tmp_path), region("slow")
    df, operator = spark.range(0, ROWS, 1, 1).selectExpr("id", "id % 5 as k"), Slow(holding.function())
    if kind == "keyed":
        out = cluster.keyed(df, "k", operator, tuning=ef.Tuning(units=8), balance="hash", name=name)
    else:
        graph = graph_of(lambda s: s.keyed("k", operator, units=8))
        out, name = cluster.run(graph, inputs={"s": df}, placement="round-robin", name=name)["out"], f"{name}.out"

    def events(*kinds):
        return [each for each in cluster.events() if each["event"] in kinds and each.get("region") == name]

    query = Query(lambda: out.toArrow())
    try:
        inside = eventually(holding.inside, what="a worker is in a call")[0]
        busy = next(worker.id for worker in cluster.workers() if worker.pid == inside)
        units = cluster.region(name).snapshot().table.units_of(busy).tolist()
        cluster.region(name).move(units, (busy + 1) % 4)
        eventually(lambda: events("move-late", "evaluation-ended"), what="the worker is late")
    finally:
        holding.let_go()
    table = query.result().sort_by("id")
    assert [(each["worker"], each["phase"]) for each in events("move-late")] == [(busy, "recalling")]
    assert len(events("moved", "move-undone")) == len(events("move")) > 0
    assert table["id"].to_pylist() == list(range(ROWS))
    assert table["nth"].to_pylist() == nth_of(number % 5 for number in range(ROWS))
