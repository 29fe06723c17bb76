"""`headrace queues show`: one queue with its counts, configuration, workers and journal."""

from typing import Annotated

import typer

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.parse import value_text
from headrace.cli.queues.list import COLUMNS, SPARE, queue_cells
from headrace.cli.store_access import with_store
from headrace.cli.workers import COLUMNS as WORKER_COLUMNS
from headrace.cli.workers import worker_cells
from headrace.inspect.queues import Setting, show_queue

Name = Annotated[str, typer.Argument(metavar="NAME", help="Queue to use; a fail queue is called NAME.fail.")]


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
