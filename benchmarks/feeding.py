"""What feeds can do: publications a second, how soon subscribers hear of them, insertions in the midst of a long sorted
feed beside Redis' own list, and bytes an item."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median, quantiles

from benchmarks.contenders import Contender
from benchmarks.costs import raw_memory_cost
from benchmarks.load import raw_inserts
from benchmarks.raw_redis import RawRedis
from benchmarks.running import Say
from benchmarks.worker import bare_wakes, where
from headrace.feeds.feeds import Feeds
from headrace.model.feed import FeedName, ItemPosition, Publication
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

FEED = FeedName("bench")
ITEM = b'{"text":"' + b"x" * 89 + b'"}'
AT_ONCE = 50
SUBSCRIBERS = (1, 100, 1_000)
LONG = 100_000


async def publishing(place: Contender, quick: bool, say: Say) -> dict[str, float]:
    """Publications a second: one after the other, by fifty tasks at once, and in batches of 100; plain rows, too."""
    say(f"publishing on {place.name}")
    store = await open_store(place.fresh_url())
    await store.feeds.create(FEED, instance="bench")
    singles, batches = (200, 10) if quick else (3_000, 300)

    async def one_by_one(count: int, name: str) -> None:
        for number in range(count):
            await store.items.publish(FEED, [Publication(ITEM, f"{name}-{number}")], instance="bench")

    found = {}
    start = time.perf_counter()
    await one_by_one(singles, "single")
    found["single"] = singles / (time.perf_counter() - start)
    each = max(singles // AT_ONCE, 2)
    start = time.perf_counter()
    await asyncio.gather(*[one_by_one(each, f"task-{number}") for number in range(AT_ONCE)])
    found["at once"] = each * AT_ONCE / (time.perf_counter() - start)
    start = time.perf_counter()
    for batch in range(batches):
        ids = [f"batch-{batch}-{number}" for number in range(100)]
        await store.items.publish(FEED, [Publication(ITEM, id) for id in ids], instance="bench")
    found["batch 100"] = batches * 100 / (time.perf_counter() - start)
    await store.close()
    if place.raw is not None:
        for what, total, batch in (("raw single", singles, 1), ("raw batch 100", batches * 100, 100)):
            raw = place.raw()
            found[what] = raw_inserts(raw, total, batch, 1, ITEM)
            raw.close()
    return found


async def delivering(place: Contender, quick: bool, say: Say) -> dict[int, dict[str, float]]:
    """Milliseconds from the call of a publication in another process to each subscriber of this one, by how many there
    are; of the last of them, too; and of a bare wake-up of one process."""
    with tempfile.TemporaryDirectory(prefix="headrace-bare-") as folder:
        bare = where(place, folder)
        woken = quantiles(bare_wakes(*bare, 10 if quick else 200), n=100) if bare else None
    found = {}
    for subscribers in SUBSCRIBERS:
        say(f"delivering to {subscribers:,} on {place.name}")
        count = 10 if quick else 200
        waits = await _deliver(place.fresh_url(), subscribers, count, pause_ms=20 if subscribers < 1_000 else 100)
        of_all = sorted(each for per_item in waits for each in per_item)
        cuts = quantiles(of_all, n=100)
        found[subscribers] = {"p50": cuts[49], "p99": cuts[98], "last p50": median(map(max, waits))}
        if woken is not None:
            found[subscribers] |= {"raw p50": woken[49], "raw p99": woken[98]}
    return found


async def _deliver(url: str, subscribers: int, count: int, pause_ms: int) -> list[list[float]]:
    """The waits in milliseconds of all subscribers, item by item."""
    store = await open_store(url)
    feed = await Feeds(store).feed("live")
    waits: list[list[float]] = [[] for _ in range(count)]
    are_live = asyncio.Semaphore(0)

    async def follow() -> None:
        heard = 0
        async for change in feed.subscribe(type=int):
            if change.event == "live":
                are_live.release()
            if change.event == "published":
                waits[heard].append((time.monotonic_ns() - change.item) / 1e6)
                heard += 1
            if heard == count:
                return

    tasks = [asyncio.create_task(follow()) for _ in range(subscribers)]
    for _ in range(subscribers):
        await are_live.acquire()
    command = [sys.executable, "-m", "benchmarks.publisher", url, "live", str(count), str(pause_ms)]
    publisher = await asyncio.create_subprocess_exec(*command, env={**os.environ})
    await asyncio.gather(*tasks)
    await publisher.wait()
    await store.close()
    return waits


async def _long_feed(store: Store, count: int) -> None:
    await store.feeds.create(FEED, "sorted", instance="bench")
    for start in range(0, count, 1_000):
        ids = [f"item-{number}" for number in range(start, min(start + 1_000, count))]
        await store.items.publish(FEED, [Publication(ITEM, id) for id in ids], instance="bench")


async def inserting(place: Contender, quick: bool, say: Say) -> dict[str, float]:
    """Microseconds to insert before the middle of a long sorted feed, one at a time and 100 in a call; on Redis also
    what its own LINSERT into a list of as many ids takes, and both as the server itself counts them."""
    count, inserts = (5_000, 20) if quick else (LONG, 500)
    say(f"inserting into {count:,} on {place.name}")
    store = await open_store(place.fresh_url())
    await _long_feed(store, count)
    middle = ItemPosition("before", f"item-{count // 2}")
    found = {}
    await store.items.publish(FEED, [Publication(ITEM, position=middle)], instance="bench")
    if place.redis is not None:
        place.redis.ask("CONFIG", "RESETSTAT")
    start = time.perf_counter()
    for _ in range(inserts):
        await store.items.publish(FEED, [Publication(ITEM, position=middle)], instance="bench")
    found["insert us"] = (time.perf_counter() - start) / inserts * 1e6
    if place.redis is not None:
        found["insert server us"] = _usec_per_call(place, "fcall")
        place.redis.ask("CONFIG", "RESETSTAT")
    batches = max(inserts // 25, 2)
    start = time.perf_counter()
    for _ in range(batches):
        await store.items.publish(FEED, [Publication(ITEM, position=middle)] * 100, instance="bench")
    found["insert us, batch 100"] = (time.perf_counter() - start) / batches / 100 * 1e6
    if place.redis is not None:
        found["insert server us, batch 100"] = _usec_per_call(place, "fcall") / 100
    await store.close()
    if place.redis is not None:
        found |= _linsert(place, count, inserts)
        found["times faster"] = found["LINSERT us"] / found["insert us"]
        found["times faster, batch 100"] = found["LINSERT us"] / found["insert us, batch 100"]
        found["times faster on the server"] = found["LINSERT server us"] / found["insert server us"]
        found["times faster on the server, batch 100"] = (
            found["LINSERT server us"] / found["insert server us, batch 100"]
        )
    return found


def _linsert(place: Contender, count: int, inserts: int) -> dict[str, float]:
    assert place.redis is not None
    place.fresh_url()
    raw = RawRedis(place.redis.port)
    for start in range(0, count, 1_000):
        raw.command("RPUSH", "list", *[f"item-{number}" for number in range(start, min(start + 1_000, count))])
    place.redis.ask("CONFIG", "RESETSTAT")
    began = time.perf_counter()
    for number in range(inserts):
        raw.command("LINSERT", "list", "BEFORE", f"item-{count // 2}", f"new-{number}")
    took = (time.perf_counter() - began) / inserts * 1e6
    raw.close()
    return {"LINSERT us": took, "LINSERT server us": _usec_per_call(place, "linsert")}


def _usec_per_call(place: Contender, command: str) -> float:
    assert place.redis is not None
    with place.redis.admin() as client:
        stats = client.info("commandstats")
    return float(stats[f"cmdstat_{command}"]["usec_per_call"])


async def weighing(place: Contender, quick: bool, say: Say) -> dict[str, float]:
    """Bytes of Redis for each item of 100: in all, and of that what the log takes."""
    assert place.redis is not None
    count = 5_000 if quick else LONG
    say(f"weighing {count:,} items on {place.name}")
    found = {}
    for changes_keep_max in (count + 1, 1):
        store = await open_store(place.fresh_url())
        settings = {"items_max": count, "changes_keep_max": changes_keep_max}
        await store.feeds.create(FEED, "feed", settings, instance="bench")
        with place.redis.admin() as client:
            before = client.info("memory")["used_memory"]
            for ids in _ids(count):
                await store.items.publish(FEED, [Publication(ITEM, id) for id in ids], instance="bench")
            after = client.info("memory")["used_memory"]
        await store.close()
        found["with log" if changes_keep_max > 1 else "without log"] = (after - before) / count
    assert place.raw is not None
    raw = raw_memory_cost(place.redis, place.raw(), count, ITEM)
    return found | {"raw with log": raw, "raw without log": raw}


def _ids(count: int) -> Sequence[list[str]]:
    """Ids as long as a UUID."""
    return [[f"{number:036}" for number in range(start, start + 1_000)] for start in range(0, count, 1_000)]
