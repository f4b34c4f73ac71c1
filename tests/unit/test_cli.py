"""The command line: what is refused before anything starts, what is shown after, and exit codes."""

import errno
import json
import os
import re
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from evenflow._version import __version__
from evenflow.cli.app import CODES, app
from evenflow.cli.terminal import check_writable, guard, write_figures
from evenflow.cli.verbs import CLOSED, LAB, Verbs
from evenflow.errors import InvalidArgument


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("plot", "[OPTIONS] LOG Draw"),
        ("simulate", "[OPTIONS] [SCENARIO] Ask"),
        ("state show", "[OPTIONS] DIR NAME... Show"),
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


@pytest.mark.parametrize("arguments", [(), ("state", "ls"), ("plot",)])
def test_every_command_tells_its_usage(arguments):
    code, output = run(*arguments, "--help")
    assert code == 0
    assert output.startswith(" ".join(("Usage:", "root", *arguments)))


VERBS = [
    *("demo", "dashboard", "doctor", "plot", "metrics", "simulate", "version"),
    *(
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
    assert {verb for verb in found if verb.split()[0] not in LAB} == set(VERBS)
    assert set(LAB) <= {verb.split()[0] for verb in found}, "where the lab is installed, its verbs are here, too"


@pytest.mark.parametrize("verb", LAB)
def test_a_verb_of_the_lab_is_named_with_its_package_where_that_is_not_installed(verb):
    alone = Verbs()
    for name in ("one", "two"):
        alone.command(name)(lambda: None)
    result = CliRunner().invoke(alone, [verb], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 2
    assert f"{verb} is a verb of evenflow-lab: run `pip install ./lab` in the source tree" in result.output


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
        (("demo", "--part", "none"), 2, "none"),
        (("nonsense",), 2, "No such command"),
        (("plot", "--nonsense"), 2, "No such option"),
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
