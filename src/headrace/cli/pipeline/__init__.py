"""`headrace pipeline`: what happened, by Spark: the history of events, tables, statistics, an audit and a report."""

import typer

from headrace.cli.pipeline import audit, backfill, fleet, history, ingest, replay, report, stats, tables, views
from headrace.cli.pipeline import map as mapping

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
commands.command("history")(history.history)
commands.command("jobs")(tables.jobs)
commands.command("stats")(stats.stats)
commands.command("errors")(tables.errors)
commands.command("usage")(tables.usage)
commands.command("audit")(audit.audit)
commands.command("compact")(history.compact)
commands.command("ingest")(ingest.ingest)
commands.command("fleet")(fleet.fleet)
commands.command("map")(mapping.map)
commands.command("replay")(replay.replay)
commands.command("backfill")(backfill.backfill)
commands.command("views")(views.views)
commands.command("report")(report.report)

__all__ = ["commands"]
