"""The README's own programs: a first job on SQLite, then its journal in Spark, typed off the page."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_journal_of_the_readmes_first_job_is_what_its_spark_block_shows(tmp_path: Path) -> None:
    first, spark = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    programs = (first.replace("memory://", "sqlite:///headrace.db"), spark)

    told = [
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for program in programs
    ]

    assert told[0].splitlines() == [
        "created",
        "welcome b'{\"user_id\": 42}'",
        "1 enqueued user-42",
        "2 claimed user-42",
        "3 done user-42",
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in told[1].splitlines() if "acme" in line]
    assert sorted(rows) == [
        ["acme", "mail", "NULL", "claimed", "1"],
        ["acme", "mail", "welcome", "done", "1"],
        ["acme", "mail", "welcome", "enqueued", "1"],
    ]
