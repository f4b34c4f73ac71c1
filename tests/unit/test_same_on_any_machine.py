"""What decides or simulates uses nothing whose last bit, or whose order, is the processor's or the process's own."""

import ast
from pathlib import Path

import pytest

import evenflow
import evenflow_lab

ROOT, LAB = Path(evenflow.__file__).parent, Path(evenflow_lab.__file__).parent
PACKAGES = [ROOT / name for name in ("model", "policy", "control", "workloads", "sim")]
FILES = sorted(
    file for package in (*PACKAGES, LAB / "workloads", LAB / "experiments") for file in package.rglob("*.py")
)
BY_PROCESSOR = {"dot", "vdot", "inner", "matmul", "tensordot", "einsum", "fastmath", "fma"}
"""BLAS and einsum add in the order that suits the processor; `(a * b).sum()` adds in the same order everywhere."""
BY_PROCESS = {"hash", "id"}
"""Of texts and objects: another number in every process."""


def found_in(text):
    """What a module uses of these, with its line."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                yield node.lineno, "@"
            case ast.Attribute(attr=name) | ast.keyword(arg=name) if name in BY_PROCESSOR:
                yield node.value.lineno, name
            case ast.Call(func=ast.Name(id=name)) if name in BY_PROCESS:
                yield node.lineno, name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a @ b", ["@"]),
        ("a @= b", ["@"]),
        ("np.einsum('i,i->', a, b)", ["einsum"]),
        ("njit(f, fastmath=True)", ["fastmath"]),
        ("sorted(names, key=lambda name: hash(name))", ["hash"]),
        ("(a * b).sum(); self.id; node.hash", []),
    ],
)
def test_the_search_finds(text, found):
    assert [name for _, name in found_in(text)] == found


def test_sums_and_orders_are_the_same_everywhere():
    assert len(FILES) > 100
    used = [f"{file}:{line}: {name}" for file in FILES for line, name in found_in(file.read_text())]
    assert used == [], "write (a * b).sum(), or give things an order of their own"
