"""`headrace queues list` and `show`: prints counts of queues; for one queue also settings, workers and journal."""

from typing import Annotated

import typer

from headrace.cli.options import ALL, TENANT, AnyTenant, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.parse import value_text
from headrace.cli.store_access import with_store
from headrace.cli.workers import COLUMNS as WORKER_COLUMNS
from headrace.cli.workers import worker_cells
from headrace.inspect.lookup import names_text
from headrace.inspect.queues import QueueList, QueueRow, Setting, list_queues, show_queue
from headrace.model.times import duration_text
from headrace.stores.catalog import all_tenants
from headrace.stores.contract.store import Store

COLUMNS = (
    "queue",
    "shards#",
    "waiting#",
    "later#",
    "blocked#",
    "active#",
    "done#",
    "cancelled#",
    "dead#",
    "oldest due",
    "paused",
)
SPARE = ("cancelled", "done", "blocked", "later", "shards", "dead", "oldest due", "paused")
"""Columns to drop in a narrow terminal, the least needed first."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="Queue to use; a fail queue is called NAME.fail.")]


def list_command(url: Url = None, tenant: AnyTenant = TENANT, json: Json = False) -> None:
    """List queues with their counts; `headrace queues` does the same.

    Example: headrace queues list --tenant '*'
    """
    output, only = Output(json=json), None if tenant == ALL else tenant
    found, tenants = with_store(url, lambda store: _look(store, only))
    output.document(found)
    if not found.queues:
        output.say(_empty_text(only, tenants))
        return
    rows, total = found.queues, found.total
    columns = COLUMNS if only is not None else ("tenant", *COLUMNS)
    cells = [queue_cells(row) if only is not None else (row.tenant, *queue_cells(row)) for row in rows]
    output.table(columns, cells, empty="", spare=SPARE)
    output.say(
        f"{len(rows):,} {'queue' if len(rows) == 1 else 'queues'}: {total.waiting:,} waiting ({total.later:,} later),"
        f" {total.blocked:,} blocked, {total.active:,} active, {total.done:,} done, {total.cancelled:,} cancelled,"
        f" {total.dead:,} dead"
    )


async def _look(store: Store, tenant: str | None) -> tuple[QueueList, list[str]]:
    """The queues, and the names of all tenants if there is no queue."""
    found = await list_queues(store, tenant)
    return found, [] if found.queues else await all_tenants(store)


def _empty_text(tenant: str | None, tenants: list[str]) -> str:
    if tenant is None or not tenants:
        return "there are no queues yet; the first job of a queue creates it: headrace enqueue KIND"
    return (
        f"tenant {tenant!r} has no queues; tenants with queues: {names_text(tenants)}; choose one with --tenant, or"
        " all of them with --tenant '*'"
    )


def queue_cells(row: QueueRow) -> tuple[object, ...]:
    """A row under COLUMNS."""
    return (
        row.queue,
        row.shards,
        *(row.waiting, row.later, row.blocked, row.active, row.done, row.cancelled, row.dead),
        None if row.oldest_due_ms_ago is None else f"{duration_text(row.oldest_due_ms_ago)} ago",
        "paused" if row.paused else "",
    )


def show(name: Name, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Show one queue: counts, settings, workers, journal.

    Example: headrace queues show mail
    """
    output = Output(json=json)
    queue = with_store(url, lambda store: show_queue(store, tenant, name))
    output.document(queue)
    output.table(COLUMNS, [queue_cells(queue.queue)], empty="", spare=SPARE)
    output.say(f"\nConfiguration, version {queue.version}; * differs from the default")
    output.table(("", "setting", "value", "default"), [setting_cells(each) for each in queue.settings], empty="")
    output.say("\nWorkers of the last day")
    output.table(WORKER_COLUMNS, [worker_cells(row) for row in queue.workers], empty="none")
    output.say("\nJournal")
    output.table(
        ("shard#", "epoch#", "events#", "first seq#", "last seq#", "bytes#", "first at", "last at"),
        [
            (row.shard, row.epoch, row.events, row.first_seq, row.last_seq, row.bytes, row.first_at, row.last_at)
            for row in queue.journal
        ],
        empty="",
        spare=("first at", "epoch", "first seq", "bytes", "last at"),
    )


def setting_cells(setting: Setting) -> tuple[object, ...]:
    """A setting, with its default if it differs."""
    value = value_text(setting.name, setting.value)
    if setting.value == setting.default:
        return "", setting.name, value, ""
    return "*", setting.name, value, value_text(setting.name, setting.default)
