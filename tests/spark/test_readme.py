"""The README's example runs as pasted."""

import re

import pyarrow.parquet as pq

from tests.spark.processes import ROOT, Script


def test_readme_example(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, "README.md shows no example"
    with Script(blocks[0], tmp_path) as script:
        output = script.finish()
    assert "Traceback" not in output
    written = [folder for folder in tmp_path.iterdir() if folder.is_dir() and (folder / "_SUCCESS").exists()]
    assert written, f"the example wrote nothing; it printed:\n{output}"
    assert pq.read_table(written[0]).num_rows > 0
