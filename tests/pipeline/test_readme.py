"""The README's own programs: a first job on SQLite, then its journal in Spark, typed off the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


def test_the_first_program_is_the_first_example() -> None:
    example = (ROOT / "examples/first_job.py").read_text("utf-8")

    assert "headrace.pipeline" in PROGRAMS[-1]
    assert example.partition('"""\n\n')[2] == PROGRAMS[0]


def test_the_journal_of_the_readmes_first_job_is_what_its_spark_block_shows(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "HEADRACE_URL"}

    told = [
        subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        ).stdout
        for program in (PROGRAMS[0], PROGRAMS[-1])
    ]

    assert told[0] == "welcomed user 42\n"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in told[1].splitlines() if "mail" in line]
    assert sorted(rows) == [
        ["default", "mail", "NULL", "claimed", "1"],
        ["default", "mail", "welcome", "done", "1"],
        ["default", "mail", "welcome", "enqueued", "1"],
    ]
