"""The scripts work in a folder of any name."""

import os
import shlex
import shutil
import subprocess

from tests.support.scripts import ROOT

STUB = """#!/bin/sh
printf '%s\\n' "$JAVA_TOOL_OPTIONS" >>"$NOTES"
"""


def test_java_finds_the_archive_of_classes_in_a_folder_with_spaces(tmp_path):
    """Java splits JAVA_TOOL_OPTIONS at spaces, as a shell does: what a part of the tests is started with is noted."""
    folder, notes = tmp_path / "a folder of mine", tmp_path / "notes"
    for name in (".venv/bin/python", "java/bin/java"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    shutil.copy(ROOT / "scripts/test.sh", folder)
    environment = os.environ | {"JAVA_HOME": str(folder / "java"), "NOTES": str(notes), "JAVA_TOOL_OPTIONS": ""}
    subprocess.run(["bash", "test.sh"], cwd=folder, env=environment, check=True, capture_output=True)
    options = shlex.split(notes.read_text().splitlines()[-1])
    (archive,) = (option for option in options if option.startswith("-XX:SharedArchiveFile="))
    assert archive.startswith(f"-XX:SharedArchiveFile={folder}/.venv/spark-classes-")
    assert all(option.startswith("-X") for option in options)
