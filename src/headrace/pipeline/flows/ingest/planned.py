"""An ingest that was checked: the rows as jobs, and where they go. Nothing was written, and the store not asked."""

from collections.abc import Mapping as Pairs
from pathlib import Path

from msgspec import Struct
from pyspark.sql import DataFrame

from headrace.model.errors import BadConfig
from headrace.model.names import DEFAULT_QUEUE
from headrace.model.times import Duration, duration_ms
from headrace.model.validate import bounded_repr, cut
from headrace.pipeline.flows.ingest.mapping import Mapping, mapped
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.jobs import JobSink
from headrace.pipeline.source.store_access import check_master


class Target(Struct, frozen=True, kw_only=True):
    """Where rows go that do not say it themselves, and how long they are known."""

    name: str
    """What the rows' keys are unique in."""
    queue: str | None = None
    """None is the default queue, unless the mapping has one."""
    kind: str | None = None
    tenant: str | None = None
    shards: int | None = None
    keep: Duration = "30d"
    refused: str | None = None
    """The folder of refused rows; None keeps none."""

    def check(self, columns: Pairs[str, str]) -> None:
        """Refuse what makes no sense whatever the rows are."""
        WriteOptions.parse({"url": "redis://nowhere"} | self.options(columns))

    def options(self, columns: Pairs[str, str]) -> dict[str, str]:
        """The options of a write, beside its URL."""
        if "kind" not in columns and self.kind is None:
            raise BadConfig("nothing says the kind of the jobs; give a kind (--kind), or map one (--map kind=…)")
        if "/" in self.name or not self.name.isprintable() or self.name in ("", ".", ".."):
            raise BadConfig(f"the name of an ingest is {cut(self.name)!r}; use printable characters other than '/'")
        keep_ms = duration_ms("keep", self.keep)
        if not keep_ms:
            raise BadConfig("keep is 0; rows must be known as written for some time, such as 30d")
        given = {
            "what": "jobs",
            "name": self.name,
            "queue": self.queue or (None if "queue" in columns else DEFAULT_QUEUE),
            "kind": self.kind,
            "tenant": self.tenant,
            "shards": None if self.shards is None else str(self.shards),
            "keyTtl": f"{keep_ms}ms",
            "refusals": "count",
            "refusedDir": self.refused,
        }
        return {option: value for option, value in given.items() if value is not None}


class PlannedIngest(Struct, frozen=True):
    """What is written."""

    frame: DataFrame
    """The rows as columns of jobs."""
    given: dict[str, str]
    """The options of the write."""
    options: WriteOptions
    sink: JobSink


def plan(
    frame: DataFrame, url: str, mapping: Mapping | Pairs[str, str] | None, target: Target, what: str
) -> PlannedIngest:
    """Check everything that can be checked before a row is read; raises `BadConfig` with one sentence."""
    found = mapping if isinstance(mapping, Mapping) else Mapping(dict(mapping or {}))
    given = {"url": url} | target.options(found.columns)
    options = WriteOptions.parse(given)
    check_master(url, frame.sparkSession)
    jobs = mapped(frame, found, what)
    return PlannedIngest(jobs, given, options, JobSink(options, jobs.schema))


def whole_path(folder: str | Path) -> str:
    """A folder by its whole path: Spark's processes may stand elsewhere."""
    if "://" in str(folder):
        raise BadConfig(
            f"a folder is wanted, and {bounded_repr(folder)} is a URL; mount it where the driver and all executors see"
            " it under the same path, and give that path"
        )
    return str(Path(folder).expanduser().absolute())
