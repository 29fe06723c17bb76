"""The guide names the columns that the tables have."""

import re
from pathlib import Path

import pytest

from headrace.pipeline.tables.layouts import LAYOUTS, STATS_COLUMNS

GUIDE = (Path(__file__).parents[2] / "docs/how-to/pipelines.md").read_text("utf-8")
TABLES = {name: {*LAYOUTS[name].schema.names} for name in ("attempts", "errors", "usage", "changes", "freshness")} | {
    "stats": {"day", *STATS_COLUMNS.names}
}


def documented_columns(name: str) -> set[str]:
    """The columns that the guide tells of a table."""
    section = re.search(rf"^### {name}\n(.*?)^##", GUIDE, re.MULTILINE | re.DOTALL)
    assert section is not None
    cells = [line.split("|")[1] for line in section[1].splitlines() if line.startswith("| `")]
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


@pytest.mark.parametrize("name", TABLES)
def test_the_guide_tells_of_every_column_of_a_table_and_of_no_other(name: str) -> None:
    assert documented_columns(name) == TABLES[name]
