"""`headrace queues list`: the queues of a tenant, or of all tenants, with their counts."""

from typing import Annotated

import typer

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.store_access import with_store
from headrace.inspect.lookup import names_text
from headrace.inspect.queues import QueueList, QueueRow, list_queues
from headrace.model.times import duration_text
from headrace.stores.catalog import all_tenants
from headrace.stores.contract.store import Store

AllTenants = Annotated[bool, typer.Option("--all-tenants", "-A", help="Show the queues of all tenants.")]
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
"""Columns that a narrow terminal may go without, the least needed first."""


def list_command(url: Url = None, tenant: Tenant = TENANT, all_tenants: AllTenants = False, json: Json = False) -> None:
    """List queues with their counts; `headrace queues` does the same.

    Example: headrace queues list --all-tenants
    """
    output, only = Output(json=json), None if all_tenants else tenant
    found, tenants = with_store(url, lambda store: _look(store, only))
    output.document(found)
    if not found.queues:
        output.say(_empty_text(only, tenants))
        return
    rows, total = found.queues, found.total
    columns = ("tenant", *COLUMNS) if all_tenants else COLUMNS
    cells = [(row.tenant, *queue_cells(row)) if all_tenants else queue_cells(row) for row in rows]
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
        " --all-tenants"
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
