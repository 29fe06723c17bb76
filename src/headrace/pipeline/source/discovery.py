"""Finds the queues and feeds that the options of a read name."""

import asyncio
from collections.abc import Iterable, Sequence

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.model.limits import LOOKS_AT_ONCE
from headrace.model.names import Queue
from headrace.model.results import FeedState
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.stores.catalog import all_feeds, all_queues, all_tenants, find_queue
from headrace.stores.contract.store import Store


async def find_queues(store: Store, options: SourceOptions) -> list[Queue]:
    """The queues to read, by tenant and name; refuses a name that no tenant in question has."""
    tenants = await all_tenants(store) if options.tenant == ALL else [options.tenant]
    if not options.names:
        queues = [queue for tenant in tenants for queue in await all_queues(store, tenant)]
        return [queue for queue in queues if options.selects(queue.full_name)]
    names = sorted(set(options.names))
    answers = [await find_queue(store, tenant, name) for tenant in tenants for name in names]
    found = [queue for queue in answers if queue is not None]
    if missing := set(names) - {queue.full_name for queue in found}:
        known = {queue.full_name for tenant in tenants for queue in await all_queues(store, tenant)}
        _check_missing("queue", known - missing, options)
    return found


async def find_feeds(store: Store, options: SourceOptions) -> list[FeedName]:
    """The feeds to read, by tenant and name; refuses a name that no tenant in question has."""
    if options.tenant == ALL:
        raise BadConfig("feeds are read of one tenant at a time; name it with option tenant")
    known = await all_feeds(store, options.tenant)
    if not options.names:
        return known
    _check_missing("feed", {feed.name for feed in known}, options)
    return [feed for feed in known if feed.name in options.names]


def _check_missing(thing: str, known: Iterable[str], options: SourceOptions) -> None:
    names = sorted(set(known))
    missing = [name for name in options.names if name not in names]
    if missing:
        owner = "any tenant" if options.tenant == ALL else f"tenant {options.tenant!r}"
        raise BadConfig(f"there is no {thing} {', '.join(map(repr, missing))} of {owner}; {_hint(thing, names)}")


def _hint(thing: str, names: list[str]) -> str:
    if not names:
        return f"there are no {thing}s at all; check option tenant and the url"
    return f"known {thing}s: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"


async def feed_states(store: Store, feeds: Sequence[FeedName]) -> list[FeedState | None]:
    """The state of each feed in turn; None of one that is not there."""
    found: list[FeedState | None] = []
    for first in range(0, len(feeds), LOOKS_AT_ONCE):
        found += await asyncio.gather(*map(store.feeds.describe, feeds[first : first + LOOKS_AT_ONCE]))
    return found
