"""What `make setup` installs can be installed with every Python that pyproject.toml allows."""

import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


def test_pinned_packages_allow_the_oldest_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pins = [line.split("==") for line in (ROOT / "requirements.lock").read_text().split() if "==" in line]
    assert len(pins) > 100
    for name, version in pins:
        found = distribution(name)
        assert found.version == version, f"{name}: run `make setup`"
        needs = found.metadata.get("Requires-Python", "")
        assert SpecifierSet(needs).contains(oldest), f"{name} {version} needs Python {needs}: pin an older one"
