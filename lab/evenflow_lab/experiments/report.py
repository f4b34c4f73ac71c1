"""report.html: every claim beside ours, and the pictures, in one file that needs nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from evenflow_lab.experiments.base import Experiment
from evenflow_lab.experiments.results import StoredData, is_ours, needed
from evenflow_lab.experiments.runner import JudgedClaim

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --back: #ffffff; --card: #f6f8fa;
  --good: #1a7f37; --bad: #b35900; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa5b1; --line: #30363d; --back: #0d1117;
  --card: #161b22; --good: #4ac26b; --bad: #e09b4a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--back); }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .8rem; }
.about, figcaption, .source, .criterion { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .7rem; border-bottom: 1px solid var(--line); }
td:first-child { white-space: nowrap; font-weight: 600; } td { min-width: 6rem; }
a { color: inherit; } .yes { color: var(--good); font-weight: 600; } .no { color: var(--bad); font-weight: 600; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.2rem; margin: 1rem 0;
  background: var(--card); }
article h3 { margin: 0 0 .3rem; font-size: 1.05rem; } article p { margin: .3rem 0; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; border-radius: .3rem; }
"""


def page(
    folder: Path, experiments: Sequence[Experiment], claims: Sequence[JudgedClaim], about: Mapping[str, str]
) -> str:
    """The whole page; the data and the pictures of the experiments must be in `folder`."""
    held = sum(claim.holds for claim in claims)
    told = "".join(f"<br>{escape(name)}: {escape(text)}" for name, text in about.items())
    by_id = {claim.id: claim for claim in claims}
    body = "".join(_section(folder, each, by_id) for each in experiments)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Evenflow: the papers' claims beside ours</title><style>{STYLE}</style></head><body>
<h1>The papers' claims beside ours</h1>
<p class="about">{held} of {len(claims)} claims hold by their criterion.{told}</p>
<div class="wide"><table><thead><tr><th>claim</th><th>the paper</th><th>ours</th><th>holds</th></tr></thead>
<tbody>{"".join(_row(claim) for claim in claims)}</tbody></table></div>
{body}
</body></html>
"""


def made_by(folder: Path, experiments: Sequence[Experiment]) -> dict[str, str]:
    """Which code made the data, and at which size."""
    makers, sizes = {}, {}
    for each in experiments:
        found = needed(folder, each)
        makers[each.name] = f"evenflow {found.evenflow}, engine {found.about['engine']}"
        if not is_ours(found, each):
            makers[each.name] += " (not the code that judges it)"
        sizes[each.name] = f"{'reduced' if found.about['quick'] else 'full'} size, seed {found.about['seed']}"
    return {"data made by": _gathered(makers), "run at": _gathered(sizes)}


def _gathered(said: Mapping[str, str]) -> str:
    """The text of all experiments; where they differ, each text with the names of its experiments."""
    texts = list(dict.fromkeys(said.values()))
    if len(texts) == 1:
        return texts[0]
    return "; ".join(f"{text}: {', '.join(name for name in said if said[name] == text)}" for text in texts)


def _mark(claim: JudgedClaim) -> str:
    return '<span class="yes">yes</span>' if claim.holds else '<span class="no">no</span>'


def _row(claim: JudgedClaim) -> str:
    link = f'<a href="#{escape(claim.id, quote=True)}">{escape(claim.id)}</a>'
    return (
        f"<tr><td>{link}</td><td>{escape(claim.paper)}</td><td>{escape(claim.ours)}</td><td>{_mark(claim)}</td></tr>\n"
    )


def _section(folder: Path, experiment: Experiment, claims: Mapping[str, JudgedClaim]) -> str:
    cards = "".join(_card(claims[claim.id]) for claim in experiment.claims)
    figures = "".join(_figure(folder, picture.name, picture.caption) for picture in experiment.pictures)
    took = f'<p class="about">{_took(needed(folder, experiment))}</p>'
    return f"<section><h2>{escape(experiment.name)}</h2>{took}{cards}{figures}</section>\n"


def _took(found: StoredData) -> str:
    known = found.cpu_s is not None and found.peak_mb is not None
    more = f", with {found.cpu_s:.1f} s of processor time and at most {found.peak_mb:,.0f} MB" if known else ""
    return f"simulated in {found.seconds:.1f} s{more}"


def _card(claim: JudgedClaim) -> str:
    why = f"<p>{escape(claim.why)}</p>" if claim.why else ""
    return f"""<article id="{escape(claim.id, quote=True)}"><h3>{escape(claim.id)}: {_mark(claim)}</h3>
<p class="source">{escape(claim.source)}</p><p><b>The paper:</b> {escape(claim.paper)}</p>
<p><b>Ours:</b> {escape(claim.ours)}</p>{why}
<p class="criterion">It holds if: {escape(claim.criterion)}</p></article>
"""


def _figure(folder: Path, name: str, caption: str) -> str:
    picture = b64encode((folder / "figures" / f"{name}.png").read_bytes()).decode()
    text = escape(caption, quote=True)
    return f'<figure><img alt="{text}" src="data:image/png;base64,{picture}"><figcaption>{text}</figcaption></figure>\n'


def markdown(claims: Sequence[JudgedClaim]) -> str:
    """The claims as a table for docs/reproduction.md."""
    cells = [
        [claim.id, claim.paper, claim.ours + (f"<br>{claim.why}" if claim.why else ""), "yes" if claim.holds else "no"]
        for claim in claims
    ]
    lines = [["claim", "the paper", "ours", "holds"], ["---"] * 4, *cells]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
