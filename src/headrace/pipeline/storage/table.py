"""Opens tables: committed files count, and those that the tasks of a failed run have written do not."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from headrace.model.errors import BadConfig
from headrace.pipeline.storage.layout import Batch, Condition, DataFile, Layout, TableVersion
from headrace.pipeline.storage.location import Location, storage_errors

if TYPE_CHECKING:  # a command looks at a table before it waits for Spark to load
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.storage.compact import Compacted

Form = Literal["delta", "parquet"]
FORMS: tuple[str, ...] = get_args(Form)


class Conflict(BadConfig):
    """Another writer has committed the same batch, or dropped a file that a commit was to replace."""


class TransactionLog(Protocol):
    """Says which files a table has: each commit is seen whole or not at all."""

    form: Form
    write_location: Location
    """Where tasks write."""

    def create(self, layout: Layout) -> None:
        """Make the table unless it is there, and add the columns that it lacks."""

    def load(self, number: int | None = None) -> TableVersion | None:
        """The newest version, or the one of this number; None when there is no table."""

    def commit(
        self,
        files: Sequence[DataFile],
        replace: Sequence[DataFile],
        batch: Batch | None,
        state: Any,
        *,
        is_change: bool,
    ) -> None:
        """Add and drop files in one step; without a change of rows it is a compaction."""

    def vacuum(self, hours: int) -> int:
        """Remove files that no version of the last hours needs, and say how many."""


class DataTable:
    """A table in a folder; `open_table` gives one."""

    def __init__(self, location: Location, layout: Layout, log: TransactionLog) -> None:
        self.location = location
        self.layout = layout
        self._log = log

    @property
    def form(self) -> Form:
        """How the log is kept."""
        return self._log.form

    @property
    def write_location(self) -> Location:
        """Where tasks write: `commit` finds the files there."""
        return self._log.write_location

    def prepare(self) -> TableVersion:
        """Make the table if it is new, add the columns of the layout that it lacks, and give its newest version."""
        self.check()
        self._log.create(self.layout)
        made = self.version()
        assert made is not None, "a table that was made is there"
        return made

    def check(self) -> None:
        """Raise `BadConfig` for a folder that holds something else, and for a table with other partitions."""
        now = self.version()
        if now is None:
            _check_empty(self.location)
        elif now.partition_by != self.layout.partition_by:
            raise BadConfig(
                f"the table in {self.location} is partitioned by {_names(now.partition_by)}, and"
                f" {_names(self.layout.partition_by)} was asked for; use another folder"
            )

    def version(self) -> TableVersion | None:
        """The newest version; None when there is no table."""
        return self._log.load()

    def commit(
        self,
        files: Sequence[DataFile],
        *,
        replace: Sequence[DataFile] = (),
        batch: Batch | None = None,
        state: Any = None,
        is_change: bool = True,
    ) -> None:
        """Add files in place of others, in one transaction, with the number of a batch and what belongs to it.

        Raises `Conflict` when the application has committed this batch or a later one, or when a file of `replace` is
        no longer in the table; then nothing has changed.
        """
        self._log.commit(files, replace, batch, state, is_change=is_change)

    def read(self, spark: "SparkSession", columns: Sequence[str] = (), where: Sequence[Condition] = ()) -> "DataFrame":
        """The rows for which all conditions hold, with these columns or with all, as of now.

        Only files that may hold such rows are opened; filters that follow skip files and row groups as well.
        """
        from headrace.pipeline.storage.read import read_version

        now = self.version()
        if now is None:
            raise BadConfig(f"there is no table in {self.location}; check the path")
        return read_version(spark, self.location, now, columns, where)

    def compact(self, where: Sequence[Condition] = (), **options: Any) -> "Compacted":
        """Merge small files of each partition; `where` names partitions, and the options are `compact_table`'s."""
        from headrace.pipeline.storage.compact import compact_table

        return compact_table(self, where=where, **options)

    def vacuum(self, hours: int = 168) -> int:
        """Remove files that no reader of the last hours needs, and those that failed runs have left; say how many."""
        return self._log.vacuum(hours)


def open_table(location: Location, layout: Layout, form: Form | None = None) -> DataTable:
    """The table in a folder, which need not be there yet; `form` as in `open_log`."""
    return DataTable(location, layout, open_log(location, form))


def open_log(location: Location, form: Form | None = None) -> TransactionLog:
    """The log of the table in a folder, which need not be there yet.

    `form` is how a new one is kept: `delta`, or on a local disk `parquet`. When it is None: as the one that is there,
    else delta if the package deltalake is installed.
    """
    if form is not None and form not in FORMS:
        raise BadConfig(f"form is {form!r}; give {' or '.join(FORMS)}")
    if form == "parquet" and not location.is_local:
        raise BadConfig(f"the form parquet is for local disks, and {location} is on object storage; use delta")
    found = form_of(location) if location.is_local else "delta"
    if form is not None and found is not None and form != found:
        raise BadConfig(f"the table in {location} is kept as {found}, and {form} was asked for; use another folder")
    kept = form or found or ("delta" if find_spec("deltalake") is not None else "parquet")
    if kept == "parquet":
        from headrace.pipeline.storage.parquet import ParquetLog

        return ParquetLog(location)
    if find_spec("deltalake") is None:
        raise BadConfig(
            f"a Delta table ({location}) needs the package deltalake; install it with pip install 'headrace[delta]'"
        )
    from headrace.pipeline.storage.delta import DeltaLog

    return DeltaLog(location)


def form_of(location: Location) -> Form | None:
    """How the table in a folder is kept; None when there is none."""
    from pyarrow.fs import FileType

    with storage_errors(location):
        files, folder = location.filesystem()
        delta, parquet = files.get_file_info([f"{folder}/_delta_log", f"{folder}/_table.json"])
    if delta.type is not FileType.NotFound:
        return "delta"
    return "parquet" if parquet.type is FileType.File else None


def crash_point(step: str, batch: int) -> None:
    """Called as each step of a batch or a compaction is over: where a test may stop or kill the process."""


def _check_empty(location: Location) -> None:
    from pyarrow.fs import FileSelector

    with storage_errors(location):
        files, folder = location.filesystem()
        found_files = files.get_file_info(FileSelector(folder, allow_not_found=True))
    names = [each.base_name for each in found_files]
    found = sorted(name for name in names if not name.startswith(("_", ".")))
    if any(name.endswith(".parquet") or "=" in name for name in found):
        raise BadConfig(f"{location} holds files of a table whose log is missing; restore it, or use a new folder")
    if found:
        raise BadConfig(f"{location} holds something else ({found[0]!r}); name a folder that is new or empty")


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "nothing"
