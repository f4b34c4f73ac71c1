"""The verbs of the lab: what is refused before anything starts, what is shown after, and exit codes."""

import io
from dataclasses import replace

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from evenflow_lab.bench import cep, keyed, ordered, views
from evenflow_lab.cli.app import app


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def shown(table):
    written = io.StringIO()
    Console(file=written, width=200).print(table)
    return " ".join(written.getvalue().split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ordered", "--workers", "4", "--slow", "3", "--also", "2:5"), "5 slow workers of 4"),
        (("ordered", "--also", "2"), "'2' is not workers:factor"),
        (("keyed", "--slow", "1"), "slow workers need --cost-us"),
        (("keyed", "--memory-until", "10"), "needs --memory"),
        (("keyed", "--memory", "64m", "--short", "9"), "no more workers than"),
        (("keyed", "--memory", "64m", "--memory-since", "5", "--memory-until", "4"), "an end after its beginning"),
        (("keyed", "--rotate", "0.5"), "slow workers need --cost-us"),
        (("cep", "--exponents", "0.2,steep"), "'steep' is no number"),
        (("placement", "--scheme", "7"), "--scheme"),
    ],
)
def test_a_setting_that_makes_no_sense_is_a_matter_of_usage(arguments, said):
    code, output = run("bench", *arguments)
    assert code == 2
    assert said in output


@pytest.mark.parametrize("what", ["ordered", "keyed", "cep"])
def test_an_unknown_balance_is_one_line(what):
    code, output = run("bench", what, "--balance", "fairness")
    assert code == 2
    assert output.startswith("error: ")
    assert "fairness" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("keyed", "--balance", "flux:delta_min=0"), "delta_min is 0"),
        (("keyed", "--balance", "flux:delta_min"), "'delta_min' is no parameter of a balance: write name=number"),
        (("keyed", "--balance", "flux:delta=1"), "does not take delta"),
        (("cep", "--balance", "dlb-h:window_rows=0.5"), "window_rows is 0.5"),
        (("keyed", "--skew-bytes", "64k,-1"), "skew_bytes='-1'"),
    ],
)
def test_a_balance_or_a_room_that_makes_no_sense_is_one_line(arguments, said):
    code, output = run("bench", *arguments)
    assert code == 2
    assert output.startswith("error: ")
    assert said in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--placement", "luck"), "there is no placement 'luck'"),
        (("--seconds", "10", "--slow-at", "10"), "give a second within the run"),
        (("--operators", "2"), "needs at least 3 operators"),
    ],
)
def test_a_placement_that_cannot_be_measured_is_one_line(arguments, said):
    code, output = run("bench", "placement", *arguments)
    assert code == 2
    assert output.startswith("error: ")
    assert said in output


def test_an_unknown_claim_is_refused_before_anything_is_begun(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = run("reproduce", "Z-9")
    assert (code, output[:6], list(tmp_path.iterdir())) == (2, "error:", [])


LATENCY_MS = {"mean": 5.2, "p50": 4.0, "p99": 1009.0}


def test_engines_have_their_own_rates_and_latencies():
    known = [{"engine": 0, "rows_per_s": 2000.0, **LATENCY_MS}, {"engine": 1, "rows_per_s": 5.0}]
    result = cep.CepResult(
        balance="kg",
        engines=2,
        processed=9,
        rows_per_s=9.0,
        of_bound=0.5,
        steady_of_bound=0.75,
        events=1,
        correct=True,
        rstd=0.0,
        rebalances=0,
        keys_moved=0,
        rows_moved=0,
        most_moved=0.0,
        seconds=1.0,
        latency_ms=LATENCY_MS,
        by_engine=known,
    )
    assert "│ kg on 2 │ 5 / 4 / 1,009 ms │ 2,000, 4/1,009 │ 5, 0/0 │" in shown(views.engines([result]))


def test_the_table_of_an_ordered_region_tells_what_is_wrong():
    setting = ordered.OrderedSetting(workers=8, slow=2, factor=5.0, also=((1, 3.0),), until=7.0)
    good = ordered.OrderedResult(
        balance="credits",
        rows_per_s=1000.0,
        of_ideal=0.91,
        steady_of_ideal=0.95,
        final_rows_per_s=1000.0,
        reaction_s=1.5,
        in_order=True,
        rows_in=9,
        rows_out=9,
        seconds=1.0,
        delay_ms={"p50": 12.0, "p99": 40.0},
        latency_ms=LATENCY_MS,
    )
    wrong = replace(good, balance="auto", reaction_s=None, in_order=False, rows_out=8, latency_ms={})
    said = shown(views.ordered(setting, [good, wrong]))
    assert "2 of 8 workers 5x slower, 1 3x until second 7, 20 us a row" in said
    assert "│ credits │ 1,000 │ 0.910 │ 0.950 │ 1.5 s │ 12 / 40 ms │ 5 / 4 / 1,009 ms │ yes │" in said
    assert "│ auto │ 1,000 │ 0.910 │ 0.950 │ - │ 12 / 40 ms │ - │ NO │" in said


def test_an_ordered_region_of_which_all_speeds_change():
    setting = ordered.OrderedSetting(workers=3, factor=8.0, seconds=10.0, change=4.0)
    assert "3 workers change every 4 s, 1x to 8x slower, 20 us a row" in shown(views.ordered(setting, []))
    schedule = setting.balance("oracle").schedule
    assert [second for second, _ in schedule] == [0.0, 4.0, 8.0]
    for second, speeds in schedule:
        assert sum(speeds.values()) == pytest.approx(setting.ideal(second, second + 1.0))
    factors = [1 / (20e-6 * speed) for _, speeds in schedule for speed in speeds.values()]
    assert len(set(factors)) == 9
    assert 1.0 <= min(factors) < 3.0 < max(factors) <= 8.0
    assert setting.emulate() == setting.emulate(), "in every run alike"


def test_the_table_of_a_keyed_operator_compares_with_plain_spark_or_the_bound():
    outcome = keyed.KeyedResult("flux", 2000.0, True, 1.0, of_identity=0.8, of_shuffle=1.6, of_bound=0.9)
    outcome = replace(outcome, latency_ms=LATENCY_MS)
    plain = shown(views.keyed(keyed.KeyedSetting(workers=2, keys=10, rows=1_000, zipf=1.0), [outcome]))
    assert "1,000 rows of 10 keys, Zipf 1 on 2 workers" in plain
    assert "│ flux │ 2,000 │ 0.800 │ 1.600 │ 0.0 % │ 0 │ - │ 5 / 4 / 1,009 ms │ yes │" in plain
    emulated = shown(views.keyed(keyed.KeyedSetting(workers=2, keys=10, rows=1_000, cost_us=5.0), [outcome]))
    assert "of bound" in emulated
    assert "│ flux │ 2,000 │ 0.900 │ - │ 0.0 % │ 0 │ - │ 5 / 4 / 1,009 ms │ yes │" in emulated


VERBS = ["reproduce", "torture", "bench ordered", "bench keyed", "bench cep", "bench placement"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_what_it_does_and_every_option_what_it_is(verb):
    assert run(*verb.split(), "--help")[0] == 0
    command = typer.main.get_command(app)
    for word in verb.split():
        command = command.commands[word]
    assert len(command.help) > 20
    for parameter in command.params:
        if parameter.name not in ("help", "install_completion", "show_completion"):
            assert getattr(parameter, "help", None), f"{verb} {parameter.name}"


def test_the_list_of_verbs_is_whole():
    groups = typer.main.get_command(app).commands.items()
    found = {f"{name} {each}" for name, group in groups if hasattr(group, "commands") for each in group.commands}
    found |= {name for name, command in groups if not hasattr(command, "commands")}
    assert found == set(VERBS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("bench", "cep", "--plot", "no/such/file.png"), 2, "error: there is no directory no/such for "),
        (("torture", "--table", "no/such/file.md"), 2, "error: there is no directory no/such for "),
        (("bench", "ordered", "--json", "/proc/no/such"), 2, "/proc/no"),
        (("torture", "--job", "none"), 2, "none"),
        (("torture", "--resume", "--json", "broken.jsonl"), 2, "is not what --json writes"),
        (("bench", "keyed", "--rows", "many"), 2, "--rows"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_a_mistake_is_told_in_a_line_and_has_its_code(tmp_path, monkeypatch, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text("[nonsense\n")
    given, output = run(*arguments)
    assert said in output
    assert "Traceback" not in output
    assert given == code
    assert not (tmp_path / "no").exists()
