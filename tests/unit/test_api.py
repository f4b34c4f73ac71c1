"""The public names, and what importing them costs."""

import importlib
import re
import subprocess
import sys

import pytest

import evenflow as ef
from tests.support.scripts import ROOT

MODULES = ("errors", "functions", "policy", "sim", "testing")
HEAVY = {"matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyspark"}


def loaded(statement):
    """Top-level packages that a fresh interpreter holds after `statement`."""
    code = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_all_is_what_is_exported():
    assert dir(ef) == sorted(ef.__all__)
    assert len(set(ef.__all__)) == len(ef.__all__)


@pytest.mark.parametrize("name", ef.__all__)
def test_every_name_resolves(name):
    assert getattr(ef, name) is not None


def test_no_other_name_does():
    with pytest.raises(AttributeError, match="module 'evenflow' has no attribute 'cluster'"):
        _ = ef.cluster


@pytest.mark.parametrize("module", MODULES)
def test_modules_export_what_they_say(module):
    home = getattr(ef, module)
    for name in home.__all__:
        assert getattr(home, name) is not None


@pytest.mark.parametrize("name", sorted({*ef.functions.__all__} - {"avg"}))
def test_a_function_at_its_old_place_is_deprecated(name):
    with pytest.warns(
        DeprecationWarning, match=rf"evenflow\.{name} is .*: it is evenflow\.functions\.{name} now"
    ) as seen:
        assert getattr(ef, name) is getattr(ef.functions, name)
    assert [each.filename for each in seen] == [__file__]
    assert name not in ef.__all__


PUBLIC = re.compile(r"^\| `(evenflow[.a-z]*)` \| (.*) \|$", re.MULTILINE)


def test_the_api_page_lists_what_is_public():
    page = (ROOT / "docs/api.md").read_text().partition("## What is public")[2].partition("\n## ")[0]
    listed = {module: re.findall(r"`(\w+)`", names) for module, names in PUBLIC.findall(page)}
    assert set(listed) == {"evenflow", *(f"evenflow.{name}" for name in MODULES)}
    for module, names in listed.items():
        assert names == sorted(importlib.import_module(module).__all__)


def test_one_hierarchy_of_errors():
    errors = [value for value in vars(ef.errors).values() if isinstance(value, type)]
    assert len(errors) > 5
    assert all(issubclass(error, ef.EvenflowError) for error in errors)


@pytest.mark.parametrize("module", ["evenflow", "evenflow.runtime.worker.loop", "evenflow.runtime.wire.settings"])
def test_a_worker_stays_small(module):
    assert not loaded(f"import {module}") & HEAVY


def test_importing_the_api_does_not_import_what_only_some_need():
    assert not loaded("import evenflow; evenflow.Cluster") & {"matplotlib", "numba"}
