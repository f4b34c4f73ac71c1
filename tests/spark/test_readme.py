"""The README's examples run as pasted."""

import re

import pyarrow.parquet as pq
import pytest

from tests.spark.processes import ROOT, Script

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", [0, 1])
def test_readme_example(tmp_path, block):
    with Script(BLOCKS[block], tmp_path) as script:
        output = script.finish()
    assert "Traceback" not in output
    written = [folder for folder in tmp_path.iterdir() if folder.is_dir() and (folder / "_SUCCESS").exists()]
    assert written, f"the example wrote nothing; it printed:\n{output}"
    assert pq.read_table(written[0]).num_rows > 0
