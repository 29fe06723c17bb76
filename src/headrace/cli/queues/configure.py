"""`headrace queues pause`, `resume` and `configure`: reversible changes of a queue."""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.parse import read_settings, value_text
from headrace.cli.queues.list import Name
from headrace.cli.store_access import with_store
from headrace.inspect.lookup import queue_of
from headrace.model.errors import Refused
from headrace.model.limits import SHARDS_MAX
from headrace.model.names import Queue
from headrace.model.policy import SETTABLE, QueueConfig
from headrace.stores.catalog import find_queue
from headrace.stores.contract.store import Store

Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="Queues to use.")]
Changes = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE…", help="Settings to change: timeout=30s, timeout_ms=30000, max_attempts=5, …"),
]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Change only this version of the configuration.")
]
New = Annotated[bool, typer.Option("--new", help="Create the queue if it does not exist.")]
Shards = Annotated[int | None, typer.Option("--shards", min=1, max=SHARDS_MAX, help="Shards of a new queue.")]


class QueuePaused(Struct, frozen=True):
    """A queue that was paused or resumed."""

    queue: str
    paused: bool
    changed: bool
    """False if it was so already."""
    version: int


class QueueSetting(Struct, frozen=True):
    """One setting before and after."""

    name: str
    before: bool | int
    after: bool | int


class QueueConfigured(Struct, frozen=True):
    """A queue whose configuration was changed."""

    queue: str
    tenant: str
    version: int
    changes: list[QueueSetting]


def pause(names: Names, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Pause queues: workers claim no more of their jobs.

    Active jobs continue, and new jobs are accepted.

    Example: headrace queues pause mail
    """
    _set_paused(names, True, url, tenant, Output(json=json))


def resume(names: Names, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Resume paused queues.

    Example: headrace queues resume mail
    """
    _set_paused(names, False, url, tenant, Output(json=json))


def _set_paused(names: list[str], paused: bool, url: str | None, tenant: str, output: Output) -> None:
    async def change(store: Store) -> list[QueuePaused]:
        # All of them exist, or none is changed.
        queues = [await queue_of(store, tenant, name) for name in dict.fromkeys(names)]
        rows = []
        for queue in queues:
            config = await store.queues.configuration(queue)
            if changed := config.paused != paused:
                config = await store.queues.configure(queue, {"paused": paused})
            rows.append(QueuePaused(queue.full_name, paused, changed, config.version))
        return rows

    rows = with_store(url, change)
    output.document({"queues": rows})
    words = ("paused", "was already paused") if paused else ("resumed", "was not paused")
    for row in rows:
        output.say(f"queue {row.queue!r} {words[0] if row.changed else words[1]}")


def configure(
    name: Name,
    changes: Changes,
    url: Url = None,
    tenant: Tenant = TENANT,
    if_version: IfVersion = None,
    new: New = False,
    shards: Shards = None,
    json: Json = False,
) -> None:
    """Change settings of a queue.

    A change takes effect at once, also for waiting jobs.

    Example: headrace queues configure mail max_attempts=5 timeout=30s
    """
    output = Output(json=json)
    if shards is not None and not new:
        raise Refused("bad_config", "the number of shards is fixed when a queue is created; use --shards with --new")
    settings = read_changes(changes)

    async def change(store: Store) -> QueueConfigured:
        queue = await _queue(store, tenant, name, shards) if new else await queue_of(store, tenant, name)
        before = await store.queues.configuration(queue)
        after = await store.queues.configure(queue, settings, version=if_version)
        rows = [QueueSetting(field, getattr(before, field), getattr(after, field)) for field in settings]
        return QueueConfigured(queue.full_name, tenant, after.version, rows)

    done = with_store(url, change, new=new)
    output.document(done)
    for each in done.changes:
        before, after = value_text(each.name, each.before), value_text(each.name, each.after)
        output.say(f"{each.name}: {before} → {after}" if before != after else f"{each.name}: {after}, as before")
    output.say(f"queue {done.queue!r} has version {done.version} of its configuration")


async def _queue(store: Store, tenant: str, name: str, shards: int | None) -> Queue:
    """The existing queue, or the one to create."""
    queue = await find_queue(store, tenant, name)
    if queue is None:
        return Queue(name, tenant, shards or 1)
    if shards not in (None, queue.shards):
        raise Refused("wrong_shards", f"queue {name!r} has {queue.shards} shards and keeps them; found {shards}")
    return queue


def read_changes(texts: Sequence[str]) -> dict[str, bool | int]:
    """The settings of `key=value` texts; refuses unknown and repeated keys."""
    default = QueueConfig()
    return read_settings("queues", {field: getattr(default, field) for field in SETTABLE}, texts)
