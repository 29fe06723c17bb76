"""The data pipeline on Spark: queues, feeds and the journal as DataFrames, and tables made from them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.again.counting import Backfilled, Replays
    from headrace.pipeline.again.dead_letters import replay_dead_letters
    from headrace.pipeline.again.history import backfill_jobs
    from headrace.pipeline.events import Events
    from headrace.pipeline.fleet.run import FleetProgress, FleetReport, run_fleet
    from headrace.pipeline.history.compact import compact
    from headrace.pipeline.history.read import read_history
    from headrace.pipeline.history.run import follow_history
    from headrace.pipeline.ingest.counts import Ingested
    from headrace.pipeline.ingest.follow import follow_rows, read_followed
    from headrace.pipeline.ingest.mapping import Mapping
    from headrace.pipeline.ingest.reading import read_source
    from headrace.pipeline.ingest.refused import read_refused
    from headrace.pipeline.ingest.run import ingest_rows
    from headrace.pipeline.lake import Lake
    from headrace.pipeline.map.mapped import Mapped
    from headrace.pipeline.map.run import map_rows
    from headrace.pipeline.page.write import write_report
    from headrace.pipeline.progress import lag, lost, skipped
    from headrace.pipeline.run import write_errors, write_jobs, write_tables, write_usage
    from headrace.pipeline.start import session
    from headrace.pipeline.stats.run import follow_stats, read_stats, write_stats
    from headrace.pipeline.write import Written, enqueue, publish, replay

__all__ = [
    "Backfilled",
    "Events",
    "FleetProgress",
    "FleetReport",
    "Ingested",
    "Lake",
    "Mapped",
    "Mapping",
    "Replays",
    "Written",
    "backfill_jobs",
    "compact",
    "enqueue",
    "follow_history",
    "follow_rows",
    "follow_stats",
    "ingest_rows",
    "lag",
    "lost",
    "map_rows",
    "publish",
    "read_followed",
    "read_history",
    "read_refused",
    "read_source",
    "read_stats",
    "replay",
    "replay_dead_letters",
    "run_fleet",
    "session",
    "skipped",
    "write_errors",
    "write_jobs",
    "write_report",
    "write_stats",
    "write_tables",
    "write_usage",
]

# Loaded when they are asked for: a task that reads a journal needs none of them. What bears the name of its module is
# found there alone: `from headrace.pipeline.audit import audit`, `from headrace.pipeline.events import events`.
_HOMES = {
    "headrace.pipeline.again.counting": ("Backfilled", "Replays"),
    "headrace.pipeline.again.history": ("backfill_jobs",),
    "headrace.pipeline.again.dead_letters": ("replay_dead_letters",),
    "headrace.pipeline.events": ("Events",),
    "headrace.pipeline.fleet.run": ("FleetProgress", "FleetReport", "run_fleet"),
    "headrace.pipeline.history.compact": ("compact",),
    "headrace.pipeline.history.read": ("read_history",),
    "headrace.pipeline.history.run": ("follow_history",),
    "headrace.pipeline.ingest.counts": ("Ingested",),
    "headrace.pipeline.ingest.follow": ("follow_rows", "read_followed"),
    "headrace.pipeline.ingest.mapping": ("Mapping",),
    "headrace.pipeline.ingest.reading": ("read_source",),
    "headrace.pipeline.ingest.refused": ("read_refused",),
    "headrace.pipeline.ingest.run": ("ingest_rows",),
    "headrace.pipeline.lake": ("Lake",),
    "headrace.pipeline.map.mapped": ("Mapped",),
    "headrace.pipeline.map.run": ("map_rows",),
    "headrace.pipeline.page.write": ("write_report",),
    "headrace.pipeline.progress": ("lag", "lost", "skipped"),
    "headrace.pipeline.run": ("write_errors", "write_jobs", "write_tables", "write_usage"),
    "headrace.pipeline.start": ("session",),
    "headrace.pipeline.stats.run": ("follow_stats", "read_stats", "write_stats"),
    "headrace.pipeline.write": ("Written", "enqueue", "publish", "replay"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            from headrace.pipeline.packages import needing_spark

            with needing_spark():
                return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
