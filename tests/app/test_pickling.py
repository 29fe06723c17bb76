"""Apps and job functions are pickled without their connections."""

import asyncio
import importlib
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import cloudpickle

from headrace import App, Queue, Refused
from headrace.app.job_function import BlockingSender, JobFunction
from tests.app import importable_jobs
from tests.support.stores import sqlite_url


def test_a_job_of_a_module_is_found_by_its_name() -> None:
    for dumps in (pickle.dumps, cloudpickle.dumps):
        assert pickle.loads(dumps(importable_jobs.greet)) is importable_jobs.greet  # noqa: S301 - ours


def test_an_app_travels_with_the_url_that_held_where_it_came_from(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(tenant="acme", queue=Queue("q", "acme", 2))
    monkeypatch.setenv("HEADRACE_URL", url)

    data = pickle.dumps(app)
    monkeypatch.setenv("HEADRACE_URL", "nonsense://")
    there = pickle.loads(data)  # noqa: S301 - ours

    assert there.blocking.enqueue("kind", {}).queue == Queue("q", "acme", 2)


async def test_an_app_in_use_travels_without_its_connections(app: App) -> None:
    @app.job
    async def note() -> None: ...

    await note.enqueue()
    note.blocking.enqueue()
    there = pickle.loads(pickle.dumps(app))  # noqa: S301 - ours

    client, old = await there.client(), await app.client()
    assert (client is not old, (await client.store.queues.counts(Queue("default"))).waiting) == (True, 2)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_job_without_a_name_elsewhere_can_be_sent_and_not_called(url: str, dumps: Callable[[object], bytes]) -> None:
    app = App(url)

    @app.job(queue="mail", tag="new")
    def welcome(user_id: int, note: "str | None" = None) -> "list[int]":
        return [user_id]

    there: JobFunction[[int, str | None], list[int]] = pickle.loads(dumps(welcome))  # noqa: S301 - ours
    handle = there.blocking.options(id="a").enqueue(1, "x")
    app.run_worker(until_idle=True)

    assert handle.result("10s") == [1]
    assert (there.kind, there.job(3, None).payload, there.job(3, None).tag) == (
        "welcome",
        b'{"user_id":3,"note":null}',
        "new",
    )
    with pytest.raises(Refused, match=r"wrong arguments for .*welcome\(user_id: int, note: .*\)"):
        there.blocking.enqueue("x", None)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="comes from another process and can only be sent here"):
        there(1, None)  # type: ignore[operator]


def test_a_job_of_a_module_that_is_missing_elsewhere_can_be_sent(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"from headrace import App\napp = App({url!r})\n@app.job\ndef note(number: int) -> None: ...\n"
    (tmp_path / "only_here.py").write_text(code)
    with monkeypatch.context() as here:
        here.syspath_prepend(tmp_path)
        data = pickle.dumps(importlib.import_module("only_here").note)
    monkeypatch.delitem(sys.modules, "only_here")

    there: JobFunction[[int], None] = pickle.loads(data)  # noqa: S301 - ours

    assert there.blocking.enqueue(1).status == "created"


def test_senders_with_options_travel_too(url: str) -> None:
    app = App(url)

    @app.job
    def note(number: int) -> None: ...

    there: BlockingSender[[int], None] = pickle.loads(  # noqa: S301 - ours
        pickle.dumps(note.blocking.options(queue="far", priority=8))
    )

    assert (there.job(1).queue, there.job(1).policy.priority) == (Queue("far"), 8)


MAIN = """
import sys
from multiprocessing import get_context
from headrace import App

app = App(sys.argv[1])

@app.job
def note(number: int) -> None: ...

def send(job, number):
    return job is note, job.blocking.enqueue(number).status

if __name__ == "__main__":
    with get_context("spawn").Pool(1) as pool:
        print(pool.starmap(send, [(note, number) for number in range(2)]))
"""


def test_a_pool_of_processes_sends_jobs_of_the_main_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MAIN)
    command = [sys.executable, "-W", "error", str(tmp_path / "program.py"), sqlite_url(tmp_path)]

    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert output == "[(True, 'created'), (True, 'created')]\n"


def _send(job: JobFunction[[int], None], number: int) -> str:
    return job.blocking.enqueue(number).status


def test_forked_workers_of_a_pool_send_jobs(url: str) -> None:
    app = App(url)

    @app.job
    def note(number: int) -> None: ...

    asyncio.run(note.enqueue(0))
    note.blocking.enqueue(1)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        statuses = pool.starmap(_send, [(note, number) for number in range(6)])

    assert statuses == ["created"] * 6
    assert len(set(map(str, [note.blocking.enqueue(1).id, note.blocking.enqueue(1).id]))) == 2
