"""Locates the history, tables and report in the data folder of a pipeline."""

from pathlib import Path

from msgspec import Struct

from headrace.pipeline.storage.location import Location

TABLES = ("jobs", "attempts", "stats", "errors", "usage", "changes", "freshness", "findings")
"""The names of the tables; each is a folder."""
GENERATIONS = "generations"
"""The table of open lives, from which the next update of the table of jobs continues."""


class DataDir(Struct, frozen=True):
    """The data folder, on a disk that all machines see or on object storage."""

    folder: Path | Location

    @property
    def path(self) -> Path:
        """The folder on a local disk; `BadConfig` for object storage."""
        return Location.parse(self.folder).path

    @property
    def history(self) -> Location:
        """The table of events."""
        return Location.parse(self.folder).child("history")

    @property
    def report(self) -> Path:
        """The HTML report; on a local disk only."""
        return self.path / "report.html"

    def location(self, name: str) -> Location:
        """The location of a table."""
        if name not in (*TABLES, GENERATIONS):
            raise ValueError(f"{name} is not a table; tables: {', '.join(TABLES)}")
        return Location.parse(self.folder).child(name)

    def table(self, name: str) -> Path:
        """The folder of a table on a local disk."""
        return self.location(name).path
