"""The blocking client: the same verbs without an event loop."""

import asyncio
import threading

import pytest

from headrace import App, JobFailed, Refused
from headrace.client.blocking import BlockingHandle


@pytest.mark.parametrize("any_app", ["sqlite", "redis", "postgres"], indirect=True)
def test_a_job_is_sent_and_its_result_awaited_without_an_event_loop(any_app: App) -> None:
    @any_app.job(queue="sums")
    def add(a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    handle: BlockingHandle[dict[str, int]] = add.blocking.enqueue(1)
    waiting = add.blocking.options(id="later", delay="1h").enqueue(a=1, b=1)
    asyncio.run(any_app.work(until_idle=True))

    assert handle.result("10s") == {"sum": 3}
    assert add.blocking.handle(handle.id).result("10s") == {"sum": 3}
    assert (waiting.status, waiting.cancel().status) == ("created", "cancelled")
    with pytest.raises(Refused):
        add.blocking.enqueue("x")  # type: ignore[arg-type]


def test_many_are_sent_and_their_results_are_typed(app: App) -> None:
    @app.job
    def pair(number: int) -> tuple[int, int]:
        return number, number * number

    handles = pair.blocking.enqueue_many([{"number": 2}, pair.blocking.job(3), pair.job(number=4)])
    app.run_worker(until_idle=True)

    assert [handle.result("10s") for handle in handles] == [(2, 4), (3, 9), (4, 16)]


def test_threads_share_one_client(app: App) -> None:
    @app.job
    async def note(number: int) -> None: ...

    seen: list[tuple[int, str]] = []

    def send(number: int) -> None:
        seen.append((id(app.blocking), note.blocking.enqueue(number).status))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len({client for client, _ in seen}), {status for _, status in seen}) == (1, {"created"})


def test_a_failure_is_raised_where_it_is_waited_for(app: App) -> None:
    @app.job(max_attempts=1)
    def divide(a: int) -> float:
        return 1 / a

    handle = divide.blocking.enqueue(0)
    app.run_worker(until_idle=True)

    with pytest.raises(JobFailed, match="ZeroDivisionError: division by zero") as failed:
        handle.result("10s")
    assert (failed.value.id, failed.value.reason, failed.value.error.cls) == (
        handle.id,
        "attempts",
        "ZeroDivisionError",
    )
