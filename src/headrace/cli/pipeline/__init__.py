"""`headrace pipeline`: data into queues and results back, and the history, tables, statistics, audit and report."""

from headrace.cli.options import command_group
from headrace.cli.pipeline.audit import audit
from headrace.cli.pipeline.fleet import fleet
from headrace.cli.pipeline.history import compact, history
from headrace.cli.pipeline.ingest import ingest
from headrace.cli.pipeline.map import map as map_command
from headrace.cli.pipeline.monitor import changes, freshness
from headrace.cli.pipeline.report import report
from headrace.cli.pipeline.reprocess import backfill, replay
from headrace.cli.pipeline.stats import stats
from headrace.cli.pipeline.tables import errors, jobs, usage, views

commands = command_group(
    history=history,
    jobs=jobs,
    stats=stats,
    errors=errors,
    usage=usage,
    audit=audit,
    compact=compact,
    ingest=ingest,
    fleet=fleet,
    map=map_command,
    replay=replay,
    backfill=backfill,
    changes=changes,
    freshness=freshness,
    views=views,
    report=report,
)
