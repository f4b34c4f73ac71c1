"""What `python -m build` gives: a wheel and an sdist that hold all they must, and work where nothing else is."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pyarrow
import pytest

import evenflow
from tests.support.scripts import ROOT

SEMANTIC = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?"
BUILT_FROM = ["pyproject.toml", "README.md", "LICENSE"]
NEEDED_SETUPTOOLS = 77
"""Older ones do not read our pyproject.toml; then `build` fetches one from the package registry."""


def run(*command, **options):
    """What a command prints, errors included; it has to end well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, **options)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist, and the wheel that was made from it; built from a copy, so that nothing is left."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    left = shutil.ignore_patterns("__pycache__", "*.egg-info")  # what an earlier build has noted would count again
    shutil.copytree(ROOT / "src", source / "src", ignore=left)
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, source)
    here = [] if int(version("setuptools").split(".")[0]) < NEEDED_SETUPTOOLS else ["--no-isolation"]
    run(sys.executable, "-m", "build", *here, "--outdir", str(folder / "dist"), str(source), cwd=folder)
    return folder / "dist"


def wheel_of(built):
    (wheel,) = built.glob("*.whl")
    return wheel


def test_all_files_of_the_package_are_in_both(built):
    """Grammars, settings, marks, pages: whatever lies in the source folder, so that no new kind is forgotten."""
    package = ROOT / "src" / "evenflow"
    files = {path.relative_to(package.parent).as_posix() for path in package.rglob("*.*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    assert {"evenflow/py.typed", "evenflow/rules/language/grammar.lark"} < files
    assert "evenflow/runtime/cluster/spark/log4j2.properties" in files
    packed = set(zipfile.ZipFile(wheel_of(built)).namelist())
    assert files - packed == set()
    assert {name for name in packed if not name.startswith(("evenflow/", "evenflow-"))} == set()
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"src/{name}" for name in files} | {"README.md", "LICENSE", "pyproject.toml"} <= inside


def test_what_it_says_of_itself(built):
    wheel = zipfile.ZipFile(wheel_of(built))
    (name,) = (name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
    about = email.message_from_bytes(wheel.read(name))
    assert about["Version"] == evenflow.__version__
    assert about["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert about.get_all("License-File") == ["LICENSE"]
    assert name.replace("METADATA", "licenses/LICENSE") in wheel.namelist()


def test_version_is_semantic():
    assert re.fullmatch(SEMANTIC, evenflow.__version__)


def test_wheel_works_in_a_new_environment(built, tmp_path):
    """It gets the dependencies from this environment, and Evenflow from the wheel alone."""
    made = tmp_path / "environment"
    venv.create(made)
    python = made / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel_of(built))
    )
    (packages,) = made.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(pyarrow.__file__).parents[1]}\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = run(str(python), "-c", "import evenflow; print(evenflow.__file__)", cwd=empty, env=clean)
    assert Path(where.strip()).is_relative_to(made)
    names = "import evenflow as ef; print(*(getattr(ef, name) for name in ef.__all__))"
    assert "Cluster" in run(str(python), "-c", names, cwd=empty, env=clean)
    assert "demo" in run(str(made / "bin" / "evenflow"), "--help", cwd=empty, env=clean)
    assert list(empty.iterdir()) == []
