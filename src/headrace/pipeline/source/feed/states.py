"""How many feeds stand, asked in few rounds."""

import asyncio
from collections.abc import Sequence

from headrace.model.feed import FeedName
from headrace.model.limits import LOOKS_AT_ONCE
from headrace.model.results import FeedState
from headrace.stores.contract.store import Store


async def states_of(store: Store, feeds: Sequence[FeedName]) -> list[FeedState | None]:
    """The state of each feed in turn; None of one that is not there."""
    found: list[FeedState | None] = []
    for first in range(0, len(feeds), LOOKS_AT_ONCE):
        found += await asyncio.gather(*map(store.feeds.describe, feeds[first : first + LOOKS_AT_ONCE]))
    return found
