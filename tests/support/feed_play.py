"""A feed with a manual clock, and short calls for tests of feeds."""

from collections.abc import Awaitable

import pytest

from headrace.model.errors import Refused
from headrace.model.feed import (
    LAST,
    Changed,
    FeedConfig,
    FeedCursor,
    FeedName,
    FeedType,
    Item,
    ItemPosition,
    Move,
    Publication,
)
from headrace.model.results import Changes, FeedState, ItemsSnapshot, Published
from headrace.stores.contract.store import Store
from tests.support.play import START_MS

PAGES_MAX = 200
"""More pages than anything in the tests has: a list that never ends fails instead of hanging."""


class FeedPlay:
    """One feed of one tenant, an instance that changes it, and a clock that moves only when changes."""

    def __init__(self, store: Store, *, name: str = "news", tenant: str = "acme", instance: str = "me") -> None:
        self.store = store
        self.name = FeedName(name, tenant)
        self.instance = instance
        self.now_ms = START_MS

    def advance(self, ms: int) -> int:
        """Move the clock."""
        self.now_ms += ms
        return self.now_ms

    @property
    def directory(self) -> "FeedPlay":
        """The directory of the tenant, at the same instant."""
        found = FeedPlay(self.store, name="*", tenant=self.name.tenant, instance=self.instance)
        found.now_ms = self.now_ms
        return found

    async def create(self, type: FeedType = "feed", /, **changes: object) -> FeedConfig:
        """Create the feed now."""
        return await self.store.feeds.create(self.name, type, changes, instance=self.instance, now_ms=self.now_ms)

    async def configure(self, version: int | None = None, /, **changes: object) -> FeedConfig:
        """Change its configuration now; with a version, only if that is in force."""
        return await self.store.feeds.configure(
            self.name, changes, instance=self.instance, version=version, now_ms=self.now_ms
        )

    async def delete(self) -> None:
        """Delete it now."""
        await self.store.feeds.delete(self.name, instance=self.instance, now_ms=self.now_ms)

    async def sweep(self) -> int:
        """Sweep it now."""
        return await self.store.feeds.sweep(self.name, now_ms=self.now_ms)

    async def publish_all(self, *publications: Publication) -> list[Published]:
        """Publish a batch now."""
        answers = await self.store.items.publish(self.name, publications, instance=self.instance, now_ms=self.now_ms)
        return list(answers)

    async def publish(self, id: str | None = None, item: bytes = b"1", position: ItemPosition = LAST) -> Published:
        """Publish one item now."""
        [answer] = await self.publish_all(Publication(item, id, position))
        return answer

    async def put(self, *ids: str, item: bytes = b"1", position: ItemPosition = LAST) -> list[str]:
        """Publish items under these ids in one call; returns their statuses."""
        return [answer.status for answer in await self.publish_all(*[Publication(item, id, position) for id in ids])]

    async def edit(self, id: str, item: bytes = b"2") -> str:
        """Replace the item of a known id now; returns the status."""
        [answer] = await self.publish_all(Publication(item, id, edit=True))
        return answer.status

    async def retract(self, *ids: str) -> list[str]:
        """Retract items now; returns their statuses."""
        answers = await self.store.items.retract(self.name, ids, instance=self.instance, now_ms=self.now_ms)
        return [answer.status for answer in answers]

    async def move(self, id: str, position: ItemPosition) -> str:
        """Move one item now; returns the status."""
        [answer] = await self.store.items.move(
            self.name, [Move(id, position)], instance=self.instance, now_ms=self.now_ms
        )
        return answer.status

    async def take(self, limit: int = 1) -> list[str]:
        """Take the next items now; their ids."""
        return [each.id for each in await self.store.items.take(self.name, limit, now_ms=self.now_ms)]

    async def item(self, id: str) -> Item | None:
        """The item of an id now."""
        [found] = await self.store.items.find(self.name, [id], now_ms=self.now_ms)
        return found

    async def pages(self, limit: int = 1_000) -> list[ItemsSnapshot]:
        """All pages of the list of items now."""
        found: list[ItemsSnapshot] = []
        cursor: str | None = None
        while not found or cursor is not None:
            page = await self.store.items.list(self.name, cursor=cursor, limit=limit, now_ms=self.now_ms)
            found.append(page)
            cursor = page.cursor
            assert len(found) < PAGES_MAX, "the list does not end"
        return found

    async def items(self) -> dict[str, bytes]:
        """All items now, in order."""
        return {each.id: each.item for page in await self.pages() for each in page.rows}

    async def ids(self) -> list[str]:
        """The ids of all items now, in order."""
        return list(await self.items())

    async def state(self) -> FeedState:
        """How the feed stands, which must be there."""
        state = await self.store.feeds.describe(self.name)
        assert state is not None, f"there is no feed {self.name}"
        return state

    async def end(self) -> FeedCursor:
        """Where the log ends."""
        return (await self.state()).cursor

    async def page(self, after: FeedCursor | None = None, limit: int = 1_000) -> Changes:
        """The next changes behind a cursor."""
        return await self.store.feeds.changes(self.name, after, limit=limit)

    async def changes(self, after: FeedCursor | None = None, limit: int = 1_000) -> list[Changed]:
        """All changes behind a cursor, which must be kept."""
        found: list[Changed] = []
        for _ in range(PAGES_MAX):
            page = await self.page(after, limit)
            assert page.status == "kept", f"the log is {page.status}"
            found += page.rows
            if not page.more:
                return found
            after = page.cursor
        raise AssertionError("the log does not end")

    async def events(self, after: FeedCursor | None = None) -> list[str]:
        """The changes behind a cursor as short texts: the event and, if it has one, the id."""
        return [f"{each.event} {each.id}".rstrip() for each in await self.changes(after)]

    async def snapshot(self) -> object:
        """Everything that could change, for showing that nothing did."""
        found: list[object] = []
        for each in (self, self.directory):
            state = await each.store.feeds.describe(each.name)
            found += [state, await each.store.items.snapshot(each.name, now_ms=each.now_ms)]
            found.append(await each.changes() if state is not None else [])
        return found


async def refused(call: Awaitable[object]) -> str:
    """The short name of the refusal that a call must end with, in a sentence."""
    with pytest.raises(Refused) as raised:
        pytest.fail(f"it was granted: {await call}")
    assert len(str(raised.value).split()) > 3, f"not a sentence: {raised.value}"
    return raised.value.reason
