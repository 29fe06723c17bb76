"""Measures the stores: jobs/s of enqueue, claim and settle by batch size, beside raw SQLite; and the cost of a claim
while the backlog grows.

    python -m benchmarks.stores [--quick] [--json]
"""

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.raw import RawSqlite
from headrace.model.claim import ClaimRequest
from headrace.model.ids import uuid7
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

BATCHES = (1, 10, 100, 1_000)
BACKLOGS = (1_000, 100_000, 1_000_000)
PAYLOAD = json.dumps({"user_id": 42, "text": "x" * 75}).encode()
QUEUE = Queue("bench", "acme")
OPERATIONS = ("enqueue", "claim", "settle")
Rates = dict[str, float]


def jobs_of(batch: int, quick: bool) -> int:
    """How many jobs a run of this batch size takes: enough for a second or so."""
    full = {1: 3_000, 10: 20_000, 100: 60_000, 1_000: 100_000}[batch]
    return full // 20 if quick else full


def ids_of(total: int, batch: int, salt: int) -> list[list[str]]:
    """Ids as users have them, in batches."""
    ids = [
        uuid7(1_700_000_000_000 + each // 100, (each * 2_654_435_761 + salt).to_bytes(10, "big"))
        for each in range(total)
    ]
    return [ids[start : start + batch] for start in range(0, total, batch)]


async def measure_store(store: Store, batch: int, total: int, salt: int) -> Rates:
    """Jobs/s of one store at one batch size: all enqueued, then all claimed, then all settled."""
    batches = [
        [Job(queue=QUEUE, id=id, kind="send", payload=PAYLOAD) for id in ids] for ids in ids_of(total, batch, salt)
    ]
    rates: Rates = {}

    start = time.perf_counter()
    for jobs in batches:
        await store.jobs.enqueue(jobs)
    rates["enqueue"] = total / (time.perf_counter() - start)

    claimed = []
    start = time.perf_counter()
    for number in range(len(batches)):
        request = ClaimRequest(
            queues=[QUEUE], worker="worker-1", nonce=f"nonce-{salt}-{number:08}", limit=batch, lease_ms=600_000
        )
        claimed.append((await store.jobs.claim(request)).items)
    rates["claim"] = total / (time.perf_counter() - start)
    assert sum(map(len, claimed)) == total, "not everything was handed out"

    start = time.perf_counter()
    for items in claimed:
        await store.jobs.settle([claim.settle(Done(), 5) for claim in items])
    rates["settle"] = total / (time.perf_counter() - start)
    return rates


def measure_raw(raw: RawSqlite, batch: int, total: int, salt: int) -> Rates:
    """The same with plain rows."""
    batches = ids_of(total, batch, salt)
    inserts = list(raw.insert(batches, PAYLOAD))
    rates: Rates = {}

    start = time.perf_counter()
    for insert in inserts:
        insert()
    rates["enqueue"] = total / (time.perf_counter() - start)

    start = time.perf_counter()
    claimed = [raw.claim(batch) for _ in batches]
    rates["claim"] = total / (time.perf_counter() - start)

    start = time.perf_counter()
    for ids in claimed:
        raw.delete(ids)
    rates["settle"] = total / (time.perf_counter() - start)
    return rates


async def throughput(folder: Path, quick: bool, say: Callable[[str], None]) -> dict[str, dict[int, Rates]]:
    """Rates by contender and batch; medians of three interleaved rounds."""
    rounds = 1 if quick else 3
    found: dict[str, dict[int, list[Rates]]] = {}
    for number in range(rounds):
        for batch in BATCHES:
            total = jobs_of(batch, quick)
            place = Path(tempfile.mkdtemp(dir=folder))
            contenders: dict[str, Store] = {
                "memory": await open_store("memory://"),
                "sqlite fast": await open_store(f"sqlite:///{place / 'fast.db'}?profile=fast"),
                "sqlite durable": await open_store(f"sqlite:///{place / 'durable.db'}?profile=durable"),
            }
            for name, store in contenders.items():
                say(f"round {number + 1} of {rounds}: {name}, batches of {batch:,}")
                gc.collect()
                found.setdefault(name, {}).setdefault(batch, []).append(
                    await measure_store(store, batch, total, number)
                )
                await store.close()
            for name, synchronous in (("raw fast", "NORMAL"), ("raw durable", "FULL")):
                raw = RawSqlite(place / f"{synchronous}.db", synchronous)
                found.setdefault(name, {}).setdefault(batch, []).append(measure_raw(raw, batch, total, number))
                raw.close()
    return {
        name: {
            batch: {operation: median(each[operation] for each in rates) for operation in OPERATIONS}
            for batch, rates in by_batch.items()
        }
        for name, by_batch in found.items()
    }


async def claim_cost(folder: Path, quick: bool, say: Callable[[str], None]) -> dict[str, dict[int, float]]:
    """Microseconds a job to claim (batches of 100) with this many jobs waiting; medians of 20 claims."""
    costs: dict[str, dict[int, float]] = {}
    for backlog in (each // 100 if quick else each for each in BACKLOGS):
        urls = {"memory": "memory://", "sqlite fast": f"sqlite:///{folder / f'backlog-{backlog}.db'}?profile=fast"}
        for name, url in urls.items():
            say(f"claiming from a backlog of {backlog:,} on {name}")
            store = await open_store(url)
            for ids in ids_of(backlog, 1_000, 7):
                await store.jobs.enqueue([Job(queue=QUEUE, id=id, kind="send", payload=PAYLOAD) for id in ids])
            times = []
            for number in range(20):
                limit = min(100, max(backlog // 20, 1))
                request = ClaimRequest(
                    queues=[QUEUE], worker="worker-1", nonce=f"backlog-{number:06}", limit=limit, lease_ms=600_000
                )
                start = time.perf_counter()
                items = (await store.jobs.claim(request)).items
                times.append((time.perf_counter() - start) / max(len(items), 1) * 1e6)
            costs.setdefault(name, {})[backlog] = median(times)
            await store.close()
    return costs


def show(rates: dict[str, dict[int, Rates]], costs: dict[str, dict[int, float]]) -> None:
    """Print the tables."""
    print(f"\njobs/s by batch size (payload {len(PAYLOAD)} bytes, one client, journal on)\n")
    print(f"{'store':<16}{'operation':<10}" + "".join(f"{batch:>12,}" for batch in BATCHES))
    for name, by_batch in rates.items():
        for operation in OPERATIONS:
            print(f"{name:<16}{operation:<10}" + "".join(f"{by_batch[batch][operation]:>12,.0f}" for batch in BATCHES))
    print("\nshare of raw SQLite in the same run\n")
    for profile in ("fast", "durable"):
        for operation in OPERATIONS:
            shares = (
                rates[f"sqlite {profile}"][batch][operation] / rates[f"raw {profile}"][batch][operation]
                for batch in BATCHES
            )
            print(f"{'sqlite ' + profile:<16}{operation:<10}" + "".join(f"{share:>12.2f}" for share in shares))
    print("\nclaim, microseconds a job in batches of 100, by jobs waiting\n")
    for name, by_backlog in costs.items():
        cells = "".join(f"{backlog:>12,}: {cost:5.1f}" for backlog, cost in by_backlog.items())
        lowest, highest = min(by_backlog.values()), max(by_backlog.values())
        print(f"{name:<16}{cells}   largest / smallest {highest / lowest:.2f}")


async def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the jobs, one round")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()

    def say(text: str) -> None:
        if not options.json:
            print(f"  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        rates = await throughput(Path(folder), options.quick, say)
        costs = await claim_cost(Path(folder), options.quick, say)
    if options.json:
        print(json.dumps({"jobs_per_second": rates, "claim_us_per_job": costs}))
    else:
        show(rates, costs)


if __name__ == "__main__":
    asyncio.run(main())
