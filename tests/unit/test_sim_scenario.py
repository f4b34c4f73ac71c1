"""Scenarios: what a file says, what is refused, and that a run of it goes through controller and data plane."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from evenflow import sim
from evenflow.cli.app import app
from evenflow.errors import InvalidArgument, SimulationError
from evenflow.sim.ordered.plane import OrderedPlane

KEYED = """
seconds = 4
balance = ["hash", "auto"]

[keyed]
workers = 4
units = 64
feeders = 1
row_us = 200.0
unit_bytes = 1000

[[slow]]
workers = "0,2-3"
factor = 4
since = 1
until = 3
"""
ORDERED = "seconds = 3\n[ordered]\nworkers = 3\nrow_s = 1e-3\n[[slow]]\nworkers = '1'\nfactor = 5\n"
GRAPH = """
seconds = 5
balance = "greedy"
[graph]
sources = [{name = "s", high = 200.0}]
operators = [{name = "f", inputs = ["s"], cost_ms = 1.0}, {name = "g", inputs = ["f"], cost_ms = 1.0}]
hosts = [{}, {}]
[[slow]]
workers = "0"
factor = 2
since = 2
"""


def scenario(tmp_path, text):
    (tmp_path / "s.toml").write_text(text)
    return sim.Scenario.read(tmp_path / "s.toml")


def test_slow_workers_of_a_keyed_operator_change_their_speed(tmp_path):
    read = scenario(tmp_path, KEYED)
    setup = read.plane("hash").setup
    assert read.balances == ("hash", "auto")
    assert setup.steps == (
        *(sim.SpeedStep(worker, 1.0, 0.25) for worker in (0, 2, 3)),
        *(sim.SpeedStep(worker, 3.0, 1.0) for worker in (0, 2, 3)),
    )


def test_slowdowns_of_one_time_are_multiplied(tmp_path):
    more = sim.SlowWorkers("0", 2.0, 2.0)
    read = scenario(tmp_path, KEYED)
    setup = replace(read, slow=(*read.slow, more)).plane("hash").setup
    assert [step for step in setup.steps if step.worker == 0] == [
        sim.SpeedStep(0, 1.0, 0.25), sim.SpeedStep(0, 2.0, 0.125), sim.SpeedStep(0, 3.0, 0.5),
    ]  # fmt: skip


def test_slowdowns_and_steps_of_one_time_are_multiplied():
    setup = sim.KeyedSetup(workers=2, speeds=(2.0, 1.0), steps=(sim.SpeedStep(1, 7.0, 3.0), sim.SpeedStep(0, 5.0, 1.0)))
    slow = (sim.SlowWorkers("0", 2.0, 2.0, 10.0),)
    assert sim.Scenario(12.0, keyed=setup, slow=slow).plane("hash").setup.steps == (
        sim.SpeedStep(1, 7.0, 3.0), sim.SpeedStep(0, 2.0, 1.0), sim.SpeedStep(0, 5.0, 0.5), sim.SpeedStep(0, 10.0, 1.0),
    )  # fmt: skip
    hosts = (sim.SimulatedHost(changes=((20.0, 2.0),)),)
    about = (sim.SimulatedSource("s", 10.0),), (sim.SimulatedOperator("f", ("s",)),)
    graph = sim.SimulatedGraph(*about, hosts)
    slowed = sim.Scenario(40.0, graph=graph, slow=(sim.SlowWorkers("0", 4.0, 10.0, 30.0),)).plane("greedy").graph
    assert slowed.hosts[0].changes == ((10.0, 4.0), (20.0, 8.0), (30.0, 2.0))


def test_slow_workers_of_an_ordered_region_are_slow_in_all_they_do():
    scene = sim.OrderedScene(2, row_s=1e-6, row_overhead_s=1e-3)
    slow = sim.Scenario(4.0, ordered=scene, slow=(sim.SlowWorkers("0", 10.0),))
    slower = sim.Scenario(4.0, ordered=replace(scene, speeds=(0.1, 1.0)))
    assert sim.simulate(slow).rows == pytest.approx(sim.simulate(slower).rows, rel=0.02)


@pytest.mark.parametrize("memory", [{"memory_bytes": 1}, {"memory_bytes": 900, "memory": (sim.MemoryStep(1, 0, 700),)}])
def test_memory_that_no_unit_fits_in_is_refused(memory):
    with pytest.raises(InvalidArgument, match=r"no unit would fit.*give at least unit_bytes, 800"):
        sim.KeyedSetup(unit_bytes=800, **memory)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sim.OrderedScene(2.5), "workers is 2.5: give at least 1"),
        (lambda: sim.OrderedScene("4"), "workers is 4: give at least 1"),
        (lambda: sim.OrderedScene(4, row_s="1"), "row_s is 1: give the seconds"),
        (lambda: sim.OrderedScene(4, row_s=1e-300), "row_s is 1e-300: give the seconds"),
        (lambda: sim.OrderedScene(4, rows=10**23), "rows is 1000.*: give a whole number"),
        (lambda: sim.OrderedScene(4, feeders=10**9), "feeders is 1000000000: give at least 1, and at most"),
        (lambda: sim.OrderedScene(4, feeders=50_000), "feeders is 50000: give at most 2"),
        (lambda: sim.KeyedSetup(row_us=1e-300), "row_us is 1e-300: give at least 0.001"),
        (lambda: sim.KeyedSetup(row_us="1"), "row_us is 1: give a number above 0"),
        (lambda: sim.KeyedSetup(rates=((0, 5), (float("nan"), 6))), "rates is .* rising"),
        (lambda: sim.KeyedSetup(rates=((0, 5), (float("inf"), 6))), "rates is .* rising"),
        (lambda: sim.SimulatedSource("s", 1e300), r"high=1e\+300 .* up to 1e\+09"),
        (lambda: sim.SimulatedOperator("f", ("s",), selectivity=1e18), "selectivity=1e.* too many at once"),
        (
            lambda: sim.SimulatedGraph(
                (sim.SimulatedSource("s", 10.0), sim.SimulatedSource("t", 10.0)),
                (sim.SimulatedOperator("f", ("s",)),),
                (sim.SimulatedHost(),),
            ),
            "no operator reads the source 't': name it in the inputs of one, or leave",
        ),
        (lambda: graph_with(queue_rows=10**11), "queue_rows of a simulated graph is 100000000000, .* give at most"),
        (
            lambda: graph_with(links=(sim.SimulatedLink(0, 1, 1.0), sim.SimulatedLink(0, 1, 2.0))),
            "links has two from one host",
        ),
        (lambda: sim.Scenario("3", ordered=sim.OrderedScene(4)), "seconds is 3: give seconds"),
        (lambda: sim.Scenario(3, 7, ordered=sim.OrderedScene(4)), "balance is 7: give the name"),
        (lambda: sim.Scenario(3, ordered=sim.OrderedScene(4), slow=sim.SlowWorkers("0", 2)), "slow is .* a tuple of"),
    ],
)
def test_values_from_python_that_make_no_sense_are_named(make, said):
    with pytest.raises(InvalidArgument, match=said):
        make()


def graph_with(**fields):
    about = (sim.SimulatedSource("s", 10.0),), (sim.SimulatedOperator("f", ("s",)),)
    return sim.SimulatedGraph(*about, (sim.SimulatedHost(),) * 2, **fields)


def test_a_trace_may_be_an_array():
    assert sim.KeyedSetup(trace=np.array([1, 2])).trace == (1, 2)


def test_a_file_of_an_editor_that_begins_it_with_a_byte_order_mark(tmp_path):
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + ORDERED.encode())
    assert sim.Scenario.read(tmp_path / "marked.toml") == scenario(tmp_path, ORDERED)


def test_slow_workers_of_the_others(tmp_path):
    assert scenario(tmp_path, ORDERED).plane("credits").scene.loads == (sim.WorkerLoad(1, 5.0, whole=True),)
    assert scenario(tmp_path, GRAPH).plane("greedy").graph.hosts[0].changes == ((2.0, 2.0),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seconds = 3", r"one table \[ordered\], \[keyed\] or \[graph\]: there is none"),
        (ORDERED + "[keyed]\nworkers = 3\n", "there are ordered and keyed"),
        (ORDERED.replace("seconds", "second"), r"has no field 'second'; did you mean 'seconds'\?"),
        (ORDERED.replace("row_s", "row_ms"), r"ordered in .* has no field 'row_ms'; did you mean 'row_s'"),
        (ORDERED.replace("= 3\n[", "= -3\n["), "seconds is -3.0: give seconds above 0"),
        (ORDERED.replace("workers = '1'", "workers = '1-x'"), "workers is '1-x': give numbers and ranges"),
        (ORDERED.replace("workers = '1'", "workers = '7'"), "workers is '7': there are workers 0 to 2"),
        (ORDERED.replace("workers = '1'", "workers = '0-99999999999'"), "'0-99999999999': there are workers 0 to 2"),
        (ORDERED.replace("workers = '1'", "workers = '2-1'"), "'2-1': write the range 1-2, the lower end first"),
        (ORDERED.replace("row_s", "seed = -1\nrow_s"), "seed is -1: give a whole number from 0 to"),
        (GRAPH.replace("hosts", "seed = -1\nhosts"), "seed is -1: give a whole number from 0 to"),
        (ORDERED.replace("seconds", "balance = 3\nseconds"), "balance in .* is 3: it must be a text or a list"),
        (ORDERED.replace("factor = 5", "factor = 0"), "entry 0 of slow in .*: factor is 0"),
        (ORDERED.replace("workers = 3", "workers = 0"), "workers is 0: give at least 1"),
        ("seconds = ", "is not TOML"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path, text, said):
    with pytest.raises(InvalidArgument, match=said):
        scenario(tmp_path, text)


@pytest.mark.parametrize(("text", "kind"), [(ORDERED, "ordered"), (KEYED, "keyed"), (GRAPH, "graph")])
def test_a_run_serves_rows_and_gives_the_same_bytes_again(tmp_path, text, kind):
    read = scenario(tmp_path, text)
    assert read.kind == kind
    seen = []
    runs = [sim.simulate(read, event_log=tmp_path / name, watch=seen.append) for name in ("one", "other")]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert seen[-1] == read.seconds
    assert runs[0].rows > 300
    assert runs[0].rows == runs[1].rows
    assert runs[0].late_rows_per_s > 0
    assert "entries" not in runs[0].figures()


@pytest.mark.parametrize(
    ("text", "balance"),
    [
        (GRAPH.replace('["f"], cost_ms = 1.0', '["f"], cost_ms = 20.0'), "round-robin"),  # f waits for g all the time
        (KEYED.replace("unit_bytes = 1000", "unit_bytes = 40_000_000\nskew_rows = 0"), "flux:delta_min=0.1"),
    ],
)
def test_rows_that_wait_for_somebody_busy_are_not_stuck(tmp_path, text, balance):
    run = sim.simulate(scenario(tmp_path, text), balance)
    assert run.rows > 150


def test_a_rate_is_that_of_the_time_that_was_sampled(tmp_path):
    setup = sim.KeyedSetup(workers=2, units=16, feeders=1, row_us=1000.0, unit_bytes=1000)
    for seconds in (1.0, 3.0, 3.7):
        run = sim.simulate(sim.Scenario(seconds, keyed=setup), "hash")
        assert run.rows_per_s == pytest.approx(2000, rel=0.05)


@pytest.mark.parametrize("rows", [300, 3000])
def test_the_last_rows_of_a_source_that_ends_are_counted(rows):
    setup = sim.KeyedSetup(workers=4, units=64, feeders=2, rows=rows, row_us=1000.0, unit_bytes=1000)
    run = sim.simulate(sim.Scenario(8.0, keyed=setup), "hash")
    assert run.rows == rows
    assert run.series[-1][0] <= 3.0  # the time after its end counts for no rate
    assert run.rows_per_s * run.series[-1][0] == pytest.approx(rows)
    assert run.late_rows_per_s > 0


@pytest.mark.parametrize(("seconds", "period_s"), [(0.5, 1.0), (2.5, 1.0), (5.0, 100.0)])
def test_rows_are_counted_up_to_the_end_of_a_run(seconds, period_s):
    keyed = sim.KeyedSetup(workers=2, units=16, feeders=1, row_us=1000.0, unit_bytes=1000)
    ordered = sim.OrderedScene(2, row_s=1e-3)
    for given, balance in (({"keyed": keyed}, "hash"), ({"ordered": ordered}, "credits")):
        run = sim.simulate(sim.Scenario(seconds, period_s=period_s, **given), balance)
        assert run.rows == pytest.approx(2000 * seconds, rel=0.06)
        assert run.series[-1][0] == seconds
        assert run.late_rows_per_s == pytest.approx(2000, rel=0.06)


def test_a_balance_that_is_named_twice_runs_once(tmp_path):
    read = scenario(tmp_path, ORDERED.replace("seconds", "balance = ['credits', 'credits', 'reroute']\nseconds"))
    assert read.balances == ("credits", "reroute")


def test_a_simulation_that_cannot_go_on_says_what_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(OrderedPlane, "stuck", lambda plane: "worker 1 waits for worker 2")
    with pytest.raises(SimulationError, match=r"nothing moves any more at second 1 .*: worker 1 waits for worker 2"):
        sim.simulate(scenario(tmp_path, ORDERED))


def go(*arguments):
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)], env={"COLUMNS": "200"})
    return result.exit_code, " ".join(result.output.split())


def test_the_command_compares_balances(tmp_path):
    (tmp_path / "s.toml").write_text(KEYED)
    code, output = go(tmp_path / "s.toml", "--json", tmp_path / "out.json", "--event-log", tmp_path / "logs")
    assert code == 0, output
    assert "hash" in output
    assert "auto" in output
    assert {file.name for file in (tmp_path / "logs").iterdir()} == {"hash.jsonl", "auto.jsonl"}
    assert '"simulated": true' in (tmp_path / "out.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give a scenario or --from LOG"),
        (("s.toml", "--region", "r"), 2, "it is for --from LOG"),
        (("nothing.toml",), 2, "there is no scenario nothing.toml"),
        (("s.toml", "--policy", "fairness"), 2, "there is no balance 'fairness': choose one of"),
        (("s.toml", "--policy", "fluxauto"), 2, "there is no balance 'fluxauto': did you mean 'flux-auto'"),
        (("s.toml", "--policy", "credits"), 2, "no balance 'credits' here, it is for ordered regions: choose one of"),
        (("s.toml", "--json", "."), 2, ". is a directory: give the path of a file"),
        (("s.toml", "--json", "s.toml/out.json"), 2, "there is no directory s.toml for out.json"),
        (("s.toml", "--event-log", "s.toml"), 2, "s.toml cannot be a directory"),
        (("s.toml", "--balance", "flux:delta=1"), 2, "does not take delta"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, arguments, code, said):
    (tmp_path / "s.toml").write_text(KEYED)
    monkeypatch.chdir(tmp_path)
    given, output = go(*arguments)
    assert given == code, output
    assert said in output
    assert "rows/s" not in output  # it is told before anything is run
