"""Access to the feeds of a tenant: the store, who asks, and how items are written."""

import os
import socket
from collections.abc import Callable

from msgspec import Struct

from headrace.client.client import Client
from headrace.client.codec import Codec
from headrace.model.feed import FeedName, check_instance
from headrace.model.limits import INSTANCE_CHARS_MAX, SNAPSHOT_TRIES
from headrace.model.results import ItemsSnapshot
from headrace.stores.contract.store import Store


class FeedContext(Struct, frozen=True):
    """What a feed in a user's hands goes by. Belongs to the store's event loop."""

    store: Store
    tenant: str
    instance: str
    """Written with every change."""
    codec: Codec
    fresh_id: Callable[[], str]
    """An id that nobody has."""

    def name(self, name: str) -> FeedName:
        """A feed of the tenant."""
        return FeedName(name, self.tenant)


def context_of(client: Client, instance: str) -> FeedContext:
    """The access that a client has, as this instance."""
    maker = client.maker
    return FeedContext(client.store, maker.tenant, instance, maker.codec, maker.fresh_id)


class Instance:
    """Who makes changes: as given, else drawn anew in every process, so that the child of a fork is another."""

    def __init__(self, given: str | None = None) -> None:
        if given is not None:
            check_instance(given)
        self.given = given
        self._drawn: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """Its name in this process."""
        if self._drawn is None or self._drawn[0] != os.getpid():
            self._drawn = os.getpid(), new_instance(self.given)
        return self._drawn[1]

    def __reduce__(self) -> tuple[type["Instance"], tuple[str | None]]:
        return Instance, (self.given,)


def new_instance(given: str | None = None) -> str:
    """The instance that was given, else one that nobody has: host, process, chance."""
    if given is not None:
        check_instance(given)
        return given
    tail = f":{os.getpid()}:{os.urandom(3).hex()}"
    return socket.gethostname()[: INSTANCE_CHARS_MAX - len(tail)] + tail


async def snapshot(store: Store, feed: FeedName) -> ItemsSnapshot:
    """Read page by page, which holds up nobody; a feed that never rests is read in one step in the end."""
    for _ in range(SNAPSHOT_TRIES):
        page = await store.items.list(feed)
        rows, as_of = [*page.rows], page.as_of
        while page.cursor is not None and page.as_of == as_of:
            page = await store.items.list(feed, cursor=page.cursor)
            rows += page.rows
        if page.as_of == as_of:
            return ItemsSnapshot(rows, as_of)
    return await store.items.snapshot(feed)
