"""The window of a hub: the last changes of a feed's log, in pages, bounded."""

from bisect import bisect_right

from headrace.feeds.told import Page
from headrace.model.feed import FeedCursor
from headrace.model.limits import HUB_BYTES_MAX, HUB_CHANGES_MAX


class Window:
    """Keeps pages that follow each other; the oldest fall out."""

    def __init__(self) -> None:
        self._pages: list[Page] = []
        self._starts: list[int] = []
        self._changes = 0
        self._bytes = 0

    def add(self, page: Page) -> None:
        """Keep a page that follows the last one."""
        self._pages.append(page)
        self._starts.append(page.after.seq)
        self._changes += len(page.rows)
        self._bytes += page.size
        while len(self._pages) > 1 and (self._changes > HUB_CHANGES_MAX or self._bytes > HUB_BYTES_MAX):
            oldest = self._pages.pop(0)
            self._starts.pop(0)
            self._changes -= len(oldest.rows)
            self._bytes -= oldest.size

    def page_behind(self, cursor: FeedCursor) -> Page | None:
        """The page that holds the change behind a cursor, if the cursor has seen what the window has before it."""
        at = bisect_right(self._starts, cursor.seq) - 1
        if at < 0:
            return None
        page = self._pages[at]
        fits = cursor.birth == page.end.birth and cursor.seq < page.end.seq and page.follows(cursor)
        return page if fits else None
