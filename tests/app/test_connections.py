"""The store of an app, and when it connects: late, once per event loop, and never over a fork."""

import asyncio
import os
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from headrace import App, BadConfig, Client, Refused, Store, StoreUnavailable
from headrace.app.connections import Connections
from tests.support.stores import SHARED_URLS, sqlite_url


def counted(app: App) -> int:
    """How many jobs wait on the default queue, as an event loop of its own sees it."""

    async def count() -> int:
        counts = await (await app.client()).store.queues.counts(app.maker.queue("default"))
        return counts.waiting

    return asyncio.run(count())


def test_the_url_comes_from_the_environment_when_it_is_first_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App()

    @app.job
    async def note() -> None: ...

    monkeypatch.setenv("HEADRACE_URL", sqlite_url(tmp_path))
    asyncio.run(note.enqueue())
    monkeypatch.setenv("HEADRACE_URL", "sqlite:////nowhere/else.db")

    assert (tmp_path / "headrace.db").exists()
    assert counted(app) == 1
    note.blocking.enqueue()
    assert counted(App(sqlite_url(tmp_path))) == 2


def test_without_a_url_the_jobs_are_in_a_file_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_URL", " ")
    monkeypatch.chdir(tmp_path)
    app = App()

    @app.job
    async def note() -> None: ...

    assert not (tmp_path / "headrace.db").exists()
    asyncio.run(note.enqueue())

    assert (tmp_path / "headrace.db").exists()


def test_an_explicit_url_goes_before_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", "nonsense://")

    assert counted(App(url)) == 0
    with pytest.raises(BadConfig, match="no store for scheme 'nonsense'"):
        counted(App())


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:s3cret@127.0.0.1:1/0",
        "postgres://user:s3cret@127.0.0.1:1/jobs?sslkey=s3cret",
        "redis+cluster://u:s3cret@a,b",
        "http://[s3cret",
    ],
)
def test_a_password_is_shown_nowhere(url: str) -> None:
    app = App(url)

    @app.job
    async def note() -> None: ...

    with pytest.raises((StoreUnavailable, BadConfig)) as caught:
        asyncio.run(note.enqueue())

    assert not any("s3cret" in text for text in (repr(app), repr(note), str(caught.value), repr(caught.value)))


@pytest.mark.parametrize("name", ["sqlite", "redis", "postgres"])
def test_two_loops_one_after_the_other_have_clients_of_their_own(name: str, tmp_path: Path) -> None:
    app = App(SHARED_URLS[name](tmp_path), queue=f"q{os.urandom(6).hex()}")
    clients: list[Client] = []

    @app.job
    async def note() -> None: ...

    async def once() -> None:
        await note.enqueue()
        clients.append(await app.client())

    for _ in range(2):
        asyncio.run(once())

    assert clients[0] is not clients[1]
    assert asyncio.run(_waiting(app, app.maker.queue(app.maker.default_queue).name)) == 2
    # Nobody closed the app: the end of the event loop has.
    with pytest.raises(StoreUnavailable):
        asyncio.run(clients[0].find("default", "a"))


def test_loops_that_have_ended_are_forgotten(app: App) -> None:
    for _ in range(3):
        counted(app)

    assert [len(held) for held in (app._connections._openings, app._connections._open_clients)] == [1, 1]


async def _waiting(app: App, queue: str) -> int:
    return (await (await app.client()).store.queues.counts(app.maker.queue(queue))).waiting


def test_loops_in_several_threads_do_not_meet(url: str) -> None:
    app = App(url)

    @app.job
    async def note() -> None: ...

    async def some() -> None:
        await asyncio.gather(*(note.enqueue() for _ in range(10)))

    threads = [threading.Thread(target=asyncio.run, args=(some(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counted(app) == 40


def test_a_store_in_memory_is_one_store_for_successive_loops() -> None:
    app, other = App("memory://"), App("memory://")

    @app.job
    async def note() -> None: ...

    async def closing() -> None:
        async with app:
            await note.enqueue()

    asyncio.run(note.enqueue())
    asyncio.run(closing())

    assert (counted(app), counted(other)) == (2, 0)
    with pytest.raises(BadConfig, match="lives on one event loop"):
        note.blocking.enqueue()


async def test_a_closed_app_opens_again_at_the_next_call(app: App) -> None:
    async with app:
        first = await app.client()
    second = await app.client()

    with pytest.raises(StoreUnavailable):
        await first.find("default", "a")
    assert await second.find("default", "a") == [None]
    await app.close()
    await app.close()


async def test_an_opening_that_failed_is_tried_again(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'later' / 'jobs.db'}?profile=fast")
    with pytest.raises((BadConfig, StoreUnavailable)):
        await app.client()

    (tmp_path / "later").mkdir()

    assert await (await app.client()).find("default", "a") == [None]


async def test_a_task_cancelled_while_the_store_opens_cancels_no_other(app: App) -> None:
    first, second = (asyncio.create_task(app.client()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert await (await second).find("default", "a") == [None]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_what_the_first_call_opens_does_not_belong_to_its_request() -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []

    def client_of(store: Store) -> Client:
        seen.append(request.get())
        return Client(store)

    request.set("the first")
    await Connections(lambda: "memory://", client_of).client()

    assert seen == ["none"]


@pytest.mark.parametrize("name", ["sqlite", "redis", "postgres"])
def test_a_forked_process_connects_anew(name: str, tmp_path: Path) -> None:
    app = App(SHARED_URLS[name](tmp_path), tenant=f"t{os.urandom(6).hex()}")

    @app.job
    async def note(number: int) -> None: ...

    async def forking() -> int:
        await note.enqueue(0)
        note.blocking.enqueue(1)
        child = os.fork()
        if child == 0:
            _end_with(lambda: [note.blocking.enqueue(2), asyncio.run(_sent(app, note.job(3)))])
        status = await asyncio.to_thread(os.waitpid, child, 0)
        await note.enqueue(4)
        return os.waitstatus_to_exitcode(status[1])

    assert asyncio.run(forking()) == 0
    note.blocking.enqueue(5)
    assert counted(app) == 6


async def _sent(app: App, job: object) -> None:
    await (await app.client()).send(job)  # type: ignore[call-overload]


def _end_with(work: object) -> None:
    """Do some work and end this process, whatever happens: pytest must not go on in it."""
    code = 1
    try:
        work()  # type: ignore[operator]
        code = 0
    finally:
        os._exit(code)


def test_a_program_that_closes_nothing_ends_without_a_word(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from headrace import App
app = App(sys.argv[1], queue="silent")
@app.job
async def double(number: int) -> int:
    return number * 2
async def main() -> None:
    handle = await double.enqueue(21)
    await app.work(until_idle=True)
    print(await handle.result())
asyncio.run(main())
print(double.blocking.enqueue(1).status)
"""
    for name in ("sqlite", "redis", "postgres"):
        finished = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, SHARED_URLS[name](tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )

        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "42\ncreated\n", "")


def test_a_blocking_call_on_an_event_loop_is_answered_by_another_thread(url: str) -> None:
    """It blocks the loop for a moment, which is allowed, and does not hang."""
    app = App(url)

    @app.job
    async def note() -> None: ...

    async def main() -> str:
        return note.blocking.enqueue().status

    assert asyncio.run(main()) == "created"
    with pytest.raises(Refused):
        app.blocking.find("no such name", "a")
