"""Programs made of the code blocks of pages: all blocks of a page, in order, are one program.

A page may take something for granted (`cluster`, `trades`); then a file here, by the page's name, has what comes before
its blocks and, behind the line that is `HERE`, what must hold after them.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.scripts import ROOT

HERE = "# The blocks of the page run here.\n"
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[str]:
    """The Python code of a page."""
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in BLOCK.findall(page.read_text())]


def pages() -> dict[str, Path]:
    """All pages that have Python code, by the name of their program."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return {page.stem: page for page in found if blocks_of(page)}


def program_of(page: Path) -> str:
    """The page's blocks with what they need."""
    around = Path(__file__).with_name(f"{page.stem}.py")
    before, _, after = around.read_text().partition(HERE) if around.exists() else ("", "", "")
    return "\n".join([before, *blocks_of(page), after])
