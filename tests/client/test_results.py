"""Results: a wait for a job is woken when it ends, and returns or raises its outcome."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import pytest

from headrace.client.client import Client
from headrace.client.handle import Handle
from headrace.model.errors import JobCancelled, JobFailed, Refused
from headrace.model.limits import RESULT_LOOK_MS
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Released, Retried
from headrace.stores.memory.store import MemoryStore
from tests.client.relay_store import RelayStore
from tests.client.worker_calls import claim, settle, work
from tests.support.stores import SHARED_URLS, STORES

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = Queue("default")
PATIENCE_SECONDS = 20
"""Less than RESULT_LOOK_MS: an answer within this time came by a wake-up."""


@dataclass
class Point:
    x: int


async def begun(store: RelayStore, handle: Handle[Any]) -> "asyncio.Task[Any]":
    """A task that waits for the result, once it really waits."""
    waiting = asyncio.create_task(handle.result())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await store.signals.waiting.wait()
    return waiting


async def test_result_is_what_the_handler_returned_read_as_the_type() -> None:
    """K22, K23: finish with a result, and get it."""
    store = MemoryStore()
    client = Client(store)
    handle = await client.send(client.job("locate"), type=Point)
    await work(store, DEFAULT, Done(b'{"x":1}'))

    result = await handle.result()

    assert_type(handle, Handle[Point])
    assert_type(result, Point)
    assert result == Point(1)
    assert await client.result("default", handle.id) == {"x": 1}


async def test_a_job_without_a_result_gives_none() -> None:
    store = MemoryStore()
    handle = await Client(store).enqueue("send")
    await work(store, DEFAULT, Done())

    assert await handle.result() is None


async def test_a_result_of_another_type_is_refused() -> None:
    store = MemoryStore()
    client = Client(store)
    handle = await client.send(client.job("locate"), type=Point)
    await work(store, DEFAULT, Done(b'{"y":1}'))

    with pytest.raises(Refused, match="missing required field `x`"):
        await handle.result()


async def test_a_waiting_caller_is_woken_by_the_end_of_the_job() -> None:
    """K23: the wait ends with the job, after one look and one wake-up."""
    assert PATIENCE_SECONDS * 1_000 < RESULT_LOOK_MS
    store = RelayStore()
    handle = await Client(store).enqueue("send")
    waiting = await begun(store, handle)

    await work(store, DEFAULT, Done(b"7"))

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await waiting == 7
    assert store.signals.waits == 1


@pytest.mark.parametrize("name", ["sqlite", "redis", "postgres"])
async def test_a_waiting_caller_is_woken_by_a_worker_in_another_process(name: str, tmp_path: Path) -> None:
    """K22, K23: across processes."""
    async with STORES[name](tmp_path) as opened:
        store = RelayStore(opened)
        handle = await Client(store).enqueue("send")
        waiting = await begun(store, handle)

        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.client.finish_job", SHARED_URLS[name](tmp_path), '"from afar"', cwd=ROOT
        )

        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await waiting == "from afar"
            assert await worker.wait() == 0


async def test_result_of_a_dead_job_raises_its_error() -> None:
    store = RelayStore()
    handle = await Client(store).enqueue("send")
    waiting = await begun(store, handle)

    await work(store, DEFAULT, Failed(JobError("ValueError", "no such user")))

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(JobFailed, match="no such user") as caught:
            await waiting
    assert (caught.value.id, caught.value.reason) == (handle.id, "failed")
    assert caught.value.error == JobError("ValueError", "no such user")


async def test_result_raises_the_newest_of_several_deaths() -> None:
    store = MemoryStore()
    client = Client(store)
    for number in range(3):
        await client.enqueue("send", id="a")
        await work(store, DEFAULT, Failed(JobError("E", f"{number}")), nonce=f"nonce-{number:02}")

    with pytest.raises(JobFailed, match="E: 2"):
        await client.result("default", "a")


async def test_result_of_a_cancelled_job_raises_job_cancelled() -> None:
    store = RelayStore()
    handle = await Client(store).enqueue("send")
    waiting = await begun(store, handle)

    await handle.cancel()

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(JobCancelled) as caught:
            await waiting
    assert caught.value.id == handle.id


async def test_result_waits_through_retries() -> None:
    store = RelayStore()
    handle = await Client(store).enqueue("send")
    waiting = await begun(store, handle)

    await work(store, DEFAULT, Released(), nonce="nonce-01")
    await work(store, DEFAULT, Retried(JobError("E"), delay_ms=0), nonce="nonce-02")
    await work(store, DEFAULT, Done(b"3"), nonce="nonce-03")

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await waiting == 3


@pytest.mark.parametrize("patience", [0, 0.02, "20ms"])
async def test_result_in_vain_raises_a_timeout_with_the_state_of_the_job(patience: Any) -> None:
    """K23: the wait is bounded by the caller."""
    handle = await Client(MemoryStore()).enqueue("send", id="a", delay="1h")

    with pytest.raises(TimeoutError, match=r"job 'a' has not ended in time, it is waiting \(.+\)"):
        await handle.result(patience)


@pytest.mark.parametrize("nothing", [{"keep_done_ms": 0}, {"keep_done_max": 0}])
async def test_result_is_refused_when_the_queue_keeps_no_finished_jobs(nothing: dict[str, object]) -> None:
    store = MemoryStore()
    client = Client(store)
    await store.queues.configure(DEFAULT, nothing)
    handle = await client.enqueue("send")

    with pytest.raises(Refused, match="keeps no finished jobs") as caught:
        await handle.result(timeout=PATIENCE_SECONDS)

    assert caught.value.reason == "nothing_kept"


async def test_result_of_a_job_with_its_own_result_ttl_can_be_waited_for() -> None:
    """K22: the result has an expiry of its own."""
    store = MemoryStore()
    await store.queues.configure(DEFAULT, {"keep_done_ms": 0})
    handle = await Client(store).enqueue("send", result_ttl="1m")
    await work(store, DEFAULT, Done(b"5"))

    assert await handle.result() == 5


async def test_an_unknown_job_is_not_found() -> None:
    client = Client(MemoryStore())

    with pytest.raises(Refused, match="job 'a' on queue 'mail' of tenant 'default' does not exist") as caught:
        await client.result("mail", "a")

    assert caught.value.reason == "not_found"


async def test_result_of_a_job_removed_during_the_wait_is_not_found() -> None:
    store = RelayStore()
    handle = await Client(store).enqueue("send")
    waiting = await begun(store, handle)

    await handle.remove()

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(Refused, match="was removed, or its finished job was not kept"):
            await waiting


async def test_the_result_of_a_delivery_counts_also_while_the_blocked_job_that_it_freed_waits() -> None:
    store = MemoryStore()
    client = Client(store)
    first = await client.enqueue("send", id="a")
    claimed = await claim(store, DEFAULT)
    second = await client.enqueue("send", id="a")
    await settle(store, claimed, Done(b"1"))

    assert second.status == "blocked"
    assert await first.result() == 1
    with pytest.raises(TimeoutError):
        await second.result(timeout="60ms")
    await work(store, DEFAULT, Done(b"2"), nonce="nonce-02")
    assert await second.result() == 2


async def test_a_blocked_job_that_died_is_dead_although_the_delivery_before_it_was_done() -> None:
    store = MemoryStore()
    client = Client(store)
    await client.enqueue("send", id="a")
    claimed = await claim(store, DEFAULT)
    second = await client.enqueue("send", id="a")
    await settle(store, claimed, Done(b"1"))
    await work(store, DEFAULT, Failed(JobError("E")), nonce="nonce-02")

    with pytest.raises(JobFailed):
        await second.result()
