"""`headrace queues show`: one queue with its counts, configuration, workers and journal."""

from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.queue_lookup import queue_of
from headrace.cli.queues.rows import COLUMNS, SPARE, QueueRow, row_of
from headrace.cli.queues.settings import Setting, settings_of
from headrace.cli.store_access import with_store
from headrace.cli.workers import COLUMNS as WORKER_COLUMNS
from headrace.cli.workers import WorkerLine, seen
from headrace.model.event import Bounds
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue; a fail queue is called NAME.fail.")]


class JournalRow(Struct, frozen=True):
    """What the journal of a shard holds."""

    shard: int
    epoch: int
    first_seq: int
    last_seq: int
    events: int
    bytes: int
    first_at: str | None
    last_at: str | None


class Shown(Struct, frozen=True):
    """A queue whole."""

    queue: QueueRow
    version: int
    """Of the configuration: rises by one with every change."""
    settings: list[Setting]
    workers: list[WorkerLine]
    journal: list[JournalRow]


def show(name: Name, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Show one queue: counts, settings, workers, journal."""
    output = Output(json=json)
    shown = with_store(url, lambda store: _shown(store, tenant, name))
    output.document(shown)
    output.table(COLUMNS, [shown.queue.cells], empty="", spare=SPARE)
    output.say(f"\nConfiguration, version {shown.version}; * differs from the default")
    output.table(
        ("", "setting", "value", "default"),
        [
            ("*", setting.name, setting.text, setting.default_text)
            if setting.differs
            else ("", setting.name, setting.text, "")
            for setting in shown.settings
        ],
        empty="",
    )
    output.say("\nWorkers of the last day")
    output.table(WORKER_COLUMNS, [row.cells for row in shown.workers], empty="none")
    output.say("\nJournal")
    output.table(
        ("shard#", "epoch#", "events#", "first seq#", "last seq#", "bytes#", "first at", "last at"),
        [
            (row.shard, row.epoch, row.events, row.first_seq, row.last_seq, row.bytes, row.first_at, row.last_at)
            for row in shown.journal
        ],
        empty="",
        spare=("first at", "epoch", "first seq", "bytes", "last at"),
    )


async def _shown(store: Store, tenant: str, name: str) -> Shown:
    queue = await queue_of(store, tenant, name)
    config = await store.queues.configuration(queue)
    return Shown(
        await row_of(store, queue, await store.now_ms()),
        config.version,
        settings_of(queue, config),
        await seen(store, tenant, name),
        [_journal(shard.index, await store.journal.bounds(shard)) for shard in queue.all_shards()],
    )


def _journal(shard: int, found: Bounds) -> JournalRow:
    return JournalRow(
        shard=shard,
        epoch=found.epoch,
        first_seq=found.first_seq,
        last_seq=found.last_seq,
        events=found.last_seq - found.first_seq + 1,
        bytes=found.bytes,
        first_at=None if found.first_at_ms is None else instant_text(found.first_at_ms),
        last_at=None if found.last_at_ms is None else instant_text(found.last_at_ms),
    )
