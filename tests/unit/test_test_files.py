"""What the tests may import: no test file imports another, helpers live in tests/support and tests/differential."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
HELPERS = {"support", "differential"}
FILES = sorted(TESTS.rglob("*.py"))


def imported(path):
    """Names of modules under tests that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names if f"{node.module}.".startswith("tests."))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tests."))


def test_only_helpers_are_imported():
    for path in FILES:
        others = [name for name in imported(path) if name.split(".")[1] not in HELPERS]
        assert not others, f"{path} imports {others}: move what it needs to tests/support"


def test_helpers_are_no_tests_and_tests_are_no_helpers():
    for path in FILES:
        home = path.relative_to(TESTS).parts[0]
        allowed = path.name.startswith("test_") != (home in HELPERS) or path.name in ("__init__.py", "conftest.py")
        assert allowed, f"{path}: helpers live in {sorted(HELPERS)}, tests elsewhere, as test_*.py"
