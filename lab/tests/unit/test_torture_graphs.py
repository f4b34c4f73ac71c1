"""Graphs of torture come from their seed alone, have all kinds of operators, and all that is wrong with them shows."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evenflow.errors import InvalidArgument
from evenflow.graph.reference import evaluate
from evenflow.operators.columns import EVER
from evenflow.testing import check_operator
from evenflow_lab.torture.drawing import draw
from evenflow_lab.torture.jobs import graph_check
from evenflow_lab.torture.jobs.check import Verdict
from evenflow_lab.torture.jobs.graph_drawing import SECONDS, TWO_ENDS, YEARS_S, draw_graph, plan_of
from evenflow_lab.torture.jobs.graph_nodes import CountedInGraph
from evenflow_lab.torture.jobs.rows import inputs_of, rows_of, table, times
from evenflow_lab.torture.report import TortureReport
from evenflow_lab.torture.run import torture
from evenflow_lab.torture.schedule import SPILL, Job, from_json, kind_named

SEEDS = range(40)


@pytest.mark.parametrize("seed", [0, 1, 77])
def test_a_seed_gives_one_graph(seed):
    schedule = draw(seed, "graph")
    assert from_json(schedule.to_json()) == schedule
    assert repr(draw_graph(schedule).graph) == repr(draw_graph(draw(seed, "graph")).graph)
    assert repr(draw_graph(schedule).graph) != repr(draw_graph(draw(seed + 1, "graph")).graph)


def test_graphs_have_all_there_is():
    schedules = [draw(seed, "graph") for seed in SEEDS]
    drawn = [draw_graph(schedule) for schedule in schedules]
    plans = [plan_of(each) for each in drawn]
    kinds = {node.operator.kind for plan in plans for node in plan.nodes}
    assert kinds == {"filter", "map", "ordered map", "order", "keyed", "join"}
    assert "detect" in {stream.kind for each in drawn for stream in each.graph.nodes}
    assert {schedule.job.sources for schedule in schedules} == {len(plan.sources) for plan in plans} == {1, 2}
    assert all(any(stream.kind == "keyed" for stream in each.graph.nodes) for each in drawn), "it has the hooks"
    assert any(len(stream.readers) > 1 for plan in plans for stream in plan.streams), "shared results"
    assert any(len(stream.endpoints) and len(stream.readers) for plan in plans for stream in plan.streams)
    assert any("+" in node.name for plan in plans for node in plan.nodes), "filters that commute"
    joins = [stream.spec for each in drawn for stream in each.graph.nodes if stream.kind == "join"]
    assert {bool(join.rows) for join in joins} == {join.units > 1 for join in joins} == {False, True}
    assert any(each.orderly for each in drawn)
    windows = {join.seconds for join in joins if join.seconds}
    assert YEARS_S in windows
    assert windows & {*SECONDS}
    assert {bool(join.lateness) for join in joins if join.seconds in SECONDS} == {False, True}


def test_some_graph_is_a_diamond():
    def above(stream):
        return {stream}.union(*map(above, stream.inputs))

    nodes = [stream for seed in SEEDS for stream in draw_graph(draw(seed, "graph")).graph.nodes]
    pairs = [stream.inputs for stream in nodes if len(stream.inputs) == 2]
    assert any(above(left) & above(right) for left, right in pairs)


def test_schedules_of_graphs_make_sense():
    for schedule in (draw(seed, "graph") for seed in SEEDS):
        job = schedule.job
        assert {job.order_by, job.windows, job.ordered, bool(job.pairs_s)} == {False}
        assert bool(job.memory) == bool({fault.point for fault in schedule.faults} & {*SPILL})
        if job.memory:
            joins = [each.spec for each in draw_graph(schedule).graph.nodes if each.kind == "join"]
            assert all(join.units == job.units for join in joins), "one unit has to fit"


def test_kinds_of_jobs_have_names():
    assert kind_named("graph") == "graph"
    with pytest.raises(InvalidArgument, match="no kind of job 'grape': choose one of keyed, graph"):
        kind_named("grape")


def test_a_report_has_jobs_of_one_kind():
    report = TortureReport.from_json(TortureReport(3, kind="graph").to_json())
    assert report.kind == "graph"
    with pytest.raises(InvalidArgument, match="jobs of kind keyed cannot go on with a report on jobs of kind graph"):
        torture(3, report=report)


def test_what_graphs_give_does_not_depend_on_how_rows_are_cut():
    schedule = draw(12, "graph")
    plan, inputs = plan_of(draw_graph(schedule)), list(graph_check.batches(schedule))
    cut = [(name, batch.slice(at, 40)) for name, batch in inputs for at in range(0, batch.num_rows, 40)]
    wanted = graph_check.expected(schedule)
    for name, rows in evaluate(plan, cut).items():
        assert wanted[name].num_rows
        assert graph_check.compare(wanted[name], rows) == Verdict(rows.num_rows)


def in_micro_batches(schedule):
    """The input as Spark cuts it: so many files at a time of each source, which are in the order of batches."""
    job, inputs = schedule.job, inputs_of(schedule)
    each = job.files or job.partitions
    files = [(batch, part) for batch in range(job.batches + 1) for part in range(job.partitions)]
    for number, start in enumerate(range(0, len(files), each)):
        for name, rows in inputs.items():
            for batch, part in files[start : start + each]:
                mine = (rows.batches == batch) & (rows.keys % job.partitions == part)
                yield from ((number, name, some) for some in table(rows, times(job, rows), mine).to_batches())


def test_rows_leave_windows_of_seconds_and_no_pair_is_lost():
    left = 0
    for schedule in (draw(seed, "graph") for seed in SEEDS):
        plan = plan_of(draw_graph(schedule))
        joins = [node.operator for node in plan.nodes if node.operator.kind == "join"]
        if not any(join._pairs.span in {each * 1_000_000 for each in SECONDS} for join in joins):
            continue
        fresh = [node.operator.fresh() for node in plan.nodes]
        for node, operator in zip(plan.nodes, fresh, strict=True):
            node.operator.fresh = lambda made=operator: made

        def numbered(given, operators=fresh):
            for number, name, batch in given:
                for operator in operators:
                    operator.batch = number
                yield name, batch

        wanted = graph_check.expected(schedule)
        for name, rows in evaluate(plan, numbered(in_micro_batches(schedule))).items():
            if name in wanted:
                assert graph_check.compare(wanted[name], rows) == Verdict(rows.num_rows), (schedule.seed, name)
        for join in (each for each in fresh if each.kind == "join"):
            assert join.tallies().get("late", 0) == 0
            left += int((join._pairs.left > EVER).sum())
    assert left > 500


def test_the_operator_in_graphs_counts_as_the_other_one():
    batch = pa.record_batch({"k": [1, 2, 1], "v": [1.0, 2.0, 3.0]})
    check_operator(CountedInGraph(), batch, key="k")


def test_rows_at_an_endpoint():
    job = Job(batches=2, rows=3, keys=2, partitions=2, workers=2, units=4, kind="graph")
    want = pa.table({"id": [0, 1, 2, 4], "k": [0, 1, 0, 0], "v": [0.5, 1.5, 2.5, 4.5]})

    def came(*places):
        return graph_check.compare(want, want.take(list(places)), job)

    assert came(0, 1, 2, 3) == came(1, 0, 2, 3) == Verdict(4), "files have no order among each other"
    assert came(3, 0, 1, 2) == Verdict(4), "nor have batches"
    assert came(2, 0, 1, 3) == Verdict(4, out_of_order=1)
    assert came(0, 1, 3) == Verdict(4, lost=1)
    assert came(0, 1, 2, 3, 3) == Verdict(4, doubled=1)
    off = want.set_column(2, "v", pa.array([0.5, 1.5, 2.5, 9.0]))
    assert graph_check.compare(want, off) == Verdict(4, wrong=1)
    assert graph_check.compare(want, pa.concat_tables([want, off.slice(3)])) == Verdict(4, wrong=1)
    assert graph_check.summed([came(0, 1, 3), came(2, 0, 1, 3)]) == Verdict(8, lost=1, out_of_order=1)


def test_two_endpoints_of_one_node_must_be_of_one_evaluation():
    schedule = next(each for seed in SEEDS if (each := draw(seed, "graph")).job.sink == "skips")
    found = evaluate(plan_of(draw_graph(schedule)), graph_check.batches(schedule))
    given, (counts, means) = rows_of(schedule), (found[name] for name in TWO_ENDS)
    assert graph_check.compare_two(given, counts, means) == Verdict(2 * len(given.ids))
    assert graph_check.compare_two(given, counts.slice(1), means).lost == 1
    key = pc.equal(counts["k"], counts["k"][0])  # the first two rows of a key in another order
    first, second = counts.filter(key)["id"].to_pylist()[:2]
    ids = pa.array([{first: second, second: first}.get(each, each) for each in counts["id"].to_pylist()])
    assert graph_check.compare_two(given, counts.set_column(0, "id", ids), means).wrong
