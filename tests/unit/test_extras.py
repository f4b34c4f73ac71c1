"""What executors need is all that `pip install evenflow` brings; what only drivers use names its extra."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from evenflow.errors import MissingPackage, extra

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "cli": {"typer", "rich"},
    "dashboard": {"starlette", "uvicorn", "prometheus-client"},
    "plot": {"matplotlib"},
    "postgres": {"psycopg"},
}
REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def without(*extras):
    """The beginning of a program in which packages of these extras cannot be imported, nor scipy."""
    refused = {name.replace("-", "_") for each in extras for name in EXTRAS[each]} | {"scipy"}
    return REFUSE.format(refused=sorted(refused))


def run(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def names(requirements):
    return {Requirement(line).name for line in requirements}


def test_extras_are_these():
    given = PROJECT["optional-dependencies"]
    assert {name: names(given[name]) for name in EXTRAS} == EXTRAS
    assert Requirement(*given["all"]).extras == set(EXTRAS)


def test_executors_need_these():
    core = {"pyspark", "pyarrow", "numpy", "numba", "pandas", "xxhash", "msgspec", "lark"}
    assert names(PROJECT["dependencies"]) == core


ENGINE = """
import evenflow as ef
assert all(getattr(ef, name) is not None for name in ef.__all__)
import evenflow.testing, evenflow.sim, evenflow.policy
from evenflow.runtime.cluster import daemon
daemon.import_all()  # all modules of workers, feeders, operators, rules and graphs
for choice in (ef.policy.BALANCES, ef.policy.KEYED_BALANCES, ef.policy.PLACEMENTS):
    assert len(list(choice.values())) > 5
import evenflow.runtime.cluster.cluster
import evenflow.runtime.cluster.plans.graph_call, evenflow.runtime.cluster.plans.detect
import evenflow.runtime.driver.controller_thread, evenflow.state.store.opening
print("all is there")
"""


def test_the_engine_works_without_the_extras():
    done = run(without(*EXTRAS) + ENGINE)
    assert done.stdout == "all is there\n", done.stderr


@pytest.mark.parametrize(
    ("lacks", "code", "message"),
    [
        (
            "dashboard",
            "import evenflow as ef\nef.Cluster(None, workers=2, dashboard=True)",
            "Cluster(dashboard=...): No module named 'uvicorn'; run `pip install 'evenflow[dashboard]'`",
        ),
        (
            "dashboard",
            "import evenflow.metrics.exposition",
            "metrics for Prometheus: No module named 'prometheus_client'; run `pip install 'evenflow[dashboard]'`",
        ),
        (
            "plot",
            "import evenflow as ef\nef.Graph().plot()",
            "Graph.plot: No module named 'matplotlib'; run `pip install 'evenflow[plot]'`",
        ),
        (
            "postgres",
            "from evenflow.state.store.opening import open_store\nopen_store('postgresql://host/db')",
            "postgresql://host/db: No module named 'psycopg'; run `pip install 'evenflow[postgres]'`, on all hosts",
        ),
    ],
    ids=["page", "metrics", "plot", "postgres"],
)
def test_what_is_missing_is_named(lacks, code, message):
    done = run(without(lacks) + code)
    assert done.stderr.splitlines()[-1] == f"evenflow.errors.MissingPackage: {message}"


COMMAND = "\nfrom evenflow.cli import main\nmain()"


@pytest.mark.parametrize(
    ("lacks", "arguments", "message"),
    [
        ("cli", ["--version"], "the command line: No module named 'typer'; run `pip install 'evenflow[cli]'`"),
        (
            "plot",
            ["plot", "x.jsonl"],
            "evenflow plot: No module named 'matplotlib'; run `pip install 'evenflow[plot]'`",
        ),
        ("plot", ["demo"], "evenflow demo: No module named 'matplotlib'; run `pip install 'evenflow[all]'`"),
        (
            "dashboard",
            ["dashboard", "x.jsonl"],
            "evenflow dashboard: No module named 'uvicorn'; run `pip install 'evenflow[dashboard]'`",
        ),
        (
            "dashboard",
            ["metrics", "x.jsonl"],
            "metrics for Prometheus: No module named 'prometheus_client'; run `pip install 'evenflow[dashboard]'`",
        ),
    ],
    ids=["command", "plot", "demo", "dashboard", "metrics"],
)
def test_a_verb_says_in_a_line_what_it_lacks(lacks, arguments, message):
    done = run(without(lacks) + COMMAND, *arguments)
    assert (done.returncode, done.stderr) == (1, f"error: {message}\n")


def test_the_command_line_needs_no_other_extra():
    done = run(without("dashboard", "plot", "postgres") + COMMAND, "simulate", "--help")
    assert done.returncode == 0, done.stderr


def test_an_error_of_the_import_itself_is_kept():
    broken = ImportError("no pq wrapper")
    with (
        pytest.raises(MissingPackage, match=r"x: no pq wrapper; run `pip install 'evenflow\[y\]'`") as said,
        extra("y", "x"),
    ):
        raise broken
    assert said.value.__cause__ is broken
    with pytest.raises(ValueError, match="other"), extra("y", "x"):
        raise ValueError("other")
