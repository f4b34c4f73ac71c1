"""The README's examples run as pasted."""

import re

import pyarrow.parquet as pq
import pytest

from tests.support.scripts import ROOT, Script

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


ENDING = [block for block in BLOCKS if "supervise" not in block]


@pytest.mark.timeout(500)
def test_readme_examples(tmp_path):
    """One after the other: each starts a session and stops it."""
    with Script("\n".join(ENDING), tmp_path) as script:
        output = script.finish()
    assert "Traceback" not in output
    written = {folder.name for folder in tmp_path.iterdir() if folder.is_dir() and (folder / "_SUCCESS").exists()}
    assert written == {"scored", "means", "alerts", "joined"}, f"not all is there; printed was:\n{output}"
    for name in written:
        assert pq.read_table(tmp_path / name).num_rows > 0
