"""What a command of the pipeline was asked for, and whether there is anything to do, before Spark is started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from headrace.cli.bulk import batches
from headrace.cli.main import TRACEBACK
from headrace.cli.output import Output, counted
from headrace.cli.pipeline.options import ALL, FOLDER, SparkEngine, folder_of, spark_url
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.store_access import with_store
from headrace.model.errors import BadConfig
from headrace.pipeline.packages import needing_spark
from headrace.stores.contract.store import Store

if TYPE_CHECKING:
    from headrace.pipeline.data_dir import DataDir
    from headrace.pipeline.event_source import Events
    from headrace.pipeline.query_progress import Spark


NOTHING = "there are no events yet: the first job of a queue creates it, as in: headrace enqueue KIND"
FEW_EVENTS = 500_000
"""Below this a run is over before Java's better compiler has paid for itself."""


class Backlog(Struct, frozen=True):
    """What there is to be read."""

    queues: int
    events: int


def look(url: str, tenant: str, queue: str) -> Backlog:
    """What the journals hold; refuses a store or a queue that is not there, which takes Spark seconds to find out."""

    async def looked(store: Store) -> Backlog:
        from headrace.pipeline.source.discovery import find_queues
        from headrace.pipeline.source.options import SourceOptions

        queues = await find_queues(store, SourceOptions.parse({"url": url, "tenant": tenant, "queue": queue}))
        events = 0
        for some in batches([shard for each in queues for shard in each.all_shards()]):
            events += sum(each.last_seq - each.first_seq + 1 for each in await store.journal.all_bounds(some))
        return Backlog(len(queues), events)

    return with_store(url, looked)


def reach(url: str, *, new: bool) -> None:
    """Refuse a store that cannot be reached; `new` lets one be made that is not there."""

    async def reached(store: Store) -> None:
        await store.health()

    with_store(url, reached, new=new)


class PipelineRequest(Struct, frozen=True, kw_only=True):
    """Which events, into which folder, by which Spark."""

    url: str | None
    dir: str
    tenant: str
    queue: str
    engine: SparkEngine
    origin: Literal["history", "journal"] | None = None

    @property
    def data_dir(self) -> "DataDir":
        """The folder of everything."""
        from headrace.pipeline.data_dir import DataDir

        return DataDir(folder_of(self.dir))

    @property
    def store(self) -> str:
        """The URL of the store."""
        return spark_url(self.url)

    def look(self) -> Backlog:
        """What the store's journals hold; refuses a store that cannot be reached, and queues that are not there."""
        return look(self.store, self.tenant, self.queue)

    def words(self, command: str) -> str:
        """A command for a person to type next, in the same folder."""
        return f"headrace pipeline {command}" + ("" if self.dir == FOLDER else f" --dir {self.dir}")


class PipelineWork(Struct, frozen=True):
    """A batch of work: Spark, the events, and the line that tells of it."""

    spark: "Spark"
    events: "Events"
    line: ProgressLine
    said: str
    """Which events, for people."""


@contextmanager
def working(asked: PipelineRequest, output: Output) -> Iterator[PipelineWork | None]:
    """What is needed to make tables; None when there are no events, which is said then."""
    from headrace.pipeline.event_source import default_origin

    origin, data_dir = asked.origin or default_origin(asked.data_dir), asked.data_dir
    if origin == "history":
        count, url, of = _events_of(data_dir, asked.queue), None, f"the history in {short(data_dir.history)}"
    else:
        count, url, of = asked.look().events, asked.store, "the journal"
        if not count:
            output.document({"origin": origin, "events": 0})
            output.say(NOTHING)
            yield None
            return
    line = ProgressLine(output)
    with sparked(asked.engine, line, count) as spark:
        from headrace.pipeline.event_source import events

        # Of a history, nobody has counted the events of one tenant or queue.
        is_whole = origin == "journal" or (asked.tenant, asked.queue) == (ALL, ALL)
        said = f"{counted(count, 'event')} of {of}" if is_whole else of
        line.stage(f"reading {said}")
        yield PipelineWork(
            spark, events(spark, url, data_dir, tenant=asked.tenant, queue=asked.queue, origin=origin), line, said
        )


def _events_of(data_dir: "DataDir", queue: str) -> int:
    """How many events a history has; refuses what is no history, and queues that it does not have."""
    from headrace.pipeline.history.state import read_state

    state = read_state(data_dir.history)
    if state is None:
        raise BadConfig(
            f"there is no history in {short(data_dir.folder)}; write one with: headrace pipeline history --once"
        )
    known = sorted({name.split("/")[1] for name in state.shards})
    missing = [name for each in queue.split(",") if (name := each.strip()) not in (ALL, *known)]
    if missing:
        raise BadConfig(
            f"the history in {short(data_dir.history)} has no queue {', '.join(map(repr, missing))}; it has"
            f" {', '.join(known[:10]) or 'none'}{', …' if len(known) > 10 else ''}"
        )
    return state.events


def short(path: Path) -> str:
    """A path as a person would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@contextmanager
def sparked(engine: SparkEngine, line: ProgressLine, events: int | None) -> Iterator["Spark"]:
    """A Spark for this block, whose tasks the line shows; quick to start when there are few `events` to read, and None
    when nobody knows how many there will be."""
    with line.running("starting Spark"):
        with needing_spark():
            from headrace.pipeline.spark_session import SHORT_RUN, open_session
        conf = (SHORT_RUN if events is not None and events < FEW_EVENTS else {}) | engine.conf
        # With a traceback asked for, what Spark has to say is wanted as well.
        quiet = not os.environ.get(TRACEBACK)
        with open_session("headrace pipeline", engine.master, conf, quiet=quiet) as spark, line.of_spark(spark):
            yield spark


@contextmanager
def query_metrics(spark: "Spark", host: str, port: int | None, output: Output) -> Iterator[None]:
    """Serve the metrics of streaming queries within this block, when there is a port for them, and say where."""
    if port is None:
        yield
        return
    from headrace.pipeline.metrics import serve_metrics

    with serve_metrics(spark, host, port) as server:
        output.hint(f"metrics: http://{host}:{server.port}/metrics")
        yield
