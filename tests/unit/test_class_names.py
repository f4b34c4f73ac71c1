"""One word for one thing: a class name says which class is meant, without a look at the imports."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import evenflow

ROOTS = [Path(evenflow.__file__).parent]

SHARED = {
    "Units": "an array of units in each module that has it; the class only stands for it where messages are decoded",
}
"""Names that a class shares with something else, each with the reason."""


def defined(source):
    """The public classes of a module, and its other public names that are written like a class (aliases, TypeVars)."""
    classes, others = [], []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=name):
                classes.append(name)
            case ast.Module(body=body):
                others += [name for line in body for name in _assigned(line)]
    return [[name for name in found if not name.startswith("_")] for found in (classes, others)]


def _assigned(line):
    match line:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name] if name[0].isupper() and not name.isupper() else []
    return []


def shared(sources):
    """Names of classes that are defined a second time, as a class, an alias or a TypeVar: where, by name."""
    classes, everything = set(), defaultdict(list)
    for place, source in sources.items():
        found, others = defined(source)
        classes.update(found)
        for name in found + others:
            everything[name].append(place)
    return {name: places for name, places in everything.items() if name in classes and len(places) > 1}


def test_no_two_classes_share_a_name():
    found = shared({str(path): path.read_text() for root in ROOTS for path in sorted(root.rglob("*.py"))})
    assert not {name: places for name, places in found.items() if name not in SHARED}, "give each a name of its own"
    assert found.keys() == SHARED.keys(), "no longer shared: take it out of SHARED"


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("class Other: pass", set()),
        ("class Frame: pass", {"Frame"}),
        ("class Other:\n    class Frame: pass", {"Frame"}),
        ("if TYPE_CHECKING:\n    class Frame: pass", {"Frame"}),
        ("Frame = dict[str, int]", {"Frame"}),
        ("Frame: TypeAlias = int", {"Frame"}),
        ("FRAME = 1\nframe = 2", set()),
        ("from first import Frame", set()),
        ("class _Own: pass", set()),
    ],
)
def test_the_rule_itself(second, found):
    assert shared({"first": "class Frame: pass\nclass _Own: pass", "second": second}).keys() == found
