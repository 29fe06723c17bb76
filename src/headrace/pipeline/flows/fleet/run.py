"""Runs a fleet: workers for the jobs of an app on Spark's executors."""

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Unpack, get_args

from msgspec import Struct
from pyspark.sql import SparkSession

from headrace.app.app import App
from headrace.app.decorators import WorkerFields, with_tenant
from headrace.app.discovery import url_of
from headrace.client.background import StorePortal
from headrace.client.tasks import retry
from headrace.model.errors import BadConfig, Refused
from headrace.model.event import Bounds
from headrace.model.limits import FLEET_WORKERS_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Counts
from headrace.model.validate import bounded_repr, check_int
from headrace.pipeline.flows.fleet.app_bundle import pack
from headrace.pipeline.flows.fleet.executor import FleetSpec, Until, name_prefix, total_counts
from headrace.pipeline.flows.fleet.report import (
    FleetProgress,
    FleetReport,
    SettlementCounter,
    journal_bounds,
    missed_events,
    read_fleet,
)
from headrace.pipeline.flows.fleet.supervisor import Supervisor
from headrace.pipeline.source.store_access import check_master, check_url, this_host
from headrace.pipeline.spark_session import refuse_connect
from headrace.stores.catalog import all_queues
from headrace.stores.contract.store import Store
from headrace.stores.open import with_whole_path
from headrace.worker.config import QueueRef, QueueSelection, WorkerConfig, WorkerSettings, settings_of

_SUMS = ("deliveries", "done", "retried", "stalled", "dead", "released", "cancelled")


def run_fleet(
    spark: SparkSession,
    app: App | str,
    *,
    url: str | None = None,
    workers: int | None = None,
    until: Until | None = "drained",
    for_ms: int | None = None,
    on_progress: Callable[[FleetProgress], None] | None = None,
    stopping: threading.Event | None = None,
    **config: Unpack[WorkerFields],
) -> FleetReport:
    """Run workers for the jobs of an app on Spark's executors, and report what they did by the journal.

    `app` is an app, or its name as in `shop.jobs:app`. The executors import the app of a module; an app of a notebook
    or of the program itself is sent to them by value. `workers` is the number of slots, by default one per core of
    Spark. `config` are the fields of `WorkerConfig`: `queues`, `capacity`, `lease`, `grace` and so on.

    The fleet ends when its queues are `drained` (nothing waiting, scheduled or running), with `until="idle"` when
    nothing is due, with None never; after `for_ms` in any case; and when `stopping` is set. Running handlers then have
    the grace time, and what they do not finish is released uncharged. `on_progress` is called about once a second.

    A worker whose process or executor is lost is replaced, and its jobs return when their leases expire. Raises
    `BadConfig` for arguments that do not fit, and `Refused` when workers crash repeatedly without settling a job.
    """
    plan = _plan(spark, app, url, workers, until, for_ms, config)
    prefix = name_prefix(plan.spec.fleet)
    with StorePortal(plan.spec.url) as portal:
        starts = portal.call(lambda store: journal_bounds(store, plan.queues))
        settlements = SettlementCounter(prefix, starts)
        supervisor = Supervisor(spark, plan.spec, plan.workers, portal, settlements, plan.queues)
        took_ms = supervisor.run(plan.settings.grace_ms, for_ms, stopping or threading.Event(), on_progress)
        return _report(spark, plan, supervisor, portal, starts, took_ms)


def check_fleet(
    spark: SparkSession, app: App | str, *, url: str, workers: int | None, **config: Unpack[WorkerFields]
) -> None:
    """Raise what `run_fleet` would refuse, before anything is written for the fleet."""
    _plan(spark, app, url, workers, "drained", None, config)


def executor_url(url: str | None) -> str:
    """The URL of the store for executors, a file with its whole path: Spark's processes may run in another folder."""
    return with_whole_path(url_of(url))


class _Plan(Struct, frozen=True):
    """The arguments of a fleet, checked."""

    spec: FleetSpec
    settings: WorkerSettings
    queues: list[Queue]
    workers: int


def _plan(
    spark: SparkSession,
    app: App | str,
    url: str | None,
    workers: int | None,
    until: Until | None,
    for_ms: int | None,
    config: WorkerFields,
) -> _Plan:
    if until is not None and until not in get_args(Until):
        raise BadConfig(f"until is {bounded_repr(until)}; give drained, idle, or None to run on")
    if for_ms is not None:
        check_int("for_ms", for_ms, 1, 10**12)
    if config.get("name") is not None:
        raise BadConfig("the workers of a fleet are named by their slots; leave name out")
    loaded, bundle = pack(app)
    if not len(loaded.handlers):
        raise BadConfig("the app has no jobs; put @app.job above a function, in a module that the app's imports")
    store_url = executor_url(url if url is not None else loaded.url)
    check_url(store_url)
    _check_spark(spark, store_url)
    fields = with_tenant(config, loaded.maker.tenant)
    with StorePortal(store_url) as portal:
        fields = {**fields, "queues": _with_shards(fields, loaded, portal)}
        fleet = secrets.token_hex(4)
        settings = settings_of(WorkerConfig(**fields), loaded.handlers.queues, loaded.handlers.fail_queues, fleet)
    tenant = fields.get("tenant") or loaded.maker.tenant
    spec = FleetSpec(fleet, store_url, bundle, dict(fields), until, tenant, this_host())
    return _Plan(spec, settings, list(settings.queues), _worker_count(spark, workers))


def _check_spark(spark: SparkSession, url: str) -> None:
    refuse_connect(spark, "a fleet")
    check_master(url, spark)
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise BadConfig(
            "a fleet cannot run where spark.speculation is true: Spark kills the slower copy of a task together with"
            " its jobs; switch it off for this Spark"
        )


def _worker_count(spark: SparkSession, workers: int | None) -> int:
    if workers is None:
        workers = min(int(spark.sparkContext.defaultParallelism), FLEET_WORKERS_MAX)
    try:
        check_int("workers", workers, 1, FLEET_WORKERS_MAX)
    except Refused as refused:
        raise BadConfig(f"a fleet cannot start: {refused}") from refused
    return workers


def _with_shards(config: WorkerFields, app: App, portal: StorePortal) -> QueueSelection | None:
    """The selected queues with the number of shards that the store has for them: a name alone does not say it, unless a
    handler has it as its queue."""
    selection = config.get("queues")
    if selection is None or isinstance(selection, str):
        return selection
    tenant = config.get("tenant") or app.maker.tenant
    handler_queues = {(queue.name, queue.tenant) for queue in app.handlers.queues}
    stored = {queue.full_name: queue for queue in portal.call(lambda store: all_queues(store, tenant))}

    def with_shards(ref: QueueRef) -> QueueRef:
        if isinstance(ref, Queue) or (ref, tenant) in handler_queues:
            return ref
        return stored.get(ref, ref)

    if isinstance(selection, Mapping):
        return {with_shards(ref): weight for ref, weight in selection.items()}
    return [with_shards(ref) for ref in selection]


def _report(
    spark: SparkSession,
    plan: _Plan,
    supervisor: Supervisor,
    portal: StorePortal,
    starts: dict[Shard, Bounds],
    took_ms: int,
) -> FleetReport:
    async def read_queues(store: Store) -> tuple[Counts, dict[Shard, Bounds], set[tuple[str, str]]]:
        tenants = {queue.tenant for queue in plan.queues}
        names = {(tenant, queue.full_name) for tenant in tenants for queue in await all_queues(store, tenant)}
        return await total_counts(store, plan.queues), await journal_bounds(store, plan.queues), names

    counts, bounds, names = portal.call(lambda store: retry(lambda: read_queues(store)))
    existing = {shard: start for shard, start in starts.items() if (shard.queue.tenant, shard.queue.full_name) in names}
    figures, workers = read_fleet(spark, plan.spec.url, existing, name_prefix(plan.spec.fleet))
    sums = {name: sum(getattr(worker, name) for worker in workers) for name in _SUMS}
    finished = sums["done"] + sums["dead"] + sums["cancelled"]
    return FleetReport(
        fleet=plan.spec.fleet,
        end_reason=supervisor.stop_reason or plan.spec.until or "stopped",
        slots=plan.workers,
        starts_max=max(task.starts for task in supervisor.tasks),
        crashes=supervisor.crashes,
        took_ms=took_ms,
        jobs=figures.jobs,
        **sums,
        wait_p50_ms=figures.wait_p50_ms,
        wait_p95_ms=figures.wait_p95_ms,
        run_p50_ms=figures.run_p50_ms,
        run_p95_ms=figures.run_p95_ms,
        jobs_per_s=finished / max(figures.seconds, 0.001) if finished else 0.0,
        waiting=counts.waiting,
        active=counts.active,
        blocked=counts.blocked,
        missed=missed_events(existing, bounds),
        workers=workers,
    )
