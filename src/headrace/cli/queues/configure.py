"""`headrace queues pause`, `resume` and `configure`: changes that can be taken back."""

from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.parse import value_text
from headrace.cli.queue_lookup import queue_of
from headrace.cli.queues.settings import read_changes
from headrace.cli.queues.show import Name
from headrace.cli.store_access import with_store
from headrace.model.errors import Refused
from headrace.model.limits import SHARDS_MAX
from headrace.model.names import Queue
from headrace.stores.catalog import find_queue
from headrace.stores.contract.store import Store

Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="The queues.")]
Changes = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE…", help="What to change: timeout=30s, timeout_ms=30000, max_attempts=5, …"),
]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Only if nobody has changed it since this version.")
]
New = Annotated[bool, typer.Option("--new", help="Make the queue if it is not there yet.")]
Shards = Annotated[
    int | None, typer.Option("--shards", min=1, max=SHARDS_MAX, help="Into how many shards a new queue is cut.")
]


class Paused(Struct, frozen=True):
    """A queue that was paused or resumed."""

    queue: str
    paused: bool
    changed: bool
    """False when it was so already."""
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
    """Hand out no more jobs of these queues.

    What runs goes on, and jobs are still taken in.
    """
    _set_paused(names, True, url, tenant, Output(json=json))


def resume(names: Names, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Hand out jobs of these queues again."""
    _set_paused(names, False, url, tenant, Output(json=json))


def _set_paused(names: list[str], paused: bool, url: str | None, tenant: str, output: Output) -> None:
    async def change(store: Store) -> list[Paused]:
        queues = [
            await queue_of(store, tenant, name) for name in dict.fromkeys(names)
        ]  # all are there, or none changes
        found = []
        for queue in queues:
            config = await store.queues.configuration(queue)
            if changed := config.paused != paused:
                config = await store.queues.configure(queue, {"paused": paused})
            found.append(Paused(queue.full_name, paused, changed, config.version))
        return found

    rows = with_store(url, change)
    output.document({"queues": rows})
    words = ("is paused", "was paused already") if paused else ("goes on", "was not paused")
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

    A change works at once, also for jobs that wait already.
    """
    output = Output(json=json)
    if shards is not None and not new:
        raise Refused("bad_config", "a queue keeps its shards for ever; --shards goes with --new")
    asked = read_changes(changes)

    async def change(store: Store) -> QueueConfigured:
        queue = await _queue(store, tenant, name, shards) if new else await queue_of(store, tenant, name)
        before = await store.queues.configuration(queue)
        after = await store.queues.configure(queue, asked, version=if_version)
        told = [QueueSetting(field, getattr(before, field), getattr(after, field)) for field in asked]
        return QueueConfigured(queue.full_name, tenant, after.version, told)

    done = with_store(url, change, new=new)
    output.document(done)
    for each in done.changes:
        before, after = value_text(each.name, each.before), value_text(each.name, each.after)
        output.say(f"{each.name}: {before} → {after}" if before != after else f"{each.name}: {after}, as before")
    output.say(f"queue {done.queue!r} has version {done.version} of its configuration now")


async def _queue(store: Store, tenant: str, name: str, shards: int | None) -> Queue:
    """The queue that is there, or the one that is to be made."""
    queue = await find_queue(store, tenant, name)
    if queue is None:
        return Queue(name, tenant, shards or 1)
    if shards not in (None, queue.shards):
        raise Refused("wrong_shards", f"queue {name!r} has {queue.shards} shards and keeps them; found {shards}")
    return queue
