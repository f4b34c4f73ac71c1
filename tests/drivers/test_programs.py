"""Every Python block of the README and of docs/ runs, the notebook too, and every example prints what it should."""

import json

import pytest

from tests.support.pages import pages, program_of, program_of_notebook
from tests.support.scripts import ROOT, Script

NOTEBOOK = ROOT / "examples" / "hot_keys.ipynb"
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
PROGRAMS = {
    **{f"example-{name}": path.read_text() for name, path in EXAMPLES.items()},
    **{f"page-{name}": program_of(path) for name, path in pages().items()},
    "notebook": program_of_notebook(NOTEBOOK),
}
START = "from tests.support.programs import main\n\nmain({folders!r})\n"

EACH_S = 300.0
"""How long one program may take on two busy cores; most take a few seconds."""

pytestmark = pytest.mark.timeout(2400)  # the first test waits for all of them


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder in which all programs have run, one after the other in one process, which left nothing behind."""
    folder = tmp_path_factory.mktemp("programs")
    for name, source in PROGRAMS.items():
        (folder / name).mkdir()
        (folder / name / "program.py").write_text(source)
    source = START.format(folders=[str(folder / name) for name in PROGRAMS])
    with Script(source, folder, PYTHONPATH=f"{ROOT}:{ROOT / 'src'}") as script:
        for name in PROGRAMS:
            script.wait_for(f"{name} ", EACH_S)
        script.finish()
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_ends_well(ran, name):
    error = ran / name / "error.txt"
    assert not error.exists(), (
        f"{name} failed:\n{error.read_text()}\nIt printed:\n{(error.parent / 'output.txt').read_text()}"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_prints_what_it_should(ran, name):
    assert (ran / f"example-{name}" / "output.txt").read_text() == EXAMPLES[name].with_suffix(".out").read_text()


def test_notebook(ran):
    """It is kept without outputs, shows the cluster as HTML, and finds what Spark SQL finds."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs")] == [], "clear the outputs before you commit it"
    printed = (ran / "notebook" / "output.txt").read_text()
    assert "2 of 2 live" in printed
    assert "differ from Spark SQL: 0\n" in printed
