"""The demo: what its figures are, and the report that it leaves behind."""

import re

from evenflow.cli.app import demo as demo_verb
from evenflow.cli.demo import show as demo
from evenflow.cli.demo.report import report
from evenflow.cli.demo.stage import DemoPart, DemoRun, Look, run_of


def seen(*rows):
    return [Look(10.0 + 0.5 * place, count, lambda elapsed: "") for place, count in enumerate(rows)]


def part(without=100.0, balanced=250.0, **given):
    runs = [DemoRun(name, figure, (0.5, 1.0), (figure, figure)) for name, figure in (("a", without), ("b", balanced))]
    about = {"title": "a <slow> worker", "trouble": "it is slow & old", "unit": "rows/s", "sound": True}
    about |= {"checked": "all rows"}
    return DemoPart(**about | {"without": runs[0], "balanced": runs[1]} | given)


def test_the_figure_of_a_run():
    run = run_of("x", seen(0, 10, 20, 120, 220), settled=True)
    assert run.figure == 200.0
    assert run.seconds == (0.5, 1.0, 1.5, 2.0)
    assert run.values == (20.0, 20.0, 200.0, 200.0)
    assert run_of("x", seen(0, 10, 20, 120, 220)).figure == 110.0
    stood = [*seen(0, 50), *seen(0, 50)[1:]]  # two looks while nothing was fed
    assert run_of("x", stood, settled=True).figure == 100.0


def test_a_run_without_rows_has_no_figure():
    assert run_of("x", []).figure != run_of("x", []).figure


def test_gains():
    assert part().gain == 2.5
    assert part().sentence == "a <slow> worker: 2.5 times the rows a second"
    late = part(without=500.0, balanced=250.0, unit="ms", lower=True)
    assert late.gain == 2.0
    assert late.sentence == "a <slow> worker: 2.0 times as fast"


def test_the_report_is_one_page_that_needs_nothing_else():
    page = report([part(), part(sound=False)], 4, 80.0)
    assert page.count("<svg") == 2
    assert "a &lt;slow&gt; worker: 2.5 times the rows a second" in page
    assert "it is slow &amp; old" in page
    assert "NOT so: all rows" in page
    loaded = re.findall(r"""(?:src|href)=(?!["']?#)[^\s>]+|url\((?!#)[^)]*\)|@import""", page)
    assert loaded == []


def test_every_part_is_named_in_the_help():
    text = demo_verb.__annotations__["part"]
    assert all(name in str(text) for name in demo.PARTS)
