"""`headrace pipeline`: data into queues and results back, and the history, tables, statistics, audit and report."""

from headrace.cli.options import command_group
from headrace.cli.pipeline import (
    audit,
    backfill,
    compact,
    errors,
    fleet,
    history,
    ingest,
    jobs,
    monitor,
    replay,
    report,
    stats,
    usage,
    views,
)
from headrace.cli.pipeline import map as mapping

commands = command_group(
    history=history.history,
    jobs=jobs.jobs,
    stats=stats.stats,
    errors=errors.errors,
    usage=usage.usage,
    audit=audit.audit,
    compact=compact.compact,
    ingest=ingest.ingest,
    fleet=fleet.fleet,
    map=mapping.map,
    replay=replay.replay,
    backfill=backfill.backfill,
    changes=monitor.changes,
    freshness=monitor.freshness,
    views=views.views,
    report=report.report,
)
