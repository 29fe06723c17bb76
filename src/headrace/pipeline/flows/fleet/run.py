"""Runs a fleet: begins its slots, watches them, begins again what fell, and lets the journal tell how it went."""

import secrets
import threading
from collections.abc import Callable
from typing import Unpack, get_args

from msgspec import Struct
from pyspark.sql import SparkSession

from headrace.app.app import App
from headrace.app.decorators import WorkerFields, with_tenant
from headrace.client.background import StorePortal
from headrace.client.retry import retry
from headrace.model.errors import BadConfig, Refused
from headrace.model.event import Bounds
from headrace.model.limits import FLEET_WORKERS_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Counts
from headrace.model.validate import bounded_repr, check_int
from headrace.pipeline.flows.fleet.app_bundle import pack
from headrace.pipeline.flows.fleet.drained import counts_of
from headrace.pipeline.flows.fleet.orders import Orders, Until, prefix_of
from headrace.pipeline.flows.fleet.places import placed, store_url
from headrace.pipeline.flows.fleet.report import FleetReport, counted, missed
from headrace.pipeline.flows.fleet.supervisor import FleetProgress, Squad
from headrace.pipeline.flows.fleet.tally import FleetTally, starts_of
from headrace.pipeline.source.store_access import check_master, check_url, this_host
from headrace.pipeline.spark_session import refuse_connect
from headrace.stores.catalog import all_queues
from headrace.stores.contract.store import Store
from headrace.worker.config import WorkerConfig, WorkerSettings, settings_of

__all__ = ["FleetProgress", "FleetReport", "run_fleet"]


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
    """Let Spark's executors be workers for the jobs of an app, and say what they did, by the journal.

    `app` is an app, or its name as in `shop.jobs:app`. An app of a module is imported by the executors; one of a
    notebook or of the program itself travels by value. `workers` slots are filled, as many as Spark has cores when it
    is not given. `config` are the fields of `WorkerConfig`: `queues`, `capacity`, `lease`, `grace` and so on.

    It ends when its queues are `drained` (nothing waits, now or later, nothing runs), with `until="idle"` when nothing
    is due, with None never; after `for_ms` in any case; and when `stopping` is set. Then running handlers have the
    grace time, and what is left is given back uncharged. `on_progress` is told about once a second how far it is.

    A worker whose process or executor is lost is replaced, and its jobs come back when their leases have run out.
    Raises `BadConfig` for what cannot work, and `Refused` when workers fall again and again without ending a job.
    """
    plan = _planned(spark, app, url, workers, until, for_ms, config)
    with StorePortal(plan.orders.url) as portal:
        starts = portal.call(lambda store: starts_of(store, plan.queues))
        squad = Squad(
            spark, plan.orders, plan.workers, portal, FleetTally(prefix_of(plan.orders.fleet), starts), plan.queues
        )
        took = squad.run(plan.settings.grace_ms, for_ms, stopping or threading.Event(), on_progress)
        return _report(spark, plan, squad, portal, starts, took)


def check_fleet(
    spark: SparkSession, app: App | str, *, url: str, workers: int | None, **config: Unpack[WorkerFields]
) -> None:
    """Raise what `run_fleet` would refuse, for whoever writes something before it calls that."""
    _planned(spark, app, url, workers, "drained", None, config)


class _Plan(Struct, frozen=True):
    """What was asked for, checked."""

    orders: Orders
    settings: WorkerSettings
    queues: list[Queue]
    workers: int


def _planned(
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
    found, cargo = pack(app)
    if not len(found.handlers):
        raise BadConfig("the app has no jobs; put @app.job above a function, in a module that the app's imports")
    here_url = store_url(url if url is not None else found.url)
    check_url(here_url)
    _check_spark(spark, here_url)
    given = with_tenant(config, found.maker.tenant)
    with StorePortal(here_url) as portal:
        given = {**given, "queues": placed(given, found, portal)}
        fleet = secrets.token_hex(4)
        settings = settings_of(WorkerConfig(**given), found.handlers.queues, found.handlers.fail_queues, fleet)
    orders = Orders(fleet, here_url, cargo, dict(given), until, given.get("tenant") or found.maker.tenant, this_host())
    return _Plan(orders, settings, list(settings.queues), _workers(spark, workers))


def _check_spark(spark: SparkSession, url: str) -> None:
    refuse_connect(spark, "a fleet")
    check_master(url, spark)
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise BadConfig(
            "a fleet cannot run where spark.speculation is true: the copy of a task that loses is killed with the jobs"
            " in its hands; switch it off for this Spark"
        )


def _workers(spark: SparkSession, workers: int | None) -> int:
    if workers is None:
        workers = min(int(spark.sparkContext.defaultParallelism), FLEET_WORKERS_MAX)
    try:
        check_int("workers", workers, 1, FLEET_WORKERS_MAX)
    except Refused as refused:
        raise BadConfig(f"a fleet cannot start: {refused}") from refused
    return workers


def _report(
    spark: SparkSession, plan: _Plan, squad: Squad, portal: StorePortal, starts: dict[Shard, Bounds], took_ms: int
) -> FleetReport:
    async def look(store: Store) -> tuple[Counts, dict[Shard, Bounds], set[tuple[str, str]]]:
        tenants = {queue.tenant for queue in plan.queues}
        known = {(tenant, queue.full_name) for tenant in tenants for queue in await all_queues(store, tenant)}
        return await counts_of(store, plan.queues), await starts_of(store, plan.queues), known

    left, now, known = portal.call(lambda store: retry(lambda: look(store)))
    there = {shard: at for shard, at in starts.items() if (shard.queue.tenant, shard.queue.full_name) in known}
    found, shares = counted(spark, plan.orders.url, there, prefix_of(plan.orders.fleet))
    sums = {name: sum(getattr(share, name) for share in shares) for name in _SUMMED}
    over = sums["done"] + sums["dead"] + sums["cancelled"]
    return FleetReport(
        fleet=plan.orders.fleet,
        ended=squad.why or plan.orders.until or "asked",
        slots=plan.workers,
        rounds=max(post.round for post in squad.posts),
        falls=squad.falls,
        took_ms=took_ms,
        jobs=found.jobs,
        **sums,
        wait_p50_ms=found.wait_p50_ms,
        wait_p95_ms=found.wait_p95_ms,
        run_p50_ms=found.run_p50_ms,
        run_p95_ms=found.run_p95_ms,
        jobs_per_s=over / max(found.seconds, 0.001) if over else 0.0,
        waiting=left.waiting,
        active=left.active,
        blocked=left.blocked,
        missed=missed(there, now),
        workers=shares,
    )


_SUMMED = ("deliveries", "done", "retried", "stalled", "dead", "released", "cancelled")
