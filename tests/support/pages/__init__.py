"""Programs made of the code blocks of pages: all blocks of a page, in order, are one program.

A page may take something for granted (`cluster`, `trades`); then a file here, by the page's name, has what comes before
its blocks and, behind the line that is `HERE`, what must hold after them.
"""

from __future__ import annotations

import ast
import json
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


def program_of_notebook(notebook: Path) -> str:
    """The code of its cells; what a cell ends with is shown, as a notebook shows it."""
    program = ["def show(value):\n    print(value._repr_html_() if hasattr(value, '_repr_html_') else value)\n"]
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            code = ast.parse("".join(cell["source"]))
            if isinstance(last := code.body[-1], ast.Expr):
                last.value = ast.Call(ast.Name("show", ast.Load()), [last.value], [])
            program.append(ast.unparse(code))
    return "\n".join(program)


def program_of(page: Path) -> str:
    """The page's blocks with what they need."""
    around = Path(__file__).with_name(f"{page.stem}.py")
    before, _, after = around.read_text().partition(HERE) if around.exists() else ("", "", "")
    return "\n".join([before, *blocks_of(page), after])
