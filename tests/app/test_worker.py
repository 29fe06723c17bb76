"""End to end: jobs are sent, a worker of the app runs them, results come back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from headrace import (
    App,
    BadConfig,
    Context,
    DeathInfo,
    Fail,
    Handle,
    JobCancelled,
    JobFailed,
    Queue,
    Refused,
    Retry,
    WorkerConfig,
    current,
)
from headrace.app.decorators import WorkerFields
from headrace.worker.events import JobsClaimed, JobsFinished, WorkerEvent
from headrace.worker.handlers import Next
from tests.app import importable_jobs
from tests.support.stores import sqlite_url

PATIENCE_S = 20


class Invoice(Struct):
    """What a customer owes."""

    order: int
    total: float


async def test_a_result_comes_back_as_what_the_function_says_it_returns(any_app: App) -> None:
    @any_app.job(queue="invoices")
    async def bill(order: int) -> Invoice:
        return Invoice(order, order * 1.5)

    @any_app.job(queue="invoices")
    def total(orders: list[int]) -> float:
        return float(sum(orders))

    invoice, amount = await bill.enqueue(4), await total.enqueue([1, 2])
    async with asyncio.timeout(PATIENCE_S), any_app.worker():
        assert await invoice.result() == Invoice(4, 6.0)
        assert await amount.result() == 3.0

    [another] = await bill.enqueue_many([{"order": 2}])
    await any_app.work(until_idle=True)
    assert await another.result("1s") == Invoice(2, 3.0)
    await any_app.close()


async def test_a_result_that_never_comes_is_an_error_that_says_why(app: App) -> None:
    @app.job(max_attempts=1)
    async def fall() -> None:
        raise ValueError("mind the step")

    @app.job
    async def never() -> None:
        raise Fail("on purpose")

    fallen, failed = await fall.enqueue(), await never.enqueue()
    waiting = await fall.options(delay="1h").enqueue()
    await app.work(until_idle=True)

    with pytest.raises(JobFailed, match="ValueError: mind the step"):
        await fallen.result()
    with pytest.raises(JobFailed, match="on purpose"):
        await failed.result()
    with pytest.raises(TimeoutError):
        await waiting.result("10ms")
    await waiting.cancel()
    with pytest.raises(JobCancelled):
        await waiting.result()


async def test_a_fail_handler_gets_id_payload_and_error_of_a_dead_letter(any_app: App) -> None:
    """Q27, Q30, Q31: a job on the fail queue, read as [id, payload, error], with a patient policy of its own."""
    received: list[tuple[str, Any, DeathInfo]] = []
    heard = asyncio.Event()
    policies: list[tuple[str, str, int | None]] = []

    @any_app.job(queue="mail", max_attempts=1)
    async def welcome(user_id: int) -> None:
        raise LookupError(f"no user {user_id}")

    @any_app.fail_handler(queue="mail")
    async def bury(id: str, payload: dict[str, int], error: DeathInfo) -> None:
        received.append((id, payload, error))
        job = current().job
        policies.append((job.id, job.queue, current().attempt))
        if len(received) == 1:
            raise Retry("not yet", delay=0)
        heard.set()

    await welcome.options(id="u-7").enqueue(7)
    async with asyncio.timeout(PATIENCE_S), any_app.worker():
        await heard.wait()

    expected = ("u-7", {"user_id": 7}, DeathInfo(cls="LookupError", message="no user 7", reason="attempts"))
    assert received == [expected, expected]
    assert [(queue, attempt) for _, queue, attempt in policies] == [("mail.fail", 1), ("mail.fail", 2)]
    [id] = {id for id, _, _ in policies}
    client = await any_app.client()
    [found] = await client.find(welcome.queue.fail_queue, id)
    assert (id.startswith("u-7#"), found is not None and found.finished_job is not None) == (True, True)
    await any_app.close()


async def test_a_death_has_a_patient_policy_that_a_plain_fail_handler_may_use_up(app: App) -> None:
    """Q31: 100 attempts and 3 stalls, 10 seconds to 15 minutes."""

    @app.job(queue="mail", max_attempts=1)
    async def welcome() -> None:
        raise LookupError

    @app.fail_handler(queue="mail")
    def bury(id: str, payload: Any, error: dict[str, str]) -> None: ...

    async with app.worker():
        pass  # asks for deaths to be told of
    client = await app.client()
    config = await client.store.queues.configuration(welcome.queue)
    fail_queue = await client.store.queues.configuration(welcome.queue.fail_queue)

    assert config.fail_handler
    assert (fail_queue.max_attempts, fail_queue.max_stalls) == (100, 3)
    assert (fail_queue.backoff_ms, fail_queue.backoff_ms_max) == (10_000, 900_000)


async def test_several_apps_in_one_process_keep_to_themselves(tmp_path: Path) -> None:
    here, there = App(sqlite_url(tmp_path), tenant="here"), App(sqlite_url(tmp_path), tenant="there")
    ran: list[str] = []

    @here.job(kind="note")
    async def note_here() -> None:
        ran.append(current().job.tenant)

    @there.job(kind="note")
    async def note_there() -> None:
        ran.append("wrong function for " + current().job.tenant)

    handle = await note_here.enqueue()
    left = await note_there.enqueue()
    await here.work(until_idle=True)

    await handle.result("1s")
    assert ran == ["here"]
    found = await left.find()
    assert found is not None
    assert found.state == "waiting"


async def test_a_queue_named_to_a_worker_is_of_the_apps_tenant(url: str) -> None:
    app = App(url, tenant="acme")
    ran: list[str] = []

    @app.job(queue="mail")
    async def note() -> None:
        ran.append(current().job.tenant)

    await note.enqueue()
    await app.work(until_idle=True, queues=["mail"])

    assert ran == ["acme"]


async def test_one_worker_serves_two_tenants_by_their_shares(app: App) -> None:
    ran: list[str] = []

    @app.job(queue="mail")
    async def note() -> None:
        ran.append(current().job.tenant)

    await note.options(tenant="big").enqueue_many([{}] * 40)
    await note.options(tenant="small").enqueue_many([{}] * 10)
    queues: dict[str | Queue, int] = {Queue("mail", "big"): 3, Queue("mail", "small"): 1}
    await app.work(until_idle=True, queues=queues, capacity=2)

    assert (ran.count("big"), ran.count("small")) == (40, 10)
    assert 2 <= ran[:20].count("small") <= 10


async def test_middleware_is_around_every_handler_outermost_first(url: str) -> None:
    calls: list[str] = []

    async def outer(context: Context, call_next: Next) -> Any:
        calls.append(f"outer {context.job.kind}")
        return await call_next(context)

    app = App(url, middleware=[outer])

    @app.middleware
    async def inner(context: Context, call_next: Next) -> Any:
        calls.append("inner")
        return await call_next(context) + 1

    @app.job
    async def one() -> int:
        return 1

    handle = await one.enqueue()
    await app.work(until_idle=True)

    assert (calls, await handle.result()) == (["outer one", "inner"], 2)


async def test_a_job_that_asks_for_a_process_runs_in_one(url: str) -> None:
    app = App(url, queue="reports")
    app.registry.add(importable_jobs.square)

    sender: Handle[tuple[int, int]] = await (await app.client()).send(
        importable_jobs.square.job(12), type=importable_jobs.square.handler.arguments.result_type
    )
    await app.work(until_idle=True, pool_size=1)
    number, pid = await sender.result()

    assert (number, pid != os.getpid()) == (144, True)


async def test_handlers_send_jobs_themselves_from_the_loop_and_from_threads(any_app: App) -> None:
    ended = asyncio.Event()
    is_in_memory = "memory" in repr(any_app)

    @any_app.job(queue="chain")
    async def first(number: int) -> str:
        return (await second.enqueue(number + 1)).status

    @any_app.job(queue="chain")
    def second(number: int) -> str:
        return "created" if is_in_memory else third.blocking.enqueue(number + 1).status

    @any_app.job(queue="chain")
    async def third(number: int) -> None:
        if number == 3:
            ended.set()

    async with asyncio.timeout(PATIENCE_S), any_app.worker():
        handle = await first.enqueue(1)
        if is_in_memory:  # a thread cannot reach a store that lives on this loop
            await third.enqueue(3)
        await ended.wait()

    assert await handle.result("1s") == "created"
    await any_app.close()


async def test_listeners_get_the_events_of_an_apps_worker(app: App) -> None:
    events: list[WorkerEvent] = []
    ping = app.job(_ping)

    await ping.enqueue()
    await app.work(until_idle=True, listeners=[events.append])
    by_work = [type(notice) for notice in events]
    events.clear()
    async with asyncio.timeout(PATIENCE_S), app.worker(listeners=[events.append]):
        await (await ping.enqueue()).result()

    assert [by_work.count(kind) for kind in (JobsClaimed, JobsFinished)] == [1, 1]
    assert [type(notice) for notice in events].count(JobsClaimed) == 1


async def _ping() -> None:
    return


async def test_a_worker_needs_something_to_do(app: App) -> None:
    with pytest.raises(BadConfig, match="has no handlers"):
        await app.work(until_idle=True)
    with pytest.raises(TypeError, match="speed"):
        await app.work(speed=5)  # type: ignore[call-arg]


def test_a_worker_takes_the_settings_of_its_configuration() -> None:
    assert list(WorkerFields.__annotations__) == list(WorkerConfig.__struct_fields__)


async def test_a_worker_in_another_thread_leaves_signals_alone(app: App) -> None:
    @app.job
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    handle = await where.enqueue()
    before = signal.getsignal(signal.SIGTERM)
    await asyncio.to_thread(app.run_worker, until_idle=True)

    assert (await handle.result(), signal.getsignal(signal.SIGTERM)) == (False, before)


PROGRAM = """
import asyncio, sys
from headrace import App
app = App(sys.argv[1])

@app.job
async def long() -> str:
    print("started", flush=True)
    await asyncio.sleep(0.3)
    return "finished"

app.run_worker(grace="10s")
print("stopped", flush=True)
"""


async def test_a_stopped_worker_program_finishes_its_running_jobs(url: str) -> None:
    app = App(url)

    @app.job
    async def long() -> str:
        raise Refused("wrong", "the other process works")

    handle = await long.enqueue()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", PROGRAM, url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert await process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()

    assert (process.returncode, out) == (0, b"stopped\n")
    assert [json.loads(line)["event"] for line in err.splitlines()] == [
        "started",
        "claimed",
        "stopping",
        "done",
        "stopped",
    ]
    assert await handle.result("1s") == "finished"
