"""Pages of the ids of a state in a shard by code point, found without an index.

Redis orders no hash by its fields, and an index by id would cost each job some hundred bytes for the sake of people who
page through a list. So the ids of a shard are scanned in chunks, outside any atomic step, and the smallest ones behind
the cursor are kept. The server works on no chunk for longer than on a claim and sends only ids that may be kept.

A scan looks at every id of the state. So a walk keeps what its next pages hold: the first scan keeps one large page,
which is all that most lists ask for, later ones as many ids as may be kept at all. A walk takes a few scans, not one
for each page. A cursor says how far the journal was when the walk came to the shard: ids that were found for a walk
that came earlier may lack jobs that this one has to show.

It is exact for what stays: a scan shows everything that is there from its beginning to its end, bodies stay in one hash
while their job waits or runs, and what is kept ends with the largest id that it holds.
"""

import re
from bisect import bisect_right

from msgspec import Struct

from headrace.model.job import State
from headrace.model.limits import LIST_IDS_KEPT_MAX, PAGE_MAX, SCAN_PART_BYTES, SCAN_PER_CALL_MAX
from headrace.model.names import Shard
from headrace.stores.redis.asking import ask
from headrace.stores.redis.link import Link

_BEGAN = re.compile(r"\d{1,20}\.\d{1,20}", re.ASCII)
"""The epoch and seq of a journal."""
_SINCE = "\0"
"""Between the id behind which a list goes on and when its walk began, which no id can hold."""


def is_place(text: str) -> bool:
    """Whether a text is a place in a list: as `IdPages` gives it, or a bare id, behind which a walk begins."""
    after, _, began = text.partition(_SINCE)
    return bool(after and (not began or _BEGAN.fullmatch(began)))


class _Kept(Struct, frozen=True):
    """The ids of a state behind one of them, in order."""

    after: bytes
    ids: list[bytes]
    is_rest: bool
    """Whether these are all that follow."""

    def page(self, after: bytes, limit: int) -> list[bytes] | None:
        """The next ids behind `after`; None when they are not all known."""
        if after < self.after:
            return None
        start = bisect_right(self.ids, after)
        page = self.ids[start : start + limit]
        return page if self.is_rest or len(page) == limit else None


class IdPages:
    """Gives walks through a list their pages. Belongs to the event loop of its link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._walks: dict[tuple[Shard, State, str], _Kept] = {}
        """What is kept for walks through a state that came to the shard at the same seq, the last used at the end."""

    async def take(self, shard: Shard, state: State, place: str, limit: int) -> tuple[list[str], str]:
        """The ids of a state behind a place ("" is the beginning), by code point, at most `limit` and fewer at the end
        only; and the place behind the last of them."""
        last, _, began = place.partition(_SINCE)
        after = last.encode()
        kept = self._walks.pop((shard, state, began), None)
        if kept is None or (page := kept.page(after, limit)) is None:
            count = PAGE_MAX if kept is None else max(LIST_IDS_KEPT_MAX, PAGE_MAX)
            found_at, ids = await _smallest_ids(self._link, shard, state, after, count)
            kept = _Kept(after, ids, len(ids) < count)
            page = ids[:limit]
            began = began or found_at
        if len(page) == limit:
            self._keep((shard, state, began), kept)
        found = [id.decode() for id in page]
        return found, f"{found[-1]}{_SINCE}{began}" if found else place

    def _keep(self, walk: tuple[Shard, State, str], kept: _Kept) -> None:
        """Keep ids for a walk, and drop those of the walks that have not asked for longest if there are too many."""
        self._walks.setdefault(walk, kept)
        total = sum(len(each.ids) for each in self._walks.values())
        while total > LIST_IDS_KEPT_MAX and len(self._walks) > 1:
            total -= len(self._walks.pop(next(iter(self._walks))).ids)


async def _smallest_ids(link: Link, shard: Shard, state: State, after: bytes, count: int) -> tuple[str, list[bytes]]:
    """How far the journal was at the beginning, and the ids of a state with `id > after`, by code point, at most
    `count`."""
    found: set[bytes] = set()  # a scan may show an id twice
    began, below, cursor = "", b"", b"0"
    while True:
        given = [state.value, cursor, SCAN_PER_CALL_MAX, SCAN_PART_BYTES, after, below]
        [answer] = await ask(link, "list", [shard], given, reads=True)
        if answer is None:
            return began, []
        epoch, seq, cursor, ids = answer
        began = began or f"{int(epoch)}.{int(seq)}"
        found.update(ids)
        is_over = cursor == b"0"
        if is_over or len(found) >= 2 * count:
            ids = sorted(found)[:count]  # UTF-8 orders like code points
            if is_over:
                return began, ids
            found, below = set(ids), ids[-1]
