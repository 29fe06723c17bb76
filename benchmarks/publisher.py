"""Publishes to a feed from a process of its own, each item with the instant of its call.

python -m benchmarks.publisher URL FEED COUNT PAUSE_MS
"""

import asyncio
import sys
import time

from headrace.feeds.feeds import Feeds
from headrace.stores.open import open_store


async def publish(url: str, name: str, count: int, pause_ms: int) -> None:
    """One item after the other, on a clock that all processes of a machine share."""
    store = await open_store(url)
    feed = await Feeds(store).feed(name)
    for _ in range(count):
        await asyncio.sleep(pause_ms / 1_000)
        await feed.publish(time.monotonic_ns())
    await store.close()


if __name__ == "__main__":
    asyncio.run(publish(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
