"""The command line: what is refused before anything starts, what is shown after, and exit codes."""

import errno
import io
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from evenflow._version import __version__
from evenflow.bench import cep, cep_view, keyed, keyed_view, ordered, ordered_view
from evenflow.cli.app import CODES, app
from evenflow.cli.terminal import check_writable, guard, write_figures
from evenflow.cli.verbs import CLOSED
from evenflow.errors import InvalidArgument


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


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("plot", "[OPTIONS] LOG Draw"),
        ("simulate", "[OPTIONS] [SCENARIO] Ask"),
        ("state show", "[OPTIONS] DIR NAME... Show"),
        ("reproduce", "[OPTIONS] [ID]... Simulate"),
    ],
)
def test_the_usage_has_no_marks_of_the_library(verb, usage):
    said = run(*verb.split(), "--help")[1]
    assert f"{verb} {usage}" in said
    assert "<bool>" not in said
    assert "<bool>" not in run("--help")[1]


def test_paragraphs_of_help_are_broken_by_the_terminal_alone():
    result = CliRunner().invoke(app, ["plot", "--help"], env={"COLUMNS": "400", "TERM": "dumb"})
    assert "units and moves; of a graph" in result.output


@pytest.mark.parametrize("arguments", [["--help"], ["plot", "--help"], ["metrics", "log"], ["version"]])
def test_nobody_reads_on(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text('{"time": 0.0, "at": 1.0, "event": "x"}\n')
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as closed, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", closed)
        patch.setattr(sys, "stderr", sys.stderr)  # both are wrapped at the end
        with pytest.raises(SystemExit) as exit:
            app(arguments)
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)
    assert exit.value.code == 141


def test_help_and_docs_have_the_same_exit_codes():
    told = re.findall(r"\b(\d+) \w", CODES)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    assert told == re.findall(r"^\| (\d+) \|", page, re.M)
    assert told[-1] == str(CLOSED)


def test_another_pipe_that_breaks_is_a_failure(capsys):
    """A connection to a database, say: what is printed is read."""

    def work():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(typer.Exit) as exit:
        guard(work)
    assert exit.value.exit_code == 1
    assert "error: [Errno 32] Broken pipe" in capsys.readouterr().err


def test_an_unknown_claim_is_refused_before_anything_is_begun(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = run("reproduce", "Z-9")
    assert (code, output[:6], list(tmp_path.iterdir())) == (2, "error:", [])


@pytest.mark.parametrize("arguments", [(), ("bench",), ("bench", "ordered"), ("state", "ls"), ("torture",)])
def test_every_command_tells_its_usage(arguments):
    code, output = run(*arguments, "--help")
    assert code == 0
    assert output.startswith(" ".join(("Usage:", "root", *arguments)))


LATENCY_MS = {"mean": 5.2, "p50": 4.0, "p99": 1009.0}


def test_engines_have_their_own_rates_and_latencies():
    known = [{"engine": 0, "rows_per_s": 2000.0, **LATENCY_MS}, {"engine": 1, "rows_per_s": 5.0}]
    result = cep.CepResult("kg", 2, 9, 9.0, 0.5, 0.75, 1, True, 0.0, 0, 0, 0, 0.0, 1.0, LATENCY_MS, known)
    assert "│ kg on 2 │ 5 / 4 / 1,009 ms │ 2,000, 4/1,009 │ 5, 0/0 │" in shown(cep_view.engines([result]))


def test_the_table_of_an_ordered_region_tells_what_is_wrong():
    setting = ordered.OrderedSetting(workers=8, slow=2, factor=5.0, also=((1, 3.0),), until=7.0)
    good = ordered.OrderedResult(
        "credits", 1000.0, 0.91, 0.95, 1000.0, 1.5, True, 9, 9, 1.0, {"p50": 12.0, "p99": 40.0}, latency_ms=LATENCY_MS
    )
    wrong = ordered.OrderedResult(
        "auto", 1000.0, 0.91, 0.95, 1000.0, None, False, 9, 8, 1.0, {"p50": 12.0, "p99": 40.0}
    )
    said = shown(ordered_view.table(setting, [good, wrong]))
    assert "2 of 8 workers 5x slower, 1 3x until second 7, 20 us a row" in said
    assert "│ credits │ 1,000 │ 0.910 │ 0.950 │ 1.5 s │ 12 / 40 ms │ 5 / 4 / 1,009 ms │ yes │" in said
    assert "│ auto │ 1,000 │ 0.910 │ 0.950 │ - │ 12 / 40 ms │ - │ NO │" in said


def test_an_ordered_region_of_which_all_speeds_change():
    setting = ordered.OrderedSetting(workers=3, factor=8.0, seconds=10.0, change=4.0)
    assert "3 workers change every 4 s, 1x to 8x slower, 20 us a row" in shown(ordered_view.table(setting, []))
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
    plain = shown(keyed_view.table(keyed.KeyedSetting(workers=2, keys=10, rows=1_000, zipf=1.0), [outcome]))
    assert "1,000 rows of 10 keys, Zipf 1 on 2 workers" in plain
    assert "│ flux │ 2,000 │ 0.800 │ 1.600 │ 0.0 % │ 0 │ - │ 5 / 4 / 1,009 ms │ yes │" in plain
    emulated = shown(keyed_view.table(keyed.KeyedSetting(workers=2, keys=10, rows=1_000, cost_us=5.0), [outcome]))
    assert "of bound" in emulated
    assert "│ flux │ 2,000 │ 0.900 │ - │ 0.0 % │ 0 │ - │ 5 / 4 / 1,009 ms │ yes │" in emulated


VERBS = [
    *("demo", "dashboard", "doctor", "plot", "metrics", "simulate", "reproduce", "torture", "version"),
    *(
        "bench ordered",
        "bench keyed",
        "bench cep",
        "bench placement",
        "state ls",
        "state show",
        "state verify",
        "state absent",
    ),
]


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


def test_figures_are_json_whatever_they_are(tmp_path):
    file = tmp_path / "figures.json"
    write_figures(file, {"gain": float("nan"), "parts": [{"values": (1.5, float("inf"))}], 3: "x"})
    found = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert found == {"gain": None, "parts": [{"values": [1.5, None]}], "3": "x"}


def test_files_are_tried_and_not_left_behind(tmp_path):
    there, new = tmp_path / "there.json", tmp_path / "new.html"
    there.write_text("before")
    check_writable(there, new, None)
    assert there.read_text() == "before"
    assert not new.exists()
    with pytest.raises(InvalidArgument, match="is a directory: give the path of a file"):
        check_writable(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plot", "run.jsonl", "--out", "no/such/file.png"),
        ("metrics", "run.jsonl", "--out", "no/such/file"),
        ("doctor", "--json", "no/such/file.json"),
        ("demo", "--report", "no/such/page.html"),
        ("simulate", "s.toml", "--json", "no/such/file.json"),
        ("bench", "cep", "--plot", "no/such/file.png"),
        ("torture", "--table", "no/such/file.md"),
        ("state", "ls", "nowhere", "--json", "no/such/file.json"),
    ],
    ids=" ".join,
)
def test_no_directory_is_made_for_a_file(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text('balance = "hash"\nseconds = 2\n[keyed]\nworkers = 2\nunits = 8\n')
    assert run("simulate", "s.toml", "--event-log", "made")[0] == 0, "a directory of results is made"
    (tmp_path / "made" / "hash.jsonl").rename("run.jsonl")
    code, output = run(*arguments)
    assert (code, (tmp_path / "no").exists()) == (2, False)
    assert "error: there is no directory no/such for " in output


def test_the_version():
    assert run("--version") == run("version") == (0, __version__)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("plot", "none.jsonl"), 2, "there is no event log none.jsonl"),
        (("plot", "."), 2, "cannot read the event log ."),
        (("plot", "broken.jsonl"), 2, "line 1 of broken.jsonl is no entry of an event log"),
        (("plot", "empty.jsonl"), 2, "has no samples"),
        (("plot", "sound.jsonl", "--out", "picture.xyz"), 2, "end it in .png"),
        (("metrics", "none.jsonl"), 2, "there is no event log none.jsonl"),
        (("metrics", "broken.jsonl"), 2, "line 1 of broken.jsonl"),
        (("metrics", "sound.jsonl", "--out", "."), 2, ". is a directory"),
        (("simulate", "none.toml"), 2, "there is no scenario none.toml: docs/simulator.md"),
        (("state", "ls", "new", "--key-file", "none.key"), 2, "there is no key file none.key"),
        (("simulate", "broken.jsonl"), 2, "broken.jsonl"),
        (("simulate", "--from", "empty.jsonl"), 2, "has no samples"),
        (("simulate", "--from", "broken.jsonl"), 2, "line 1 of broken.jsonl"),
        (("state", "ls", "nowhere"), 2, "nowhere"),
        (("state", "ls", "."), 2, "it is not a checkpoint of Evenflow"),
        (("state", "show", "nowhere", "counts"), 2, "nowhere"),
        (("state", "show", "new", "counts"), 2, "new is empty: there is no state here"),
        (("state", "ls", "ftp://x"), 2, "ftp"),
        (("state", "verify", "broken.jsonl"), 2, "broken.jsonl"),
        (("bench", "ordered", "--json", "/proc/no/such"), 2, "/proc/no"),
        (("demo", "--part", "none"), 2, "none"),
        (("reproduce", "Z-9"), 2, "Z-9"),
        (("torture", "--job", "none"), 2, "none"),
        (("torture", "--resume", "--json", "broken.jsonl"), 2, "is not what --json writes"),
        (("nonsense",), 2, "No such command"),
        (("plot", "--nonsense"), 2, "No such option"),
        (("bench", "keyed", "--rows", "many"), 2, "--rows"),
    ],
)
def test_a_mistake_is_told_in_a_line_and_has_its_code(tmp_path, monkeypatch, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text("[nonsense\n")
    (tmp_path / "sound.jsonl").write_text('{"time": 0.0, "event": "x"}\n')
    given, output = run(*arguments)
    assert said in output
    assert "Traceback" not in output
    assert given == code


def test_an_interruption(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as exit:
        guard(interrupted)
    assert exit.value.exit_code == 130


def test_figures_on_standard_output_are_alone_there(tmp_path):
    (tmp_path / "s.toml").write_text('balance = "hash"\nseconds = 2\n[keyed]\nworkers = 2\nunits = 8\n')
    result = CliRunner().invoke(app, ["simulate", str(tmp_path / "s.toml"), "--json", "-"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["simulated"] is True
    assert "rows/s" in result.stderr


def test_metrics_of_a_log(tmp_path):
    log = tmp_path / "events.jsonl"
    log.write_text('{"time": 0.0, "at": 1.0, "event": "region-opened", "region": "r", "units": 4}\n')
    code, output = run("metrics", str(log))
    assert code == 0
    assert 'evenflow_rows_total{region="r"} 0.0' in output
    assert run("metrics", str(log), "--out", str(tmp_path / "node.prom"))[0] == 0
    assert "evenflow_rows_total" in (tmp_path / "node.prom").read_text()
