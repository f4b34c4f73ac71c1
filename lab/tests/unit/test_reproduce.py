"""`evenflow reproduce --quick` on one experiment of each paper, from the command to the page."""

import json
import sys
from collections import defaultdict
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow_lab.experiments import catalogue, runner
from evenflow_lab.experiments.cep.runs import CepSizes

pytestmark = pytest.mark.slow

CLAIMS = ["O-f8b", "F-base", "C-t1", "P-f9"]
"""Those that are the cheapest of their paper, in CPU time."""
HOSTILE = "<script>alert(1)</script>&amp;"
EXTERNAL = ("src", "href", "action", "data", "poster", "srcset")


class Page(HTMLParser):
    """What a browser would see: texts by element, and what it would load."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.texts, self.loads, self.pictures, self.elements = defaultdict(list), [], [], set()
        self._open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.loads += [value for name, value in attrs if name in EXTERNAL]
        if tag == "img":
            self.pictures.append(dict(attrs)["alt"])
        elif tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts[self._open[-1] if self._open else ""].append(data)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a report, the experiments that were run for it, and what the command printed."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CepSizes, "of", classmethod(lambda cls, _: cls(24, (3.0, 6.0), 1.5, 1_500, 512)))
        ran, output = reproduce(patch, folder, *CLAIMS, "--quick")
    return folder, ran, output


def reproduce(monkeypatch, folder, *arguments):
    """Run the command; the experiments that it ran, and what it printed."""
    ran, real = [], runner.run_and_store
    monkeypatch.setattr("evenflow_lab.cli.reproduce._commit", lambda: "abc")  # waiting for a process sleeps
    monkeypatch.setattr(sys, "argv", ["evenflow", "reproduce", HOSTILE])
    monkeypatch.setattr(runner, "run_and_store", lambda *given: (ran.append(given[1].name), real(*given)))
    command = ["reproduce", *arguments, "--out", str(folder), "--jobs", "1"]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    monkeypatch.setattr(runner, "run_and_store", real)
    assert result.exit_code == 0, result.output
    return ran, result.output


def rows(folder):
    return json.loads((folder / "claims.json").read_text())


def files(folder, pattern):
    return {file.name: file.read_bytes() for file in sorted(folder.glob(pattern))}


def test_it_writes_claims_of_all_papers_and_their_pictures(made):
    folder, ran, output = made
    experiments = catalogue.chosen(CLAIMS)
    assert ran == [each.name for each in experiments]
    claims = rows(folder)
    assert set(CLAIMS) <= {claim["id"] for claim in claims}
    assert {claim["id"][0] for claim in claims} == set("OFCP")
    for claim in claims:
        assert list(claim) == ["id", "source", "paper", "ours", "criterion", "holds", "why"]
        assert isinstance(claim["holds"], bool)
        assert all(claim[name] for name in ("source", "paper", "ours", "criterion"))
        assert claim["holds"] or claim["why"]
    pictures = [picture.name for each in experiments for picture in each.pictures]
    assert sorted(files(folder, "figures/*")) == sorted(f"{name}.png" for name in pictures)
    assert all(body.startswith(b"\x89PNG") and len(body) > 5_000 for body in files(folder, "figures/*").values())
    assert f"{sum(claim['holds'] for claim in claims)} of {len(claims)} claims hold" in output


def test_the_page_needs_nothing_else_and_shows_texts_as_they_are(made):
    folder, _, _ = made
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert all(each.startswith(("data:image/png;base64,", "#")) for each in page.loads)
    assert not page.elements & {"script", "link", "iframe", "object", "base"}
    assert "url(" not in text
    assert "@import" not in text
    assert any(HOSTILE in each for each in page.texts["p"])
    shown = " ".join(each for texts in page.texts.values() for each in texts)
    for claim in rows(folder):
        assert all(claim[name] in shown for name in ("id", "source", "paper", "ours", "criterion", "why"))
    captions = [picture.caption for each in catalogue.chosen(CLAIMS) for picture in each.pictures]
    assert page.pictures == captions


def test_what_is_there_is_not_run_again_and_what_is_missing_is(made, monkeypatch):
    folder, ran, _ = made
    data, claims = files(folder, "data/*"), rows(folder)
    assert reproduce(monkeypatch, folder, CLAIMS[0], "--quick")[0] == []
    (folder / "data" / f"{ran[0]}.json").unlink()
    assert reproduce(monkeypatch, folder, *CLAIMS, "--quick")[0] == ran[:1]
    assert rows(folder) == claims
    for name, body in files(folder, "data/*").items():
        assert json.loads(body)["data"] == json.loads(data[name])["data"]


def test_claims_pictures_and_page_come_from_the_data_alone(made, monkeypatch):
    folder, _, _ = made
    before = files(folder, "figures/*") | files(folder, "claims.json")
    for name in before:
        (folder / ("" if name == "claims.json" else "figures") / name).unlink()
    (folder / "report.html").unlink()
    assert reproduce(monkeypatch, folder, *CLAIMS, "--redraw")[0] == []
    assert files(folder, "figures/*") | files(folder, "claims.json") == before
    assert (folder / "report.html").stat().st_size > 100_000


def halve(data):
    data["throughput"] = [rate / 2 for rate in data["throughput"]]


def lean(data):
    for run in data["runs"].values():
        run["weights"] = [[80.0, 10.0, 10.0] for _ in run["weights"]]


@pytest.mark.parametrize(("claim", "alter"), [("F-base", halve), ("O-f8b", lean)])
def test_a_verdict_follows_from_the_data(made, monkeypatch, tmp_path, claim, alter):
    folder, _, _ = made
    (experiment,) = catalogue.chosen([claim])
    (before,) = (row for row in rows(folder) if row["id"] == claim)
    kept = json.loads((folder / "data" / f"{experiment.name}.json").read_text())
    alter(kept["data"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"{experiment.name}.json").write_text(json.dumps(kept))
    reproduce(monkeypatch, tmp_path, claim, "--redraw")
    (after,) = rows(tmp_path)
    assert before["holds"] is True
    assert after["holds"] is False
    assert after["why"]
    assert after["ours"] != before["ours"]
