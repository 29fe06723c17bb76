"""The folder that holds what the pipeline has made: the history of events, tables, and the report."""

from pathlib import Path

from msgspec import Struct

from headrace.pipeline.storage.location import Location

TABLES = ("jobs", "attempts", "stats", "errors", "usage")
"""Tables by name; each is a folder of its own."""
LIVES = "lives"
"""The table that holds what the next run of jobs needs of the earlier ones."""


class DataDir(Struct, frozen=True):
    """Where everything lies in the folder `folder`."""

    folder: Path

    @property
    def history(self) -> Path:
        """The events: Parquet files by day and queue, or a Delta table."""
        return self.folder / "history"

    @property
    def report(self) -> Path:
        """The page that shows them."""
        return self.folder / "report.html"

    def table(self, name: str) -> Path:
        """The folder of a table."""
        if name not in (*TABLES, LIVES):
            raise ValueError(f"{name} is not a table; tables: {', '.join(TABLES)}")
        return self.folder / name

    def location(self, name: str) -> Location:
        """Where a table lies."""
        return Location.parse(self.table(name))
