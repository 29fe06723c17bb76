"""The data pipeline on Spark: queues, feeds and the journal as DataFrames, and tables made from them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.events import Events
    from headrace.pipeline.history.compact import compact
    from headrace.pipeline.history.read import read_history
    from headrace.pipeline.history.run import follow_history
    from headrace.pipeline.lake import Lake
    from headrace.pipeline.page.write import write_report
    from headrace.pipeline.progress import lag, lost, skipped
    from headrace.pipeline.run import write_errors, write_jobs, write_tables, write_usage
    from headrace.pipeline.start import session
    from headrace.pipeline.stats.run import follow_stats, read_stats, write_stats
    from headrace.pipeline.write import Written, enqueue, publish, replay

__all__ = [
    "Events",
    "Lake",
    "Written",
    "compact",
    "enqueue",
    "follow_history",
    "follow_stats",
    "lag",
    "lost",
    "publish",
    "read_history",
    "read_stats",
    "replay",
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
    "headrace.pipeline.events": ("Events",),
    "headrace.pipeline.history.compact": ("compact",),
    "headrace.pipeline.history.read": ("read_history",),
    "headrace.pipeline.history.run": ("follow_history",),
    "headrace.pipeline.lake": ("Lake",),
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
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
