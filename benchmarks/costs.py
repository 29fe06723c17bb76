"""What a store costs beside time a job: claims by backlog, Redis's own CPU and memory, and waking up when idle."""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from statistics import median, quantiles

from benchmarks.contenders import Contender
from benchmarks.load import OPERATIONS, PAYLOAD, QUEUE, Raw, claim_of, ids_of, jobs_with, raw_inserts
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.support.redis_servers import RedisServer

BACKLOGS = (1_000, 100_000, 1_000_000)
CLAIMS = 20
Say = Callable[[str], None]


async def fill(store: Store, jobs: int, salt: int) -> None:
    """Enqueue so many."""
    for ids in ids_of(jobs, 1_000, salt):
        await store.jobs.enqueue(jobs_with(ids))


async def claim_cost(places: list[Contender], quick: bool, say: Say) -> dict[str, dict[int, float]]:
    """Microseconds a job to claim (batches of 100) with this many jobs waiting; medians of 20 claims."""
    costs: dict[str, dict[int, float]] = {}
    for backlog in (each // 100 if quick else each for each in BACKLOGS):
        for place in places:
            say(f"claiming from a backlog of {backlog:,} on {place.name}")
            store = await open_store(place.fresh_url())
            await fill(store, backlog, 7)
            times = []
            for number in range(CLAIMS):
                request = claim_of(f"backlog-{number:06}", min(100, max(backlog // CLAIMS, 1)))
                start = time.perf_counter()
                items = (await store.jobs.claim(request)).items
                times.append((time.perf_counter() - start) / max(len(items), 1) * 1e6)
            costs.setdefault(place.name, {})[backlog] = median(times)
            await store.close()
            if place.raw is not None:
                costs.setdefault(f"raw {place.name}", {})[backlog] = raw_claim_cost(place.raw(), backlog)
    return costs


def raw_claim_cost(raw: Raw, backlog: int) -> float:
    """The same of plain rows."""
    for insert in raw.insert(ids_of(backlog, 1_000, 7), PAYLOAD):
        insert()
    times = []
    for _ in range(CLAIMS):
        start = time.perf_counter()
        claimed = raw.claim(min(100, max(backlog // CLAIMS, 1)))
        times.append((time.perf_counter() - start) / max(len(claimed), 1) * 1e6)
    raw.close()
    return median(times)


def cpu_s(server: RedisServer) -> float:
    """How long the thread of a Redis that runs commands has computed."""
    with server.admin() as client:
        used: dict[str, float] = client.info("cpu")
    return used["used_cpu_user_main_thread"] + used["used_cpu_sys_main_thread"]


def cycles(cpu_us: dict[str, float]) -> float:
    """Jobs enqueued, claimed and settled for one second of Redis's CPU."""
    return 1e6 / sum(cpu_us[operation] for operation in OPERATIONS)


async def memory_cost(place: Contender, quick: bool, say: Say) -> dict[str, float]:
    """Redis's bytes for each job that waits: in all, of that its part of the journal, and of a plain one."""
    assert place.redis is not None
    assert place.raw is not None
    jobs = 5_000 if quick else 100_000
    say(f"memory of {jobs:,} waiting jobs on {place.name}")
    store = await open_store(place.fresh_url())
    with place.redis.admin() as client:
        await fill(store, 1, 1)  # what a queue costs, however few jobs it has
        before: dict[str, int] = client.info("memory")
        await fill(store, jobs, 2)
        after: dict[str, int] = client.info("memory")
        journals = [key for key in client.scan_iter(count=1_000) if client.type(key) == b"stream"]
        journal = sum(client.memory_usage(key, samples=0) or 0 for key in journals)
    await store.close()
    in_all = (after["used_memory"] - before["used_memory"]) / jobs
    return {"all": in_all, "journal": journal / jobs, "raw": raw_memory_cost(place.redis, place.raw(), jobs)}


def raw_memory_cost(server: RedisServer, raw: Raw, jobs: int, payload: bytes = PAYLOAD) -> float:
    """Redis's bytes for each plain row."""
    with server.admin() as client:
        before: dict[str, int] = client.info("memory")
        raw_inserts(raw, jobs, 1_000, 2, payload)
        after: dict[str, int] = client.info("memory")
    raw.close()
    return (after["used_memory"] - before["used_memory"]) / jobs


async def wake_up(place: Contender, quick: bool, say: Say) -> dict[str, float]:
    """Milliseconds from the call of an enqueue to the end of the claim of a worker that slept; beside a round trip."""
    say(f"waking up on {place.name}")
    wakes = 30 if quick else 300
    url = place.fresh_url()
    worker = await open_store(url)
    sender = worker if url == "memory://" else await open_store(url)
    asleep, taken, nonces = asyncio.Event(), asyncio.Queue[float](), count()

    async def work() -> None:
        while True:
            claims = (await worker.jobs.claim(claim_of(f"wake-up-{next(nonces):06}", 1))).items
            if claims:
                taken.put_nowait(time.perf_counter())
                await worker.jobs.settle([claim.settle(Done()) for claim in claims])
            else:
                asleep.set()
                await worker.signals.wait([QUEUE], 60_000)

    await fill(sender, 1, 3)
    working = asyncio.create_task(work())
    await taken.get()
    times = []
    for [id] in ids_of(wakes, 1, 4):
        await asleep.wait()
        asleep.clear()
        await asyncio.sleep(0.005)  # idle, as workers are: nothing is under way between the two
        start = time.perf_counter()
        await sender.jobs.enqueue(jobs_with([id]))
        times.append(await taken.get() - start)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await worker.close()
    await sender.close()
    found = {"p50": median(times) * 1e3, "p99": quantiles(times, n=100)[98] * 1e3}
    return found | {"round_trip": median(pings(place, wakes)) * 1e3} if place.ping else found


def pings(place: Contender, number: int) -> list[float]:
    """Seconds of bare round trips."""
    assert place.ping is not None
    ping, times = place.ping(), []
    for _ in range(number):
        start = time.perf_counter()
        ping()
        times.append(time.perf_counter() - start)
    return times
