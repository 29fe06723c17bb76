"""The context of a tenant's feeds: the store, the instance name, the codec, and a snapshot of all items."""

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
    """Shared by all feeds that one `Feeds` opens. Belongs to the store's event loop."""

    store: Store
    tenant: str
    instance: str
    """Written with every change."""
    codec: Codec
    fresh_id: Callable[[], str]
    """Draws an unused id."""

    def name(self, name: str) -> FeedName:
        """A feed of the tenant."""
        return FeedName(name, self.tenant)


def context_of(client: Client, instance: str) -> FeedContext:
    """The context of a client's tenant, for changes by this instance."""
    maker = client.maker
    return FeedContext(client.store, maker.tenant, instance, maker.codec, maker.fresh_id)


class Instance:
    """The name under which changes are made: fixed, or drawn in every process, so that the child of a fork has its
    own."""

    def __init__(self, fixed: str | None = None) -> None:
        if fixed is not None:
            check_instance(fixed)
        self._fixed = fixed
        self._drawn: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """Its name in this process."""
        if self._drawn is None or self._drawn[0] != os.getpid():
            self._drawn = os.getpid(), instance_name(self._fixed)
        return self._drawn[1]

    def __reduce__(self) -> tuple[type["Instance"], tuple[str | None]]:
        return Instance, (self._fixed,)


def instance_name(fixed: str | None = None) -> str:
    """The fixed name, if any, else a unique name: host, process, random characters."""
    if fixed is not None:
        check_instance(fixed)
        return fixed
    tail = f":{os.getpid()}:{os.urandom(3).hex()}"
    return socket.gethostname()[: INSTANCE_CHARS_MAX - len(tail)] + tail


async def snapshot(store: Store, feed: FeedName) -> ItemsSnapshot:
    """All items at one instant. Read page by page, which blocks no writer; if the feed changes during every try, read
    in one step at last."""
    for _ in range(SNAPSHOT_TRIES):
        page = await store.items.list(feed)
        rows, as_of = [*page.rows], page.as_of
        while page.cursor is not None and page.as_of == as_of:
            page = await store.items.list(feed, cursor=page.cursor)
            rows += page.rows
        if page.as_of == as_of:
            return ItemsSnapshot(rows, as_of)
    return await store.items.snapshot(feed)
