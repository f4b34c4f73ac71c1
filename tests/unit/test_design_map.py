"""docs/design.md has a map of all packages: it must say what the import rule says."""

import re

import pytest

from tests.support.rooms import MAY_IMPORT
from tests.support.scripts import ROOT

DESIGN = (ROOT / "docs/design.md").read_text()
WORDS = (ROOT / "docs/design/words.md").read_text()


def table(page, heading):
    """The rows of the first table below a heading, as lists of cells."""
    section = page.partition(f"# {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def packages(cell, of):
    """The packages that a cell names; `x.*` stands for all sub-packages of x, but not the one whose cell it is."""
    for name in re.findall(r"`([^`]+)`", cell):
        if name.endswith(".*"):
            yield from (room for room in MAY_IMPORT if room.startswith(name[:-1]) and room != of)
        else:
            yield name


ROWS = table(DESIGN, "The module map")
MAP = {row[0].strip("`"): row for row in ROWS}


def test_the_map_has_every_package_once():
    assert sorted(row[0].strip("`") for row in ROWS) == sorted(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_the_map_says_what_a_package_may_import(room):
    assert set(packages(MAP[room][2], room)) == MAY_IMPORT[room]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_the_map_says_what_a_package_is(room):
    assert MAP[room][1]


def test_a_word_has_one_meaning():
    words = [word.strip() for row in table(WORDS, "Words") for word in row[0].split(",")]
    assert words
    assert len(words) == len(set(words))


def test_contributing_names_every_package():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert {room for room in MAY_IMPORT if f"`{room}`" not in text} == set()
