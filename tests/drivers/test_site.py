"""The site of the docs is built without a warning, and fetches nothing from elsewhere."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.scripts import ROOT

FETCHED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\brel="(?:stylesheet|preconnect)"[^>]*\bhref="([^"]+)"'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site):
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in ROOT.glob("docs/**/*.md")}
    assert pages <= {page.relative_to(site).with_suffix("") for page in site.glob("**/*.html")}


def test_nothing_comes_from_elsewhere(site):
    found = {first or second for page in site.glob("**/*.html") for first, second in FETCHED.findall(page.read_text())}
    assert any(name.endswith(".css") for name in found)
    assert {name for name in found if "//" in name} == set()


def test_the_reference_has_every_public_name(site):
    """By its heading, so that nothing public is without a docstring that can be read there."""
    import evenflow as ef

    reference = (site / "api.html").read_text()
    named = {
        name for name in ef.__all__ if name not in ("__version__", "errors", "functions", "policy", "sim", "testing")
    }
    assert {name for name in named if not re.search(rf'<h\d id="[\w.]+\.{name}"', reference)} == set()
