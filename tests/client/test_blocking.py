"""The blocking client: the same verbs without an event loop, from threads, over forks and through pickles."""

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import pytest

from headrace.client.background import BACKGROUND
from headrace.client.blocking import BlockingClient, BlockingHandle
from headrace.client.client import Client
from headrace.client.codec import RAW
from headrace.client.handle import Handle
from headrace.model.errors import BadConfig, JobFailed, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome
from headrace.stores.open import open_store
from tests.client.programs import FORKS, INTERRUPTIONS, JOBS
from tests.client.worker_calls import work
from tests.support.stores import SHARED_URLS, STORES

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = Queue("default")


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind that several processes can share."""

    async def empty() -> None:
        async with STORES[request.param](tmp_path):
            pass

    asyncio.run(empty())
    return SHARED_URLS[request.param](tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The URL of an empty file."""
    return SHARED_URLS["sqlite"](tmp_path)


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    """Close all connections: the servers are shared by tests."""
    yield
    BACKGROUND.stop()


def do_next(url: str, outcome: Outcome) -> None:
    """Claim and end the next job, on a loop and a store of its own."""

    async def go() -> None:
        store = await open_store(url)
        await work(store, DEFAULT, outcome)
        await store.close()

    asyncio.run(go())


def run_program(program: str, url: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process of its own, to its end."""
    command = [sys.executable, "-W", "error", "-m", "tests.client.programs", program, url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def run_silently(program: str, url: str) -> None:
    """The program ends well and writes nothing."""
    ended = run_program(program, url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_methods_of_a_client_work_without_an_event_loop(url: str) -> None:
    """T1, K23: enqueue, look, cancel, remove, and wait for the result."""
    with BlockingClient(url) as client:
        handle = client.enqueue("send", {"to": 1}, id="a")
        do_next(url, Done(b'"sent"'))

        assert handle.result(timeout="20s") == "sent"
        assert client.result("default", "a") == "sent"
        later = client.enqueue("send", id="b", delay="1h")
        found = later.find()
        assert found is not None
        assert found.state == "waiting"
        assert later.cancel().status == "cancelled"
        assert later.remove().status == "removed"
        assert client.find("default", "b") == [None]
        assert (handle.status, handle.ok, handle.queue) == ("created", True, DEFAULT)


def test_a_wait_is_woken_by_a_worker_in_another_process(url: str) -> None:
    """K22, K23: without an event loop."""
    with BlockingClient(url) as client, ThreadPoolExecutor(1) as threads:
        handle = client.enqueue("send")
        waiting = threads.submit(handle.result, "20s")

        do_next(url, Failed(JobError("ValueError", "no")))

        with pytest.raises(JobFailed, match="no"):
            waiting.result()


def test_enqueue_many_iterates_jobs_on_the_callers_thread(url: str) -> None:
    with BlockingClient(url) as client:
        used: set[int] = set()
        counts: list[int] = []

        def jobs() -> Iterator[Any]:
            for number in range(4_500):
                used.add(threading.get_ident())
                yield client.job("send", number, id=f"{number}")

        def progress(count: int) -> None:
            used.add(threading.get_ident())
            counts.append(count)

        handles = client.enqueue_many(jobs(), progress=progress)

        assert [handle.id for handle in handles] == [f"{number}" for number in range(4_500)]
        assert counts == [4_000, 4_500]
        assert used == {threading.get_ident()}


def test_enqueue_many_names_the_enqueued_jobs_when_the_server_fails_midway() -> None:
    from tests.support.redis_servers import RedisServer

    with RedisServer().launch() as server, BlockingClient(server.url) as client:

        def jobs() -> Iterator[Job]:
            yield from (client.job("send", id=f"{number}") for number in range(4_000))
            server.stop()
            yield client.job("send", id="late")

        with pytest.raises(OutcomeUnknown) as caught:
            client.enqueue_many(jobs())

        assert [type(known) for known in caught.value.known] == [BlockingHandle] * 4_000
        assert caught.value.unknown == ("late",)


def test_eight_threads_share_one_client(url: str) -> None:
    with BlockingClient(url) as client, ThreadPoolExecutor(8) as threads:
        barrier = threading.Barrier(8)

        def send(name: int) -> list[str]:
            barrier.wait()
            return [client.enqueue("send", id=f"{name}-{number}").status for number in range(25)]

        statuses = [status for each in threads.map(send, range(8)) for status in each]

        assert statuses == ["created"] * 200
        assert [thread.name for thread in threading.enumerate()].count("headrace-background") == 1
        ids = [f"{name}-{number}" for name in range(8) for number in range(25)]
        assert None not in client.find("default", *ids)


def test_clients_of_one_url_share_one_store_until_the_last_is_closed(sqlite: str) -> None:
    one, other = BlockingClient(sqlite), BlockingClient(sqlite, tenant="acme")
    one.enqueue("send")
    other.enqueue("send")

    one.close()

    assert other.enqueue("send").ok
    with pytest.raises(StoreUnavailable, match="closed"):
        one.enqueue("send")
    other.close()


def test_calls_after_close_say_that_the_client_was_closed(sqlite: str) -> None:
    """Q14, T23: closing twice is fine."""
    client = BlockingClient(sqlite)
    handle = client.enqueue("send")

    client.close()
    client.close()

    for call in (
        lambda: client.enqueue("send"),
        lambda: client.enqueue_many([client.job("send")]),
        lambda: client.cancel("default", "a"),
        handle.result,
        handle.find,
    ):
        with pytest.raises(StoreUnavailable, match="this client was closed; make a new one"):
            call()


def test_parent_and_forked_child_both_use_the_client(url: str) -> None:
    """Also when the parent closes its client while the child goes on: SQLite would throw away the child's jobs."""
    run_silently("fork_after_use", url)

    with BlockingClient(url) as client:
        ids = ["parent-1", "parent-2", "child-1", "child-2"]
        assert [found is not None for found in client.find("default", *ids)] == [True] * 4


def test_a_process_may_fork_while_its_threads_send(url: str) -> None:
    run_silently("fork_while_others_send", url)

    with BlockingClient(url) as client:
        ids = [f"thread-{name}-{number}" for name in range(2) for number in range(JOBS)]
        ids += [f"child-{name}-{number}" for name in range(FORKS) for number in range(10)]
        assert [id for id, found in zip(ids, client.find("default", *ids), strict=True) if found is None] == []


def test_a_wait_for_a_result_outlives_a_fork(url: str) -> None:
    run_silently("fork_while_one_waits", url)


def test_clients_and_handles_can_be_sent_to_other_processes_and_back(url: str) -> None:
    run_silently("pool", url)


def test_a_program_that_closes_nothing_ends_without_output(url: str) -> None:
    run_silently("leave_open", url)

    with BlockingClient(url) as client:
        assert [client.find(f"mail-{number}", "a") == [None] for number in range(3)] == [False] * 3


def test_ctrl_c_ends_a_wait_and_the_client_goes_on(url: str) -> None:
    run_silently("interrupt_waits", url)

    with BlockingClient(url) as client:
        assert None not in client.find("default", "before", *(f"after {time}" for time in range(INTERRUPTIONS)))


def test_a_pickled_client_carries_its_settings_and_no_connection(sqlite: str) -> None:
    client = BlockingClient(sqlite, tenant="acme", queue=Queue("mail", "acme", 4), codec=RAW)
    handle = client.enqueue("send", b"x")

    again: BlockingHandle[Any] = pickle.loads(pickle.dumps(handle))  # noqa: S301 - our own bytes
    other: BlockingClient = pickle.loads(pickle.dumps(client))  # noqa: S301 - our own bytes
    client.close()

    assert again.find() is not None
    assert other.job("send", b"y").queue == Queue("mail", "acme", 4)
    assert other.maker.codec is RAW


def test_a_blocking_call_on_the_background_thread_is_refused(sqlite: str) -> None:
    client = BlockingClient(sqlite)

    async def careless() -> None:
        client.enqueue("send")

    with pytest.raises(Refused, match="never ends") as caught:
        BACKGROUND.run(careless)

    assert caught.value.reason == "wrong_thread"


def test_a_store_in_memory_is_refused() -> None:
    with pytest.raises(BadConfig, match="lives on one event loop"):
        BlockingClient("memory://")


def test_every_call_tries_anew_to_open_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "not-yet"
    client = BlockingClient(f"sqlite:///{folder / 'headrace.db'}")
    for _ in range(2):
        with pytest.raises((StoreUnavailable, BadConfig)):
            client.enqueue("send")

    folder.mkdir()

    assert client.enqueue("send").ok
    client.close()


def test_errors_are_raised_unchanged(sqlite: str) -> None:
    with BlockingClient(sqlite) as client:
        client.enqueue("send", 1, idempotency_key="k")

        with pytest.raises(Refused, match="was used for other work"):
            client.enqueue("send", 2, idempotency_key="k")
        with pytest.raises(Refused, match="does not exist"):
            client.result("default", "nobody")
        with pytest.raises(TimeoutError, match="has not ended in time"):
            client.enqueue("send").result(timeout="20ms")


def test_the_type_of_a_result_is_kept(sqlite: str) -> None:
    with BlockingClient(sqlite) as client:
        handle = client.send(client.job("count"), type=int)
        do_next(sqlite, Done(b"7"))

        assert_type(handle, BlockingHandle[int])
        assert_type(handle.result(), int)
        assert handle.result() == 7


def test_both_clients_have_the_same_methods() -> None:
    def verbs(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    assert verbs(BlockingClient) - {"close"} == verbs(Client)
    assert verbs(BlockingHandle) == verbs(Handle)
