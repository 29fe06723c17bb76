"""`headrace queues list`: every queue of a tenant, or of all, with its counts."""

from typing import Annotated

import typer

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.queue_lookup import look_at_each
from headrace.cli.queues.rows import COLUMNS, SPARE, QueueRow, row_of, total_of
from headrace.cli.store_access import with_store
from headrace.stores.catalog import all_queues, all_tenants
from headrace.stores.contract.store import Store

AllTenants = Annotated[bool, typer.Option("--all-tenants", "-A", help="The queues of all tenants.")]


def list_queues(url: Url = None, tenant: Tenant = TENANT, all_tenants: AllTenants = False, json: Json = False) -> None:
    """Show queues with their counts; `headrace queues` does so, too."""
    output = Output(json=json)
    rows, others = with_store(url, lambda store: _rows(store, None if all_tenants else tenant))
    total = total_of(rows)
    output.document({"queues": rows, "total": total, "more": False})
    if not rows:
        output.say(_empty(None if all_tenants else tenant, others))
        return
    columns = ("tenant", *COLUMNS) if all_tenants else COLUMNS
    output.table(
        columns, [(row.tenant, *row.cells) if all_tenants else row.cells for row in rows], empty="", spare=SPARE
    )
    output.say(
        f"{len(rows):,} {'queue' if len(rows) == 1 else 'queues'}: {total.waiting:,} waiting ({total.later:,} later),"
        f" {total.blocked:,} blocked, {total.active:,} active, {total.done:,} done, {total.cancelled:,} cancelled,"
        f" {total.dead:,} dead"
    )


async def _rows(store: Store, tenant: str | None) -> tuple[list[QueueRow], list[str]]:
    """The rows, and the tenants there are when there is no row."""
    tenants = [tenant] if tenant is not None else await all_tenants(store)
    queues = [queue for each in tenants for queue in await all_queues(store, each)]
    now_ms = await store.now_ms()
    rows = [row async for _, row in look_at_each(queues, lambda queue: row_of(store, queue, now_ms))]
    return rows, [] if rows else await all_tenants(store)


def _empty(tenant: str | None, others: list[str]) -> str:
    if tenant is None or not others:
        return "there are no queues yet; a queue comes to be with its first job: headrace enqueue KIND"
    shown = ", ".join(others[:10]) + (" and more" if len(others) > 10 else "")
    return f"tenant {tenant!r} has no queues; tenants that have some: {shown}; name one with --tenant, or --all-tenants"
