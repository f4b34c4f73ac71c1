"""The import rule: which room of the house may import which. docs/design.md has the same as a map."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import evenflow
import evenflow_lab
from tests.support.rooms import MAY_IMPORT

ROOT, LAB = Path(evenflow.__file__).parent, Path(evenflow_lab.__file__).parent

EVERYBODY = {"errors", "_version"}
DECIDES = {"model", "policy", "control"}
"""Layers that do no I/O and read no clock and no random source."""
EFFECTS = {"socket", "selectors", "time", "random", "threading", "pyspark", "os", "numpy.random"}
DECIDING_MODULES = {"runtime.worker.events", "runtime.worker.moves.movements", "runtime.worker.saving.loads"}
"""The worker's state machines: as pure as `control`, and without pickles and threads; the modules around them act."""
RUNTIME_ONLY = {"socket", "selectors", "pyspark", "py4j"}
"""Only runtime touches sockets and Spark; the lab and cli are users' programs, with a session like any other."""
PROGRAMS = {"lab", "cli"}
EXCEPT = {
    "postgres_link.py": {"socket"},
    "serving.py": {"socket"},
    "database.py": {"socket"},
    "compiled.py": {"time"},
    "pandas_frames.py": {"pyspark"},
}
"""The one cuts a connection of libpq's on which nothing comes, and does nothing else with it. The page's server
and that of a database choose their ports. `compiled` sleeps while another process compiles what this one needs.
`pandas_frames` calls pyspark's conversions, which touch no session."""


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


def room_of(module):
    """The room that a module of Evenflow or its lab, by its dotted name, lies in; itself where it lies at the top."""
    root, *parts = module.split(".")
    parts = ["lab", *parts] if root == "evenflow_lab" else parts
    longest = next((size for size in (2, 1) if ".".join(parts[:size]) in MAY_IMPORT), 1)
    return ".".join(parts[:longest])


def faults(room, source):
    """What `source`, a module of `room`, imports against the rule."""
    found = set()
    layer = room.partition(".")[0]
    for name in imports(source):
        root, _, rest = name.partition(".")
        if root in ("evenflow", "evenflow_lab") and rest:
            other = room_of(name)
            if other not in MAY_IMPORT[room] | {room} | EVERYBODY:
                found.add(f"evenflow.{other}")
        elif root == "evenflow" and layer != "lab" and f"from {name} import" not in source:
            found.add(name)
        if layer in DECIDES:
            found |= among(name, EFFECTS)
        if layer != "runtime" and root in RUNTIME_ONLY - ({"pyspark"} if layer in PROGRAMS else set()):
            found.add(root)
    return found


def among(name, modules):
    """Those of some modules that an import names, or a part of."""
    return {module for module in modules if name == module or name.startswith(f"{module}.")}


def files(room):
    """The modules of a room, without those of the rooms in it."""
    return sorted(path for name, path in MODULES.items() if room_of(name) == room)


def dotted(path):
    parts = path.relative_to(LAB.parent if path.is_relative_to(LAB) else ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {dotted(path): path for root in (ROOT, LAB) for path in root.rglob("*.py")}


def test_every_package_has_a_room():
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"} - {"evenflow"}
    assert {room_of(name) for name in packages} == set(MAY_IMPORT), "give a new package its place in MAY_IMPORT"


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES.values()}), ids=str)
def test_a_folder_can_be_taken_in_at_a_glance(folder):
    assert (folder / "__init__.py").exists(), "without it, the folder is in no wheel"
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= 16, "put what belongs together into a folder of its own"


def test_no_module_is_too_long():
    assert not {name for name, path in MODULES.items() if path.read_text().count("\n") > 400}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_keeps_the_rule(room):
    broken = {path.name: faults(room, path.read_text()) - EXCEPT.get(path.name, set()) for path in files(room)}
    assert not {name: found for name, found in broken.items() if found}


def effects(imported):
    """What a module that decides must not import."""
    return set().union(*(among(name, EFFECTS | {"pickle", "queue", "secrets", "pyarrow"}) for name in imported))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import numpy as np\nnp.random.default_rng()", {"numpy.random"}),
        ("from numpy.random import default_rng", {"numpy.random"}),
        ("import pyarrow.compute as pc\nfrom os.path import join", {"pyarrow", "os"}),
        ("import numpy as np\nfrom timeit import timeit", set()),
    ],
)
def test_effects_are_found(source, found):
    assert effects(imports(source)) == found


@pytest.mark.parametrize("name", sorted(DECIDING_MODULES))
def test_what_decides_in_the_worker_has_no_effects(name):
    found = set(imports(MODULES[f"evenflow.{name}"].read_text()))
    assert not effects(found)
    ours = {module.removeprefix("evenflow.") for module in found if module in MODULES}
    assert {module for module in ours if room_of(f"evenflow.{module}") not in {"model", "errors"}} <= DECIDING_MODULES


def test_no_module_imports_itself_by_way_of_others():
    imported = {name: set(_modules_imported(path.read_text())) - {name} for name, path in MODULES.items()}
    while imported:
        free = {name for name, others in imported.items() if not others & imported.keys()}
        assert free, f"these import each other: {', '.join(sorted(imported))}"
        imported = {name: others for name, others in imported.items() if name not in free}


def _modules_imported(source) -> Iterator[str]:
    """The modules of Evenflow that a source imports, wherever the import stands; packages only for themselves."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                inner = {f"{module}.{name.name}" for name in names}
                yield from inner & MODULES.keys()
                if not inner <= MODULES.keys() and module in MODULES:
                    yield module


@pytest.mark.parametrize("name", ["errors", "_version", "functions", "testing"])
def test_top_level_modules_touch_no_socket_and_no_spark(name):
    roots = {module.partition(".")[0] for module in imports((ROOT / f"{name}.py").read_text())}
    assert not roots & RUNTIME_ONLY


@pytest.mark.parametrize(
    ("room", "source", "found"),
    [
        ("model", "import math", set()),
        ("model", "from evenflow.errors import InvalidArgument", set()),
        ("model", "from evenflow.policy import balance", {"evenflow.policy"}),
        ("policy", "from evenflow.model import Snapshot", set()),
        ("policy", "from evenflow import control", {"evenflow.control"}),
        ("policy", "import evenflow.runtime.worker.loop", {"evenflow.runtime.worker"}),
        ("policy", "if TYPE_CHECKING:\n    from evenflow.control.batches.epochs import Epochs", {"evenflow.control"}),
        ("policy", "def f():\n    import time", {"time"}),
        ("policy.keyed", "from evenflow.policy.ordered.sampling import Sampler", {"evenflow.policy.ordered"}),
        ("policy.keyed", "from numpy import random", {"numpy.random"}),
        ("policy.keyed", "import numpy as np\nnp.random.default_rng()", {"numpy.random"}),
        ("policy.ordered", "import numpy as np", set()),
        ("control", "from os.path import join", {"os"}),
        ("control", "import evenflow", {"evenflow"}),
        ("control", "from evenflow.cli.app import app", {"evenflow.cli"}),
        ("operators", "from evenflow.runtime.wire.frames import Frame", {"evenflow.runtime.wire"}),
        ("operators", "import time", set()),
        ("operators", "from pyspark.sql import DataFrame", {"pyspark"}),
        ("operators", "from evenflow.state.store.base import Store", {"evenflow.state.store"}),
        ("state.store", "import os\nfrom evenflow.errors import StoreError", set()),
        ("state.store", "from evenflow.state.checkpoint import manifest", {"evenflow.state.checkpoint"}),
        ("state.checkpoint", "from evenflow.operators.hosted import units_of", {"evenflow.operators"}),
        ("state.paging", "from evenflow.runtime.worker.rows.instances import Instances", {"evenflow.runtime.worker"}),
        ("rules.language", "from evenflow.rules.windows.views import View", {"evenflow.rules.windows"}),
        ("runtime.feeder", "from evenflow.runtime.worker import loop", {"evenflow.runtime.worker"}),
        ("runtime.feeder", "import socket\nfrom evenflow.runtime.wire.frames import Frame", set()),
        ("runtime.worker", "from evenflow.runtime.feeder.link import Link", {"evenflow.runtime.feeder"}),
        ("runtime.worker", "from evenflow.control.events import Tick", {"evenflow.control"}),
        ("runtime.wire", "from . import frames", {"evenflow"}),
        ("runtime.cluster", "from evenflow_lab.bench.probe import tally", {"evenflow.lab.bench"}),
        ("lab.bench", "from pyspark.sql import DataFrame\nfrom evenflow.runtime.cluster.cluster import Cluster", set()),
        ("lab.bench", "import socket", {"socket"}),
    ],
)
def test_the_rule_itself(room, source, found):
    assert faults(room, source) == found
