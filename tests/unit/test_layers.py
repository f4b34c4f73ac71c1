"""The import rule: model <- policy <- control <- operators <- rules and stories <- runtime, and state <- runtime."""

import ast
from pathlib import Path

import pytest

import evenflow

ROOT = Path(evenflow.__file__).parent

MAY_IMPORT = {
    "model": set(),
    "policy": {"model"},
    "control": {"model", "policy"},
    "operators": {"model", "policy", "control"},
    "state": {"model"},
    "rules": {"operators"},
    "stories": {"operators"},
    "workloads": {"model"},
    "runtime": {"model", "policy", "control", "operators", "state", "rules", "stories"},
    "bench": {"model", "policy", "control", "operators", "rules", "stories", "workloads", "runtime"},
    "torture": {"model", "policy", "control", "operators", "state", "runtime"},
}
"""What each layer may import of Evenflow, beside itself."""
EVERYBODY = {"errors", "_version"}
DECIDES = {"model", "policy", "control"}
"""Layers that do no I/O and read no clock and no random source."""
EFFECTS = {"socket", "selectors", "time", "random", "threading", "pyspark", "os", "numpy.random"}
RUNTIME_ONLY = {"socket", "selectors", "pyspark", "py4j"}
"""Only runtime touches sockets and Spark; bench and torture are users' programs, with a session like any other."""
PROGRAMS = {"bench", "torture"}
EXCEPT = {"postgres_link.py": {"socket"}}
"""Cuts a connection of libpq's on which nothing comes, and does nothing else with it."""


def imports(source):
    """Every module that `source` imports, wherever the import stands, `from a import b` as `a.b` too."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                yield str(module)
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom():
                yield "evenflow"  # relative imports hide where they lead: not in this house
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
                yield "numpy.random"


def faults(layer, source):
    """What `source`, a module of `layer`, imports against the rule."""
    found = set()
    for name in imports(source):
        root, _, rest = name.partition(".")
        inner = rest.partition(".")[0]
        if root == "evenflow" and inner in MAY_IMPORT.keys() | EVERYBODY:
            if inner not in MAY_IMPORT[layer] | {layer} | EVERYBODY:
                found.add(f"evenflow.{inner}")
        elif root == "evenflow" and not (rest == "" and f"from {name} import" in source):
            found.add(name)
        if layer in DECIDES:
            found |= {effect for effect in EFFECTS if name == effect or name.startswith(f"{effect}.")}
        if layer != "runtime" and root in RUNTIME_ONLY - ({"pyspark"} if layer in PROGRAMS else set()):
            found.add(root)
    return found


def modules(layer):
    return sorted((ROOT / layer).rglob("*.py"))


def test_every_package_has_a_layer():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(MAY_IMPORT), "give a new package its place in MAY_IMPORT"


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_layer_keeps_the_rule(layer):
    broken = {path.name: faults(layer, path.read_text()) - EXCEPT.get(path.name, set()) for path in modules(layer)}
    assert not {name: found for name, found in broken.items() if found}


@pytest.mark.parametrize("name", ["errors", "_version", "testing"])
def test_top_level_modules_touch_no_socket_and_no_spark(name):
    roots = {module.partition(".")[0] for module in imports((ROOT / f"{name}.py").read_text())}
    assert not roots & RUNTIME_ONLY


@pytest.mark.parametrize(
    ("layer", "source", "found"),
    [
        ("model", "import math", set()),
        ("model", "from evenflow.errors import InvalidArgument", set()),
        ("model", "from evenflow.policy import balance", {"evenflow.policy"}),
        ("policy", "from evenflow.model import Snapshot", set()),
        ("policy", "from evenflow import control", {"evenflow.control"}),
        ("policy", "import evenflow.runtime.worker", {"evenflow.runtime"}),
        ("policy", "if TYPE_CHECKING:\n    from evenflow.control.region import Region", {"evenflow.control"}),
        ("policy", "def f():\n    import time", {"time"}),
        ("policy", "from numpy import random", {"numpy.random"}),
        ("policy", "import numpy as np\nnp.random.default_rng()", {"numpy.random"}),
        ("policy", "import numpy as np", set()),
        ("control", "from os.path import join", {"os"}),
        ("control", "import evenflow", {"evenflow"}),
        ("control", "from evenflow.cli import app", {"evenflow.cli", "evenflow.cli.app"}),
        ("operators", "from evenflow.runtime.frames import Frame", {"evenflow.runtime"}),
        ("operators", "import time", set()),
        ("operators", "from pyspark.sql import DataFrame", {"pyspark"}),
        ("state", "import os\nfrom evenflow.errors import StoreError", set()),
        ("state", "from evenflow.operators.hosted import units_of", {"evenflow.operators"}),
        ("operators", "from evenflow.state.store import Store", {"evenflow.state"}),
        ("runtime", "from evenflow.state.store import Store", set()),
        ("bench", "from pyspark.sql import DataFrame\nfrom evenflow.runtime.cluster import Cluster", set()),
        ("bench", "import socket", {"socket"}),
        ("runtime", "import socket\nfrom evenflow.control.events import Tick", set()),
        ("runtime", "from . import frames", {"evenflow"}),
        ("runtime", "from evenflow.bench.probe import tally", {"evenflow.bench"}),
    ],
)
def test_the_rule_itself(layer, source, found):
    assert faults(layer, source) == found
