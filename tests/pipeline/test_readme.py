"""The README's own programs: a first job on SQLite, then its journal in Spark, typed off the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


def test_the_first_program_is_the_first_example() -> None:
    example = (ROOT / "examples/first_job.py").read_text("utf-8")

    assert "headrace.pipeline" in PROGRAMS[-1]
    assert example.partition('"""\n\n')[2] == PROGRAMS[0]


def test_the_journal_of_the_readmes_first_job_is_what_its_spark_block_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "HEADRACE_URL"}

    ran = subprocess.run([sys.executable, "-c", PROGRAMS[0]], cwd=tmp_path, env=env, capture_output=True, check=True)
    assert PROGRAMS[-1].count("sqlite:///headrace.db") == 1
    # In the Spark of all tests, which has started in another folder.
    exec(PROGRAMS[-1].replace("sqlite:///", f"sqlite:///{tmp_path}/"), {})  # noqa: S102  (ours)

    assert ran.stdout == b"welcomed user 42\n"
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "mail" in line]
    assert sorted(rows) == [
        ["default", "mail", "NULL", "claimed", "1"],
        ["default", "mail", "welcome", "done", "1"],
        ["default", "mail", "welcome", "enqueued", "1"],
    ]
