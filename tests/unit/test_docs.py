"""The docs can be read: lines wrap, and what they point to is there."""

import importlib
import re

import pytest

from tests.support.scripts import ROOT

WIDTH = 120
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.(?:py|sh|lark|md|toml|lock)")
PLACEHOLDER = "NAME"
"""Stands in a path for a name that is still to be found."""
FILES = [path.relative_to(ROOT).as_posix() for top in ("src", "tests") for path in (ROOT / top).rglob("*.*")]

pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def anchors(text):
    """Those of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_lines_wrap(page):
    lines = [line for line in page.read_text().splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > WIDTH] == []


@pages
def test_files_are_there(page):
    """A path is below the repository or below src/evenflow; after others of its folder, the name alone will do."""
    named = {name for name in NAMED.findall(CODE.sub("", page.read_text())) if FILE.fullmatch(name)}
    known = {name for name in named if (ROOT / name).exists() or any(each.endswith(f"/{name}") for each in FILES)}
    assert {name for name in named - known if PLACEHOLDER not in name} == set()


@pages
def test_links_lead_somewhere(page):
    text = CODE.sub("", page.read_text())
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other.read_text()), f"{target}#{anchor}"


@pages
def test_modules_can_be_imported(page):
    for name in NAMED.findall(CODE.sub("", page.read_text())):
        if re.fullmatch(r"evenflow(\.[a-z_]+)+", name):
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute) or importlib.import_module(name)
