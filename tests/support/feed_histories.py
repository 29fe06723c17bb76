"""Random histories of feeds: one operation after the other, drawn from a random source and played on any store."""

from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.feed import FIRST, LAST, FeedCursor, FeedName, FeedType, ItemPosition, Move, Publication
from headrace.model.limits import ITEM_BYTES_MAX
from headrace.stores.contract.store import Store

START_MS = 1_700_000_000_000
DAY_MS = 24 * 3_600_000
IDS = ("a", "b", "c", "1", "2", "7", "007", "٣", "nul\0", "line\nline", "c:{1}", "é𝄞", "999999999999998")
"""Numbers among them, which a sorted feed must not draw again."""
ITEMS = (b"1", b"", b"\xff\x00\n", b'{"n":1}')
NEWS, BOARD, INBOX = FeedName("news", "acme"), FeedName("board", "acme"), FeedName("in.box", "acme")
OTHER = FeedName("news", "other")
FEEDS = (NEWS, BOARD, INBOX, OTHER)
EVERYWHERE = (*FEEDS, NEWS.directory, OTHER.directory)
USUAL: dict[FeedName, FeedType] = {NEWS: "feed", BOARD: "sorted", INBOX: "queue", OTHER: "sorted"}
BOUNDS: tuple[dict[str, object], ...] = (
    {},
    {"items_max": 1},
    {"items_max": 3},
    {"items_max": 100},
    {"items_keep_ms": 50},
    {"items_keep_ms": 0},
    {"changes_keep_max": 1},
    {"changes_keep_max": 4},
    {"changes_keep_max": 100},
    {"changes_keep_ms": 20},
    {"changes_keep_ms": 5_000, "items_max": 2},
    {"changes_bytes_max": 1024 * 1024},
    {"type": "feed"},
    {"items_max": 0},
)
"""Small ones, so that evictions and gaps are common; some that are refused."""


class FeedOp(Struct, frozen=True):
    """One operation with all its arguments; a number as a cursor is a position in the list of those seen so far."""

    verb: str
    feed: FeedName
    at_ms: int
    arguments: dict[str, Any]


class FeedDraw:
    """Draws operations that tend to meet one another: few feeds, few ids, small bounds."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._now_ms = START_MS
        self._types: dict[FeedName, FeedType] = {}
        # Few, so that they meet.
        self._ids = ("1", *random.sample(IDS, 4))
        self._feeds = (BOARD, *random.sample(FEEDS, 2))

    def _pick(self, *choices: Any) -> Any:
        return choices[self._random.randrange(len(choices))]

    def op(self) -> FeedOp:
        """The next operation."""
        self._now_ms += self._pick(0, 0, 0, 1, 5, 20, 100, 1_000)
        feed: FeedName = self._pick(*self._feeds, *self._feeds, *self._feeds, *FEEDS)
        # Most of what can happen needs a feed, and some of it one of its type.
        type = self._types.get(feed) if self._random.randrange(15) else self._pick("feed", "sorted", "queue")
        verb = "create" if type is None else self._pick(*VERBS, *FITTING[type])
        at_ms = self._now_ms - self._pick(0, 0, 0, 0, 0, 50)
        if verb in ("changes", "find", "list", "changed", "sweep"):
            feed = self._pick(feed, feed, feed, feed, feed.directory)
        if verb == "sweep" and feed.is_directory:
            at_ms = self._now_ms = self._now_ms + self._pick(0, 2 * DAY_MS)
        return FeedOp(verb, feed, at_ms, getattr(self, f"_{verb}")(feed))

    def _who(self) -> str:
        return str(self._pick("one", "two:é"))

    def _create(self, feed: FeedName) -> dict[str, Any]:
        usual = USUAL[feed]
        type = self._pick(usual, usual, usual, "feed", "sorted", "queue")
        changes = self._pick({}, self._pick(*BOUNDS))
        is_refused = (
            "type" in changes or changes.get("items_max") == 0 or (changes.get("items_keep_ms") and type != "feed")
        )
        if feed not in self._types and not is_refused:
            self._types[feed] = type
        return {"type": type, "changes": changes, "instance": self._who()}

    def _configure(self, _: FeedName) -> dict[str, Any]:
        return {
            "changes": self._pick(*BOUNDS),
            "instance": self._who(),
            "version": self._pick(None, None, None, 0, 1),
        }

    def _delete(self, feed: FeedName) -> dict[str, Any]:
        self._types.pop(feed, None)
        return {"instance": self._who()}

    def _place(self, type: FeedType) -> ItemPosition:
        id = self._pick(*self._ids)
        fitting = {
            "feed": (LAST,),
            "queue": (LAST, LAST, FIRST),
            "sorted": (LAST, LAST, FIRST, FIRST, ItemPosition("before", id), ItemPosition("after", id)),
        }
        if self._random.randrange(60) == 59:
            type = "sorted"
        return self._pick(*fitting[type])  # type: ignore[no-any-return]

    def _item(self) -> bytes:
        if self._random.randrange(40) == 39:
            return b"x" * ITEM_BYTES_MAX  # five of these are beyond the least bound of a log
        return self._pick(*ITEMS)  # type: ignore[no-any-return]

    def _publication(self, feed: FeedName) -> Publication:
        type = self._types.get(feed, "feed")
        id = self._pick(*self._ids)
        if type == "sorted" or self._random.randrange(60) == 59:
            id = self._pick(id, id, None)
        edits = (0, 0, 0, 0, 1) if type != "queue" else (0,) * 60 + (1,)
        if id is not None and self._pick(*edits):
            return Publication(self._item(), id, edit=True)
        return Publication(self._item(), id, self._place(type))

    def _publish(self, feed: FeedName) -> dict[str, Any]:
        count = self._pick(1, 1, 1, 2, 3, 6)
        return {"publications": [self._publication(feed) for _ in range(count)], "instance": self._who()}

    def _retract(self, _: FeedName) -> dict[str, Any]:
        return {"ids": [self._pick(*self._ids) for _ in range(self._pick(1, 1, 2))], "instance": self._who()}

    def _move(self, _: FeedName) -> dict[str, Any]:
        moves = [Move(self._pick(*self._ids), self._place("sorted")) for _ in range(self._pick(1, 2, 4))]
        return {"moves": moves, "instance": self._who()}

    def _take(self, _: FeedName) -> dict[str, Any]:
        return {"limit": self._pick(1, 1, 2, 10)}

    def _find(self, _: FeedName) -> dict[str, Any]:
        return {"ids": [self._pick(*self._ids, "news") for _ in range(3)]}

    def _list(self, _: FeedName) -> dict[str, Any]:
        return {"limit": self._pick(1, 2, 100)}

    def _changes(self, _: FeedName) -> dict[str, Any]:
        return {**self._changed(_), "limit": self._pick(1, 2, 100)}

    def _changed(self, _: FeedName) -> dict[str, Any]:
        forged = {"epoch": self._pick(0, 1, -1), "seq": self._pick(0, 1, -1, 5)}
        return {"cursor": self._pick(None, 0, self._random.randrange(1_000)), "forged": self._pick({}, {}, forged)}

    def _sweep(self, _: FeedName) -> dict[str, Any]:
        return {}


VERBS = (
    *("publish",) * 12,
    *("retract",) * 2,
    *("changes",) * 3,
    *("configure",) * 3,
    *("sweep",) * 2,
    "delete",
    "create",
    "changed",
    "find",
    "list",
)
FITTING = {"feed": (), "sorted": ("move",) * 6, "queue": ("take",) * 5}


class FeedActor:
    """Runs operations on one store and keeps the cursors of its answers."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._cursors: dict[FeedName, list[FeedCursor]] = {feed: [] for feed in EVERYWHERE}

    async def play(self, op: FeedOp) -> object:
        """The answer of the store, or the reason of its refusal."""
        try:
            match op.verb:
                case "create" | "configure" | "delete" | "sweep":
                    answer = await getattr(self.store.feeds, op.verb)(op.feed, now_ms=op.at_ms, **op.arguments)
                case "changes":
                    return await self._changes(op.feed, **op.arguments)
                case "changed":
                    return await self._changed(op.feed, **op.arguments)
                case "list":
                    return await self.listed(op.feed, op.at_ms, **op.arguments)
                case _:
                    answer = await getattr(self.store.items, op.verb)(op.feed, now_ms=op.at_ms, **op.arguments)
        except Refused as refused:
            return refused.reason
        return list(answer) if isinstance(answer, list | tuple) else answer

    def _cursor(self, feed: FeedName, cursor: int | None, forged: dict[str, int]) -> FeedCursor | None:
        seen = self._cursors[feed]
        if cursor is None or not seen:
            return None
        picked = seen[-1 - cursor % len(seen)]
        return replace(picked, **{name: max(getattr(picked, name) + by, 0) for name, by in forged.items()})

    async def _changes(self, feed: FeedName, cursor: int | None, forged: dict[str, int], limit: int) -> object:
        answer = await self.store.feeds.changes(feed, self._cursor(feed, cursor, forged), limit=limit)
        self._remember(feed, answer.cursor)
        return answer

    async def _changed(self, feed: FeedName, cursor: int | None, forged: dict[str, int]) -> object:
        return await self.store.signals.changed(feed, self._cursor(feed, cursor, forged), 0)

    def _remember(self, feed: FeedName, cursor: FeedCursor | None) -> None:
        if cursor is not None and cursor not in self._cursors[feed]:
            self._cursors[feed] = [*self._cursors[feed][-9:], cursor]

    async def listed(self, feed: FeedName, now_ms: int, limit: int) -> object:
        """All pages of a list; where one goes on is the store's own affair."""
        pages: list[object] = []
        cursor: str | None = None
        while not pages or cursor is not None:
            page = await self.store.items.list(feed, cursor=cursor, limit=limit, now_ms=now_ms)
            pages.append((page.rows, page.as_of))
            self._remember(feed, page.as_of)
            cursor = page.cursor
        return pages

    async def everything(self, now_ms: int) -> dict[str, object]:
        """All that can be seen of the feeds of a store."""
        seen: dict[str, object] = {}
        for feed in EVERYWHERE:
            seen[f"describe {feed}"] = await self.store.feeds.describe(feed)
            seen[f"list {feed}"] = await self.listed(feed, now_ms, 4)
            seen[f"snapshot {feed}"] = await self.store.items.snapshot(feed, now_ms=now_ms)
            seen[f"find {feed}"] = list(await self.store.items.find(feed, IDS, now_ms=now_ms))
            seen[f"changes {feed}"] = await self._log(feed)
        return seen

    async def _log(self, feed: FeedName) -> object:
        pages = [await self.store.feeds.changes(feed, limit=10)]
        while pages[-1].more:
            pages.append(await self.store.feeds.changes(feed, pages[-1].cursor, limit=10))
        return pages
