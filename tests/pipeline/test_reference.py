"""The reference page knows every option and every column, and no others."""

import re
from pathlib import Path

import pytest

from headrace.pipeline.source import options
from headrace.pipeline.source.schema import TABLES
from headrace.pipeline.source.write.making import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs/spark.md").read_text("utf-8")


def section(title: str) -> str:
    """The text under a heading, up to the next one of its kind."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def named(text: str) -> set[str]:
    """What stands in code."""
    return set(re.findall(r"`(\w+)`", text))


def first_cells(text: str) -> set[str]:
    """What stands in code in the first cell of a table's row."""
    return {name for row in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE) for name in named(row)}


def test_every_option_of_a_read_has_a_row_and_no_other_has() -> None:
    known = {*options._COMMON, *(name for names in options._READ.values() for name in names)}

    assert first_cells(section("Reading: options")) | {"maxOffsetsPerTrigger"} == known


@pytest.mark.parametrize(
    ("what", "title"), [("jobs", "Writing jobs"), ("dead", "Replaying dead letters"), ("feed", "Publishing to feeds")]
)
def test_every_option_of_a_write_is_named(what: str, title: str) -> None:
    assert set(options._WRITE[what]) - {"feed"} <= named(section(title))


@pytest.mark.parametrize(
    ("what", "title"),
    [("journal", "The journal"), ("jobs", "Jobs"), ("results", "Results"), ("dead", "Dead letters"), ("feed", "Feeds")],
)
def test_every_column_of_a_table_is_named(what: str, title: str) -> None:
    assert set(TABLES[what].names) <= named(section(title))


def test_every_column_of_a_job_that_is_written_is_named() -> None:
    assert set(COLUMNS) <= named(section("Writing jobs"))
