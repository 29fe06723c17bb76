"""What a command of the pipeline was asked for, and whether there is anything to do, before Spark is started."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from headrace.cli.output import Output
from headrace.cli.pipeline.line import ProgressLine
from headrace.cli.pipeline.looking import Backlog, look
from headrace.cli.pipeline.options import ALL, FOLDER, SparkEngine, folder_of, spark_url
from headrace.cli.pipeline.sparking import sparked
from headrace.cli.stepping import counted
from headrace.model.errors import BadConfig

if TYPE_CHECKING:
    from headrace.pipeline.data_dir import DataDir
    from headrace.pipeline.event_source import Events
    from headrace.pipeline.query_progress import Spark

NOTHING = "there are no events yet: a queue comes to be with its first job, as in: headrace enqueue KIND"


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
