"""Every Python block of the README and of docs/ runs, and every example prints what it should."""

import json

import pytest

from tests.support.pages import pages, program_of
from tests.support.scripts import ROOT, Script

EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
PROGRAMS = {
    **{f"example-{name}": path.read_text() for name, path in EXAMPLES.items()},
    **{f"page-{name}": program_of(path) for name, path in pages().items()},
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


def test_notebook_runs(tmp_path):
    """In a kernel of its own, with a session of its own; cells that check something raise if it is not so."""
    import nbformat
    from nbclient import NotebookClient

    path = ROOT / "examples" / "hot_keys.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert [cell for cell in notebook.cells if cell.get("outputs")] == [], "clear the outputs before you commit it"
    nbformat.validate(json.loads(path.read_text()))
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = [out.text for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs if "text" in out]
    assert "differ from Spark SQL: 0\n" in "".join(printed)
