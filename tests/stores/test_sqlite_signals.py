"""Waiting for ends on a SQLite file: one watch for all waiters, which ends with the last of them."""

import asyncio
from pathlib import Path

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.sqlite.store import SqliteStore

MAIL = Queue("mail", "acme", 3)
LONG_MS = 60_000


def files_open() -> int:
    """How many files this process holds open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def claimed(store: SqliteStore, number: int) -> list[Claim]:
    """So many jobs, active."""
    await store.jobs.enqueue([new_job(MAIL, "send", fresh_id=f"job-{each}") for each in range(number)])
    request = ClaimRequest(queues=[MAIL], worker="worker-1", nonce="nonce-of-mine", limit=number)
    return (await store.jobs.claim(request)).items


async def test_hundreds_of_waiters_for_ends_share_one_connection_and_are_all_woken(tmp_path: Path) -> None:
    path = str(tmp_path / "headrace.db")
    mine, other = await SqliteStore.open(path, profile="fast"), await SqliteStore.open(path, profile="fast")
    claims = await claimed(other, 300)
    await mine.reads.find(MAIL, ["nobody"])
    before = files_open()
    waiters = [asyncio.create_task(mine.signals.ended(MAIL, [claim.lease.id], LONG_MS)) for claim in claims]
    while len(mine.signals._watch) < len(waiters):
        await mine.reads.find(MAIL, ["nobody"])
    while_waiting = files_open()

    await other.jobs.settle([claim.settle(Done()) for claim in claims])
    woken = await asyncio.wait_for(asyncio.gather(*waiters), LONG_MS / 2_000)

    assert while_waiting - before <= 3  # the file and what SQLite keeps beside it
    assert all(woken)
    assert (len(mine.signals._watch), mine.signals._watch._poll) == (0, None)
    await mine.close()
    await other.close()


async def test_a_waiter_for_an_end_is_woken_although_the_file_is_busy(tmp_path: Path) -> None:
    """Every write of another process is a reason to check, and the last one of them must not be missed."""
    path = str(tmp_path / "headrace.db")
    mine, other = await SqliteStore.open(path, profile="fast"), await SqliteStore.open(path, profile="fast")
    claims = await claimed(other, 100)

    for claim in claims:
        waiter = asyncio.create_task(mine.signals.ended(MAIL, [claim.lease.id], LONG_MS))
        await mine.reads.find(MAIL, ["nobody"])
        await other.jobs.settle([claim.settle(Done())])
        assert await asyncio.wait_for(waiter, LONG_MS / 2_000)

    await mine.close()
    await other.close()
