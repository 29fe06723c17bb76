"""The example that is read like a notebook runs from top to bottom, and shows what it says."""

import os
import subprocess
import sys
from pathlib import Path

from tools.notebook import main

EXAMPLE = Path(__file__).parents[2] / "examples/spark_tour.py"
TOLD = """\
written:  of 6 rows 6 created
again:    of 6 rows 6 duplicate
drained:  of 6 rows 6 duplicate
widths:   [200, 400, 600, 1000, 1200]
replayed: of 1 rows 1 replayed
batches:  [10, 10, 1] lag 0
the same: True
published: of 2 rows 2 written
again:     of 2 rows 2 unchanged
"""


def test_the_tour_shows_rows_that_become_jobs_and_everything_that_happened(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "HEADRACE_URL"}

    done = subprocess.run([sys.executable, EXAMPLE], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith(("+", "|", "\n"))) == TOLD
    assert "|failed|no codec for p4.raw|p4.raw|\n" in lines
    assert '|done|{"count":6}|\n' in lines


def test_the_notebook_has_the_cells_of_the_program() -> None:
    assert main([]) == 0
