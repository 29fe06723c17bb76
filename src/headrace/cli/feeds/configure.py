"""`headrace feeds create`, `configure` and `delete`: creates feeds, changes their settings and deletes them."""

from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.feeds.options import Name, instance, writable_feed
from headrace.cli.options import TENANT, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output, counted
from headrace.cli.parse import read_settings, typed_duration, value_text
from headrace.cli.store_access import with_store
from headrace.inspect.feeds import feed_of, feed_row
from headrace.model.feed import FEED_SETTABLE, FeedConfig, FeedName, FeedType
from headrace.model.results import FeedState
from headrace.model.times import duration_ms
from headrace.stores.contract.store import Store

DEFAULT = FeedConfig()
Type = Annotated[
    FeedType,
    typer.Option(
        "--type", help="feed: in order of publication; sorted: each item in its position; queue: items are taken."
    ),
]
ItemsMax = Annotated[
    int | None,
    typer.Option("--items-max", help=f"Items to hold at most; {DEFAULT.items_max:,} by default."),
]
ItemsKeep = Annotated[
    str | None, typer.Option("--items-keep", metavar="DURATION", help="Evict items of a feed after this time: 1h, 7d.")
]
ChangesKeep = Annotated[
    str | None,
    typer.Option(
        "--changes-keep", metavar="DURATION", help="Keep changes for disconnected readers this long: 1h; 1d by default."
    ),
]
ChangesKeepMax = Annotated[
    int | None,
    typer.Option("--changes-keep-max", help=f"Changes to keep at most; {DEFAULT.changes_keep_max:,} by default."),
]
ChangesBytesMax = Annotated[
    int | None,
    typer.Option(
        "--changes-bytes-max", help=f"Bytes of changes to keep at most; {DEFAULT.changes_bytes_max:,} by default."
    ),
]
Changes = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE…", help="Settings to change: items_max=500, items_keep=1h, changes_keep=2d, …"),
]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Change only this version of the configuration.")
]


class FeedSetting(Struct, frozen=True):
    """One setting before and after."""

    name: str
    before: int
    after: int


class FeedConfigured(Struct, frozen=True):
    """A feed whose configuration was changed."""

    feed: str
    tenant: str
    version: int
    changes: list[FeedSetting]


class FeedDeleted(Struct, frozen=True):
    """A feed that was deleted, or would be."""

    feed: str
    tenant: str
    items: int
    deleted: bool
    dry_run: bool


def create(
    name: Name,
    type: Type = "feed",
    items_max: ItemsMax = None,
    items_keep: ItemsKeep = None,
    changes_keep: ChangesKeep = None,
    changes_keep_max: ChangesKeepMax = None,
    changes_bytes_max: ChangesBytesMax = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    json: Json = False,
) -> None:
    """Create a feed.

    The type cannot be changed later. A full feed evicts its oldest items; the other types refuse new ones.

    Example: headrace feeds create news --items-max 500
    """
    output = Output(json=json)
    options: dict[str, object] = {
        "items_max": items_max,
        "items_keep_ms": None if items_keep is None else duration_ms("items_keep", typed_duration(items_keep)),
        "changes_keep_max": changes_keep_max,
        "changes_keep_ms": None if changes_keep is None else duration_ms("changes_keep", typed_duration(changes_keep)),
        "changes_bytes_max": changes_bytes_max,
    }
    settings = {field: value for field, value in options.items() if value is not None}
    feed = writable_feed(name, tenant)

    async def make(store: Store) -> FeedState:
        await store.feeds.create(feed, type, settings, instance=instance())
        return await feed_of(store, tenant, name)

    state = with_store(url, make, new=True)
    output.document(feed_row(state))
    output.say(f"{type_text(state.config.type)} {name!r} of tenant {tenant!r} was created")


def type_text(type: FeedType) -> str:
    """A type in words."""
    return {"feed": "feed", "sorted": "sorted feed", "queue": "item queue"}[type]


def configure(
    name: Name,
    changes: Changes,
    url: Url = None,
    tenant: Tenant = TENANT,
    if_version: IfVersion = None,
    json: Json = False,
) -> None:
    """Change settings of a feed.

    A lower bound evicts items with the next publication.

    Example: headrace feeds configure news items_max=500 items_keep=7d
    """
    output = Output(json=json)
    settings = read_settings("feeds", {field: getattr(DEFAULT, field) for field in FEED_SETTABLE}, changes)
    feed = writable_feed(name, tenant)

    async def change(store: Store) -> FeedConfigured:
        before = (await feed_of(store, tenant, name)).config
        after = await store.feeds.configure(feed, settings, instance=instance(), version=if_version)
        rows = [FeedSetting(field, getattr(before, field), getattr(after, field)) for field in settings]
        return FeedConfigured(name, tenant, after.version, rows)

    done = with_store(url, change)
    output.document(done)
    for each in done.changes:
        before, after = value_text(each.name, each.before), value_text(each.name, each.after)
        output.say(f"{each.name}: {before} → {after}" if before != after else f"{each.name}: {after}, as before")
    output.say(f"feed {name!r} has version {done.version} of its configuration")


def delete(
    name: Name,
    url: Url = None,
    tenant: Tenant = TENANT,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete a feed with its items, changes and configuration.

    Example: headrace feeds delete news
    """
    output = Output(json=json)
    feed = writable_feed(name, tenant)
    done = with_store(url, lambda store: _delete(store, output, feed, dry_run, yes))
    output.document(done)
    output.say(f"feed {name!r} {'would be' if dry_run else 'was'} deleted")


async def _delete(store: Store, output: Output, feed: FeedName, dry_run: bool, yes: bool) -> FeedDeleted:
    state = await feed_of(store, feed.tenant, feed.name)
    if not dry_run:
        output.confirm(
            f"Delete {type_text(state.config.type)} {feed.name!r} of tenant {feed.tenant!r} for good, with"
            f" {counted(state.items, 'item')} and {counted(feed_row(state).changes, 'change')}?",
            yes=yes,
        )
        await store.feeds.delete(feed, instance=instance())
    return FeedDeleted(feed.name, feed.tenant, state.items, not dry_run, dry_run)
