"""Experiments are run once, judged by their data, drawn, and put on one page."""

import json
import re

import pytest
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.errors import InvalidArgument, SimulationError
from evenflow_lab.experiments import catalogue, report, results, runner
from evenflow_lab.experiments.base import Experiment, Finding, PaperClaim, Picture, Setting

RUNS = []


def rises(setting):
    RUNS.append((setting.quick, setting.seed))
    setting.progress(0.5)
    return {"rates": [1.0, 2.0, 3.0 if setting.seed else 0.0]}


def judge(data):
    rates = data["rates"]
    return Finding(f"{rates}", rates == sorted(rates), "" if rates == sorted(rates) else "it falls at <the> end")


def sketch(data, figure):
    figure.add_subplot().plot(data["rates"])


RISING = Experiment(
    "rising",
    rises,
    (PaperClaim("X-1", "a paper, §1", "rates <rise>", "no rate is below the one before", judge),),
    (Picture("rising-figure-1", "rates & time", sketch),),
)


def fails(setting):
    raise ZeroDivisionError("of no use")


@pytest.fixture(autouse=True)
def _only_ours(monkeypatch):
    RUNS.clear()
    monkeypatch.setattr(catalogue, "experiments", lambda: (RISING,))


def go(folder, *names, **setting):
    seen = []
    experiments = runner.run_all(folder, names, Setting(**setting), 1, lambda name, part: seen.append((name, part)))
    return experiments, seen


def test_data_is_kept_and_not_made_again(tmp_path):
    assert go(tmp_path)[1] == [("rising", 0.0), ("rising", 0.5), ("rising", 1.0)]
    assert go(tmp_path)[1] == [("rising", 1.0)]
    assert RUNS == [(False, 1)]


def test_data_of_another_setting_version_or_engine_is_made_again(tmp_path, monkeypatch):
    go(tmp_path)
    go(tmp_path, quick=True)
    go(tmp_path, quick=True, seed=2)
    monkeypatch.setattr(results, "fingerprint", lambda: "another")
    go(tmp_path, quick=True, seed=2)
    newer = Experiment("rising", rises, RISING.claims, version=2)
    monkeypatch.setattr(catalogue, "experiments", lambda: (newer,))
    go(tmp_path, quick=True, seed=2)
    assert RUNS == [(False, 1), (True, 1), (True, 2), (True, 2), (True, 2)]


@pytest.mark.parametrize("name", ["X-1", "x-1", "rising", "X"])
def test_experiments_are_found_by_claim_name_and_group(tmp_path, name):
    assert go(tmp_path, name)[0] == [RISING]


def test_an_unknown_claim_is_told_with_those_that_may_be_meant(tmp_path):
    with pytest.raises(InvalidArgument, match=r"no claim or experiment 'rissing'; did you mean 'rising'\?"):
        go(tmp_path, "rissing")


@pytest.mark.parametrize(("seed", "holds"), [(1, True), (0, False)])
def test_a_claim_is_judged_by_its_data(tmp_path, seed, holds):
    experiments, _ = go(tmp_path, seed=seed)
    file = runner.write_claims(tmp_path, runner.judged(tmp_path, experiments))
    (row,) = json.loads(file.read_text())
    assert row == {
        "id": "X-1",
        "source": "a paper, §1",
        "paper": "rates <rise>",
        "ours": "[1.0, 2.0, 3.0]" if holds else "[1.0, 2.0, 0.0]",
        "criterion": "no rate is below the one before",
        "holds": holds,
        "why": "" if holds else "it falls at <the> end",
    }


def test_a_claim_that_does_not_hold_needs_a_reason():
    with pytest.raises(ValueError, match="needs a reason"):
        Finding("0.5", holds=False)


def test_the_page_has_claims_and_pictures_and_escapes_what_they_say(tmp_path):
    experiments, _ = go(tmp_path, seed=0)
    runner.draw(tmp_path, experiments)
    claims = runner.judged(tmp_path, experiments)
    text = report.page(tmp_path, experiments, claims, {"command": "evenflow <x>"})
    assert "0 of 1 claims hold" in text
    assert "rates &lt;rise&gt;" in text
    assert "it falls at &lt;the&gt; end" in text
    assert "evenflow &lt;x&gt;" in text
    assert "It holds if: no rate is below" in text
    assert 'alt="rates &amp; time" src="data:image/png;base64,iVBOR' in text
    assert re.search(r"simulated in [\d.]+ s, with [\d.]+ s of processor time and at most [\d,]+ MB<", text)
    assert "| X-1 | rates <rise> | [1.0, 2.0, 0.0]<br>it falls at <the> end | no |\n" in report.markdown(claims)


def test_data_from_before_processor_time_was_written_down_is_drawn_again(tmp_path):
    experiments, _ = go(tmp_path)
    (file,) = (tmp_path / "data").iterdir()
    found = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in found.items() if name not in ("cpu_s", "peak_mb")}))
    runner.draw(tmp_path, experiments)
    assert " s</p>" in report.page(tmp_path, experiments, runner.judged(tmp_path, experiments), {})


def test_an_experiment_that_fails_leaves_no_data(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "experiments", lambda: (Experiment("failing", fails),))
    with pytest.raises(ZeroDivisionError):
        go(tmp_path)
    assert not list(tmp_path.rglob("*.json"))


def test_the_command_writes_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("evenflow_lab.cli.reproduce._commit", lambda: "abc")  # waiting for a process sleeps
    result = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path), "--jobs", "1"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "1 of 1 claims hold" in result.output
    assert (tmp_path / "figures" / "rising-figure-1.png").stat().st_size > 1_000
    assert json.loads((tmp_path / "claims.json").read_text())[0]["holds"] is True
    again = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path), "--redraw"])
    assert again.exit_code == 0
    assert RUNS == [(False, 1)]


def test_redrawing_needs_data(tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path), "--redraw"])
    assert result.exit_code == 2
    assert "has no data of rising" in " ".join(result.output.split())


@pytest.mark.parametrize("taken", ["report", "report/data"])
def test_a_folder_that_cannot_be_is_refused_before_anything_is_run(tmp_path, taken):
    file = tmp_path / taken
    file.parent.mkdir(exist_ok=True)
    file.write_text("of somebody")
    result = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path / "report"), "--jobs", "1"])
    assert result.exit_code == 2
    assert "cannot be a directory" in " ".join(result.output.split())
    assert RUNS == []


def redraw(folder, *more):
    result = CliRunner().invoke(app, ["reproduce", "--out", str(folder), "--redraw", *more], env={"COLUMNS": "200"})
    return result.exit_code, " ".join(result.output.split())


def test_a_page_drawn_again_says_what_its_data_was_made_by(tmp_path, monkeypatch):
    monkeypatch.setattr("evenflow_lab.cli.reproduce._commit", lambda: "abc")
    falling = Experiment("falling", rises)
    monkeypatch.setattr(catalogue, "experiments", lambda: (RISING, falling))
    go(tmp_path, quick=True, seed=7)
    ours = results.fingerprint()
    code, output = redraw(tmp_path)
    assert code == 0
    assert "run at: reduced size, seed 7" in output
    assert "not the code" not in output
    go(tmp_path, "falling", seed=3)
    monkeypatch.setattr(results, "fingerprint", lambda: "another")
    redraw(tmp_path, "--seed", "5")
    text = (tmp_path / "report.html").read_text()
    assert "run at: reduced size, seed 7: rising; full size, seed 3: falling" in text
    assert f"engine {ours} (not the code that judges it" in text


def test_redrawing_leaves_out_what_has_no_data_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("evenflow_lab.cli.reproduce._commit", lambda: "abc")
    go(tmp_path)
    monkeypatch.setattr(catalogue, "experiments", lambda: (Experiment("absent", fails), RISING))
    code, output = redraw(tmp_path)
    assert code == 0
    assert "no data, left out: absent" in output
    assert "1 of 1 claims hold" in output


@pytest.mark.parametrize("text", ["garbage", "{}", "[]", '{"data": 1}'])
def test_damaged_data_is_refused_with_the_remedy(tmp_path, text):
    go(tmp_path)
    (tmp_path / "data" / "rising.json").write_text(text)
    code, output = redraw(tmp_path)
    assert code == 2
    assert "rising.json is damaged" in output
    assert "delete it, and run rising again" in output


def test_data_of_another_shape_is_refused_with_the_remedy(tmp_path):
    go(tmp_path)
    file = tmp_path / "data" / "rising.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"data": {}}))
    code, output = redraw(tmp_path)
    assert code == 2
    assert "of another version (KeyError: 'rates'): delete its file" in output


def test_failures_of_processes_are_told_with_their_names(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, *given, **more):
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *given: None  # noqa: E731

        def submit(self, call, *arguments):
            from concurrent.futures import Future

            future = Future()
            future.set_exception(ZeroDivisionError("of no use"))
            return future

    monkeypatch.setattr(runner, "ProcessPoolExecutor", Broken)
    with pytest.raises(SimulationError, match=r"1 of 1 experiments failed, .*: rising: ZeroDiv.*of no use"):
        runner.run_all(tmp_path, [], Setting(), 2, lambda name, part: None)
