"""The demo's report: one page that needs nothing beside it, with a picture of each part."""

from __future__ import annotations

import io
import os
import platform
from datetime import UTC, datetime
from html import escape

from matplotlib.figure import Figure

from evenflow._version import __version__
from evenflow.cli.demo.stage import DemoPart

WITHOUT, BALANCED = "#9aa3ad", "#0b7285"
STYLE = """
:root { color-scheme: light dark; --text: #1b2730; --dim: #5d6b76; --back: #f6f8f9; --card: #fff; --line: #dde3e8;
  --good: #0b7285; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf2; --dim: #9fb0bc; --back: #10171c; --card: #18222a;
  --line: #2a3740; --good: #4cc4d8; --bad: #ff8a80 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem }
h1 { margin: 0 0 .25rem; font-size: 1.8rem } h2 { margin: 0 0 .25rem; font-size: 1.2rem }
p { margin: .25rem 0 } .dim { color: var(--dim) }
.gains { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .75rem; margin: 1.5rem 0 }
.gain, section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem }
.gain b { display: block; font-size: 2rem; line-height: 1.2; color: var(--good) }
section { margin: 0 0 1rem } .bad { color: var(--bad) }
.picture { background: #fff; border-radius: .25rem; margin-top: .75rem; padding: .25rem }
.picture svg { width: 100%; height: auto; display: block }
"""


def report(parts: list[DemoPart], workers: int, seconds: float) -> str:
    """The page."""
    gains = "".join(
        f"<div class=gain><b>{part.gain:.1f} x</b>{escape(part.title)}"
        f"<div class=dim>{_figure(part, part.without.figure)} → {_figure(part, part.balanced.figure)}</div></div>"
        for part in parts
    )
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    where = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    about = f"evenflow {__version__}, {where}, {made}, {seconds:.0f} s"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Evenflow: what balancing brought</title><style>{STYLE}</style></head><body><main>
<h1>What balancing brought</h1>
<p class="dim">Each stream ran twice on {workers} workers in the same session, first without, then with balancing. The
speed of workers is emulated: each sleeps as long as its rows would take. Figures are rows a
second over the run (of the slow worker: over its second half), and latency while a worker is slow.</p>
<div class="gains">{gains}</div>
{"".join(_section(part) for part in parts)}
<p class="dim">{escape(about)}</p>
</main></body></html>
"""


def _figure(part: DemoPart, figure: float) -> str:
    return f"{figure:,.0f} {escape(part.unit)}"


def _section(part: DemoPart) -> str:
    checked = f"Checked: {escape(part.checked)}."
    mark = f"<p class=dim>{checked}</p>" if part.sound else f"<p class=bad>NOT so: {escape(part.checked)}.</p>"
    return (
        f"<section><h2>{escape(part.sentence)}</h2><p>{escape(part.trouble)}</p>{mark}"
        f"<div class=picture>{_picture(part)}</div></section>"
    )


def _picture(part: DemoPart) -> str:
    """Both runs over time, as SVG."""
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    axes = figure.subplots()
    for run, colour, what in ((part.without, WITHOUT, "without"), (part.balanced, BALANCED, "with")):
        axes.plot(run.seconds, run.values, color=colour, linewidth=2, label=f"{what}: {run.label}")
        axes.axhline(run.figure, color=colour, linewidth=1, linestyle=":")
    axes.set(xlabel="seconds", ylabel="latency (ms)" if part.lower else part.unit)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(axis="y", color="#e5e9ec")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize=9)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue().partition("<svg")[1] + written.getvalue().partition("<svg")[2]
