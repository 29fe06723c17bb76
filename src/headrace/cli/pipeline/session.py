"""Starts Spark for a command, after it has checked the store and counted the events to read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import asdict

from headrace.cli.bulk import batches
from headrace.cli.main import TRACEBACK
from headrace.cli.options import ALL
from headrace.cli.output import Output, counted
from headrace.cli.pipeline.options import (
    FOLDER,
    SparkEngine,
    SparkOptions,
    StoreOptions,
    data_folder,
    spark_url,
)
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.store_access import with_store
from headrace.model.errors import BadConfig
from headrace.pipeline.packages import needing_spark
from headrace.stores.contract.store import Store

if TYPE_CHECKING:
    from headrace.pipeline.data_dir import DataDir
    from headrace.pipeline.event_source import Events
    from headrace.pipeline.query_progress import Spark
    from headrace.pipeline.storage.location import Location


NO_EVENTS = "there are no events yet; enqueue a first job with: headrace enqueue KIND"
FEW_EVENTS = 500_000
"""Below this, Java's optimizing compiler costs more time than it saves."""


class Backlog(Struct, frozen=True):
    """The queues and events in the journals of a store."""

    queues: int
    events: int


def read_backlog(url: str, tenant: str, queue: str) -> Backlog:
    """The backlog of a store; refuses a store or queue that does not exist, before Spark takes seconds to start."""

    async def count(store: Store) -> Backlog:
        from headrace.pipeline.source.discovery import find_queues
        from headrace.pipeline.source.options import SourceOptions

        queues = await find_queues(store, SourceOptions.parse({"url": url, "tenant": tenant, "queue": queue}))
        events = 0
        for batch in batches([shard for each in queues for shard in each.all_shards()]):
            events += sum(each.last_seq - each.first_seq + 1 for each in await store.journal.all_bounds(batch))
        return Backlog(len(queues), events)

    return with_store(url, count)


def check_store(url: str, *, new: bool) -> None:
    """Refuse a store that cannot be reached; with `new`, create one that does not exist."""

    async def ping(store: Store) -> None:
        await store.health()

    with_store(url, ping, new=new)


class PipelineRequest(Struct, frozen=True, kw_only=True):
    """The store, folder, queues and Spark of a command."""

    url: str | None
    dir: str
    tenant: str
    queue: str
    engine: SparkEngine
    origin: Literal["history", "journal"] | None = None

    @staticmethod
    def of(source: StoreOptions, spark: SparkOptions) -> "PipelineRequest":
        """The request of a command's options."""
        return PipelineRequest(**asdict(source), engine=spark.engine)

    @property
    def data_dir(self) -> "DataDir":
        """The folder of history, tables and report."""
        from headrace.pipeline.data_dir import DataDir

        return DataDir(data_folder(self.dir))

    @property
    def store(self) -> str:
        """The URL of the store."""
        return spark_url(self.url)

    def read_backlog(self) -> Backlog:
        """The backlog of the store; refuses a store that cannot be reached, and queues that do not exist."""
        return read_backlog(self.store, self.tenant, self.queue)

    def words(self, command: str) -> str:
        """A command to type next, with the same folder."""
        return f"headrace pipeline {command}" + ("" if self.dir == FOLDER else f" --dir {self.dir}")


class PipelineWork(Struct, frozen=True):
    """A Spark session, the events to read, and the progress line."""

    spark: "Spark"
    events: "Events"
    line: ProgressLine
    source: str
    """The source of the events, in words."""


@contextmanager
def open_events(request: PipelineRequest, output: Output) -> Iterator[PipelineWork | None]:
    """Spark with the events of a request; None, after a message, without events."""
    from headrace.pipeline.event_source import default_origin

    data_dir = request.data_dir
    with needing_spark():
        origin = request.origin or default_origin(data_dir)
    if origin == "history":
        count, url, source = (
            _history_events(data_dir, request.queue),
            None,
            f"the history in {short_path(data_dir.history)}",
        )
    else:
        count, url, source = request.read_backlog().events, request.store, "the journal"
        if not count:
            output.document({"origin": origin, "events": 0})
            output.say(NO_EVENTS)
            yield None
            return
    line = ProgressLine(output)
    with spark_session(request.engine, line, count) as spark:
        from headrace.pipeline.event_source import events

        # A history has no count of the events of one tenant or queue.
        is_whole = origin == "journal" or (request.tenant, request.queue) == (ALL, ALL)
        source = f"{counted(count, 'event')} of {source}" if is_whole else source
        line.stage(f"reading {source}")
        yield PipelineWork(
            spark, events(spark, url, data_dir, tenant=request.tenant, queue=request.queue, origin=origin), line, source
        )


def _history_events(data_dir: "DataDir", queue: str) -> int:
    """The number of events of a history; refuses a folder without one, and queues that it does not have."""
    with needing_spark():
        from headrace.pipeline.history.table import read_state

    state = read_state(data_dir.history)
    if state is None:
        raise BadConfig(
            f"there is no history in {short_path(data_dir.folder)}; write one with: headrace pipeline history --once"
        )
    known = sorted({name.split("/")[1] for name in state.shards})
    missing = [name for each in queue.split(",") if (name := each.strip()) not in (ALL, *known)]
    if missing:
        raise BadConfig(
            f"the history in {short_path(data_dir.history)} has no queue {', '.join(map(repr, missing))}; it has"
            f" {', '.join(known[:10]) or 'none'}{', …' if len(known) > 10 else ''}"
        )
    return state.events


def short_path(place: "Path | Location") -> str:
    """A path relative to the current folder, if it is below; a URL unchanged."""
    path = Path(str(place))
    is_here = "://" not in str(place) and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if is_here else str(place)


@contextmanager
def spark_session(engine: SparkEngine, line: ProgressLine, events: int | None) -> Iterator["Spark"]:
    """A Spark session for this block, whose tasks the line shows; tuned for a quick start if `events`, the number of
    events to read, is known and small."""
    with line.running("starting Spark"):
        with needing_spark():
            from headrace.pipeline.spark_session import SHORT_RUN, open_session
        conf = (SHORT_RUN if events is not None and events < FEW_EVENTS else {}) | engine.conf
        # A requested traceback comes with Spark's log.
        quiet = not os.environ.get(TRACEBACK)
        with open_session("headrace pipeline", engine.master, conf, quiet=quiet) as spark, line.spark_tasks(spark):
            yield spark


@contextmanager
def query_metrics(spark: "Spark", host: str, port: int | None, output: Output) -> Iterator[None]:
    """Serve the metrics of streaming queries within this block, when there is a port for them, and say where."""
    if port is None:
        yield
        return
    from headrace.pipeline.query_progress import serve_metrics

    with serve_metrics(spark, host, port) as server:
        output.hint(f"metrics: http://{host}:{server.port}/metrics")
        yield
