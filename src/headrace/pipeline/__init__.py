"""The data pipeline on Spark: queues, feeds and the journal as DataFrames, and tables made from them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.data_dir import DataDir as DataDir
    from headrace.pipeline.event_source import Events as Events
    from headrace.pipeline.flows.backfill import BackfillReport as BackfillReport
    from headrace.pipeline.flows.backfill import backfill_jobs as backfill_jobs
    from headrace.pipeline.flows.fleet.report import FleetProgress as FleetProgress
    from headrace.pipeline.flows.fleet.report import FleetReport as FleetReport
    from headrace.pipeline.flows.fleet.run import run_fleet as run_fleet
    from headrace.pipeline.flows.ingest.mapping import Mapping as Mapping
    from headrace.pipeline.flows.ingest.report import IngestReport as IngestReport
    from headrace.pipeline.flows.ingest.report import read_refused as read_refused
    from headrace.pipeline.flows.ingest.run import follow_rows as follow_rows
    from headrace.pipeline.flows.ingest.run import ingest_rows as ingest_rows
    from headrace.pipeline.flows.ingest.run import read_ingest_report as read_ingest_report
    from headrace.pipeline.flows.ingest.source import read_source as read_source
    from headrace.pipeline.flows.map.results import MapReport as MapReport
    from headrace.pipeline.flows.map.run import map_rows as map_rows
    from headrace.pipeline.flows.replay import ReplayReport as ReplayReport
    from headrace.pipeline.flows.replay import replay_dead_letters as replay_dead_letters
    from headrace.pipeline.history.run import follow_history as follow_history
    from headrace.pipeline.history.table import compact as compact
    from headrace.pipeline.history.table import read_history as read_history
    from headrace.pipeline.query_progress import QueryMetrics as QueryMetrics
    from headrace.pipeline.query_progress import lag as lag
    from headrace.pipeline.query_progress import lost as lost
    from headrace.pipeline.query_progress import serve_metrics as serve_metrics
    from headrace.pipeline.query_progress import skipped as skipped
    from headrace.pipeline.report.report import write_report as write_report
    from headrace.pipeline.sinks import Written as Written
    from headrace.pipeline.sinks import enqueue as enqueue
    from headrace.pipeline.sinks import publish as publish
    from headrace.pipeline.sinks import replay as replay
    from headrace.pipeline.spark_session import session as session
    from headrace.pipeline.sql_views import payloads as payloads
    from headrace.pipeline.sql_views import views as views
    from headrace.pipeline.stats.run import (
        follow_stats as follow_stats,
    )
    from headrace.pipeline.stats.run import (
        read_stats as read_stats,
    )
    from headrace.pipeline.stats.run import (
        write_stats as write_stats,
    )
    from headrace.pipeline.tables.write import (
        write_errors as write_errors,
    )
    from headrace.pipeline.tables.write import (
        write_jobs as write_jobs,
    )
    from headrace.pipeline.tables.write import (
        write_tables as write_tables,
    )
    from headrace.pipeline.tables.write import (
        write_usage as write_usage,
    )
else:
    from headrace._lazy import attach
    from headrace.pipeline.packages import needing_spark

    # A task that reads a journal needs none of them. A name that is also a module is not here: `from
    # headrace.pipeline.audit import audit`, `from headrace.pipeline.event_source import events`.
    __getattr__, __dir__ = attach(__name__, guard=needing_spark)
