"""`headrace feeds create`, `configure` and `delete`: feeds come, are set otherwise, and go."""

from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.feeds.list import feed_dict, kept_changes
from headrace.cli.feeds.options import Name, Tenant, feed_of, instance, writable
from headrace.cli.options import TENANT, DryRun, Json, Url, Yes
from headrace.cli.output import Output, counted
from headrace.cli.parse import read_settings, value_text, written
from headrace.cli.store_access import with_store
from headrace.model.feed import FEED_SETTABLE, FeedConfig, FeedName, FeedType
from headrace.model.results import FeedState
from headrace.model.times import duration_ms
from headrace.stores.contract.store import Store

DEFAULT = FeedConfig()
Type = Annotated[
    FeedType,
    typer.Option("--type", help="feed: in order of publication; sorted: each at its place; plain: items are taken."),
]
ItemsMax = Annotated[
    int | None,
    typer.Option("--items-max", help=f"Items it holds; {DEFAULT.items_max:,} for a feed when not given."),
]
ItemsKeep = Annotated[
    str | None, typer.Option("--items-keep", metavar="DURATION", help="Evict items of a feed after this time: 1h, 7d.")
]
ChangesKeep = Annotated[
    str | None,
    typer.Option("--changes-keep", metavar="DURATION", help="Keep changes for readers that are away: 1h; 1d else."),
]
ChangesKeepMax = Annotated[
    int | None,
    typer.Option("--changes-keep-max", help=f"Keep so many changes; {DEFAULT.changes_keep_max:,} else."),
]
ChangesBytesMax = Annotated[
    int | None,
    typer.Option("--changes-bytes-max", help=f"Keep so many bytes of them; {DEFAULT.changes_bytes_max:,} else."),
]
Changes = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE…", help="What to change: items_max=500, items_keep=1h, changes_keep=2d, …"),
]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Only if nobody has changed it since this version.")
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

    Its type is chosen for ever. A feed evicts its oldest items; the other types refuse what is too much.
    """
    output = Output(json=json)
    given: dict[str, object] = {
        "items_max": items_max,
        "items_keep_ms": None if items_keep is None else duration_ms("items_keep", written(items_keep)),
        "changes_keep_max": changes_keep_max,
        "changes_keep_ms": None if changes_keep is None else duration_ms("changes_keep", written(changes_keep)),
        "changes_bytes_max": changes_bytes_max,
    }
    settings = {field: value for field, value in given.items() if value is not None}
    feed = writable(name, tenant)

    async def make(store: Store) -> FeedState:
        await store.feeds.create(feed, type, settings, instance=instance())
        return await feed_of(store, tenant, name)

    state = with_store(url, make, new=True)
    output.document(feed_dict(state))
    output.say(f"{described(state.config.type)} {name!r} of tenant {tenant!r} was created")


def described(type: FeedType) -> str:
    """A type as people say it."""
    return {"feed": "feed", "sorted": "sorted feed", "plain": "plain queue"}[type]


def configure(
    name: Name,
    changes: Changes,
    url: Url = None,
    tenant: Tenant = TENANT,
    if_version: IfVersion = None,
    json: Json = False,
) -> None:
    """Change settings of a feed.

    A lower bound evicts with the next publication.
    """
    output = Output(json=json)
    asked = read_settings("feeds", {field: getattr(DEFAULT, field) for field in FEED_SETTABLE}, changes)
    feed = writable(name, tenant)

    async def change(store: Store) -> FeedConfigured:
        before = (await feed_of(store, tenant, name)).config
        after = await store.feeds.configure(feed, asked, instance=instance(), version=if_version)
        told = [FeedSetting(field, getattr(before, field), getattr(after, field)) for field in asked]
        return FeedConfigured(name, tenant, after.version, told)

    done = with_store(url, change)
    output.document(done)
    for each in done.changes:
        before, after = value_text(each.name, each.before), value_text(each.name, each.after)
        output.say(f"{each.name}: {before} → {after}" if before != after else f"{each.name}: {after}, as before")
    output.say(f"feed {name!r} has version {done.version} of its configuration now")


def delete(
    name: Name,
    url: Url = None,
    tenant: Tenant = TENANT,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete a feed with its items, its changes and its configuration."""
    output = Output(json=json)
    feed = writable(name, tenant)
    done = with_store(url, lambda store: _deleted(store, output, feed, dry_run, yes))
    output.document(done)
    output.say(f"feed {name!r} {'would be' if dry_run else 'was'} deleted")


async def _deleted(store: Store, output: Output, feed: FeedName, dry_run: bool, yes: bool) -> FeedDeleted:
    state = await feed_of(store, feed.tenant, feed.name)
    if not dry_run:
        output.confirm(
            f"Delete {described(state.config.type)} {feed.name!r} of tenant {feed.tenant!r} for good, with"
            f" {counted(state.items, 'item')} and {counted(kept_changes(state), 'change')}?",
            yes=yes,
        )
        await store.feeds.delete(feed, instance=instance())
    return FeedDeleted(feed.name, feed.tenant, state.items, not dry_run, dry_run)
