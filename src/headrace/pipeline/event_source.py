"""Reads the events for tables from the history if there is one, else from the store's journal."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.redact import redact_url
from headrace.model.validate import bounded_repr
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.source.options import ALL, SourceOptions

if TYPE_CHECKING:  # a command reads the origin before Spark is imported
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.storage.layout import Condition

Origin = Literal["history", "journal"]


class Events(Struct, frozen=True):
    """Events with the columns of the journal, and their origin."""

    rows: "DataFrame | None"
    """All of them; None of a history, of which each reader opens the batches that it needs."""
    origin: Origin
    of: str
    """The folder of the history, or the store without its secrets."""
    source: str = ""
    """Identifies history, tenant and queues: a table is updated from events of the same source only."""
    head: int | None = None
    """The last batch of the history; None for a journal, from which tables are always rebuilt."""
    read: "Callable[[int, int], DataFrame] | None" = None
    """Reads the events of batches after the first number, up to the second."""

    @property
    def frame(self) -> "DataFrame":
        """All of them."""
        if self.rows is not None:
            return self.rows
        assert self.read is not None and self.head is not None, "events without rows are those of a history"  # noqa: PT018
        return self.read(-1, self.head)

    def between(self, after: int, upto: int) -> "DataFrame":
        """The events of batches after `after`, up to `upto`."""
        if self.read is not None:
            return self.read(after, upto)
        return self.frame.where((self.frame.batch > after) & (self.frame.batch <= upto))


def events(
    spark: "SparkSession",
    url: str | None,
    data_dir: DataDir,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    origin: Origin | None = None,
) -> Events:
    """The events of a tenant and of queues (a name, several with commas between them, or `*`).

    From `origin`; when that is None, from the folder's history if it has one, else from the journal of the store at
    `url`. The history goes further back than the journal; the journal has the latest events.
    """
    from headrace.pipeline.history.table import open_newest, read_history, read_state

    if origin is not None and origin not in get_args(Origin):
        raise BadConfig(f"origin is {bounded_repr(origin)}; give {' or '.join(get_args(Origin))}")
    if (origin or default_origin(data_dir)) == "journal":
        if url is None:
            raise BadConfig(f"there is no history in {data_dir.folder}; give the store whose journal to read")
        return Events(read_journal(spark, url, tenant=tenant, queue=queue), "journal", redact_url(url))
    _ = open_newest(data_dir.history)
    state = read_state(data_dir.history)
    head = -1 if state is None else state.batch
    selected: list[Condition] = [] if tenant == ALL else [("tenant", "=", tenant)]
    if queue != ALL:
        selected.append(("queue", "in", [name.strip() for name in queue.split(",")]))

    def between(after: int, upto: int) -> "DataFrame":
        batches: list[Condition] = [("batch", ">", after), ("batch", "<=", upto)]
        return read_history(spark, data_dir.history, where=[*batches, *selected])

    source = history_source(data_dir, tenant, queue)
    # Up to a known batch, since a writer may add more meanwhile.
    return Events(None, "history", str(data_dir.history), source=source, head=head, read=between)


def history_source(data_dir: DataDir, tenant: str = ALL, queue: str = ALL) -> str:
    """The name of the events of a tenant and queues in a folder's history, which tables store as their source."""
    from headrace.pipeline.storage.location import Location
    from headrace.pipeline.storage.table import open_log

    now = open_log(Location.parse(data_dir.history)).load()
    # A new history in the same folder numbers its batches from the first again.
    return f"history {'' if now is None else now.id} of {tenant}/{queue}"


def read_journal(spark: "SparkSession", url: str, *, tenant: str = ALL, queue: str = ALL) -> "DataFrame":
    """The journal of the store at `url`, by default of all tenants and queues."""
    from headrace.pipeline.source.store_access import check_master

    check_master(url, spark)
    options = {"url": url, "tenant": tenant, "queue": queue}
    # Spark would wrap the same errors in a traceback.
    SourceOptions.parse(options)
    return spark.read.format("headrace").options(**options).load()


def default_origin(data_dir: DataDir) -> Origin:
    """The history if it has events, else the store's journal."""
    if data_dir.history.is_local and not data_dir.history.path.exists():
        return "journal"
    from headrace.pipeline.history.table import read_state

    state = read_state(data_dir.history)
    return "history" if state is not None and state.events else "journal"
