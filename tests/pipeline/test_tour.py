"""The example that is read like a notebook runs from top to bottom, and shows what it says."""

import logging
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest
from pyspark.sql import SparkSession

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


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """The tour silences a log, which other tests read."""
    log = logging.getLogger("headrace")
    level = log.level
    yield
    log.setLevel(level)


def test_the_tour_shows_rows_that_become_jobs_and_everything_that_happened(
    spark: SparkSession, quiet_log: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the Spark of all tests; `make test-examples` runs it as a notebook of its own."""
    run_path(str(EXAMPLE))

    for view in ("dead", "followed"):
        spark.catalog.dropTempView(view)
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith(("+", "|", "\n"))) == TOLD
    assert "|failed|no codec for p4.raw|p4.raw|\n" in lines
    assert '|done|{"count":6}|\n' in lines


def test_the_notebook_has_the_cells_of_the_program() -> None:
    assert main([]) == 0
