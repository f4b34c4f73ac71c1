"""The docs can be read: lines wrap, and what they point to is there."""

import ast
import importlib
import re
from functools import cache

import pytest

from evenflow.runtime.wire.channel import KEEPALIVE
from tests.support.scripts import ROOT

WIDTH = 120
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.(?:py|sh|lark|md|toml|lock)")
PLACEHOLDER = "NAME"
"""Stands in a path for a name that is still to be found."""
LANGUAGES = {"", "java", "python", "sh", "text", "toml"}
"""Of code blocks. What is python runs in tests/drivers/test_programs.py, so there is no other word for it."""
QUOTED = re.compile(r'"([^"]*(?:"range"[^"]*)?)"')
"""A message, as troubleshooting.md quotes it in headings."""
FILES = [path.relative_to(ROOT).as_posix() for top in ("src", "lab", "tests") for path in (ROOT / top).rglob("*.*")]

pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


def anchors(text):
    """Those of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_lines_wrap(page):
    lines = [line for line in page.read_text().splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > WIDTH] == []


TOO_MUCH = {
    r"hot key[^.]* does not decide": "the hottest unit is as fast as one worker: say that it is the floor",
    r"keepalive in \d+ s": "with bytes under way, the kernel repeats them for minutes: say when it holds",
    r"[Nn]ever wrong results": "say what happens instead: it is refused, or fails with StateLost",
}
"""Sentences that promised more than there is, and what to say instead."""


@pages
def test_docs_promise_no_more_than_there_is(page):
    text = " ".join(page.read_text().split())
    assert {said: instead for said, instead in TOO_MUCH.items() if re.search(said, text)} == {}


def test_a_silent_host_is_found_when_docs_say():
    found = KEEPALIVE["TCP_KEEPIDLE"] + KEEPALIVE["TCP_KEEPINTVL"] * KEEPALIVE["TCP_KEEPCNT"]
    text = " ".join((ROOT / "docs/design/workers.md").read_text().split())
    assert f"by TCP keepalive {found} s after its last packet, if nothing was being sent to it" in text


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
        if target.startswith("https://"):
            continue  # others' pages are theirs
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other.read_text()), f"{target}#{anchor}"


@pages
def test_modules_can_be_imported(page):
    for name in NAMED.findall(CODE.sub("", page.read_text())):
        if re.fullmatch(r"evenflow(\.[a-z_]+)+", name):
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute) or importlib.import_module(name)


@pages
def test_code_blocks_have_a_known_language(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert set(fences) - LANGUAGES == set()
    assert len(fences) % 2 == 0


@pages
def test_paragraphs_of_list_items_are_indented_by_four(page):
    """GitHub takes less, the site does not: there such a paragraph ends the list."""
    text = CODE.sub("", page.read_text())
    assert re.findall(r"\n\n {1,3}\S.*", text) == []


def test_every_page_is_in_the_site():
    listed = set(re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")} == listed


@cache
def texts_of_the_source():
    """The texts of each file of the code; the parts of an f-string are texts of their own."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py")]
    values = [[node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)] for tree in trees]
    return ["\n".join(value for value in found if isinstance(value, str)) for found in values]


def quoted_messages():
    headings = re.findall(r"^### (.+)$", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    return [message for heading in headings for message in QUOTED.findall(heading)]


def test_there_are_messages_to_look_up():
    assert len(quoted_messages()) > 40


@pytest.mark.parametrize("message", quoted_messages(), ids=lambda text: text[:40])
def test_quoted_messages_are_in_the_code(message):
    """There is a file that has each stretch between two dots; a message that was reworded is mended here, too."""
    parts = [part.strip(" '") for part in message.split("…") if part.strip(" ,:;.)('")]
    assert any(all(part in texts for part in parts) for texts in texts_of_the_source()), parts
