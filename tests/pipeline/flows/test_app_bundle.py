"""Promises of an app bundle: it holds an app by name where executors can import it, else by value with all it uses."""

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.app.app import App
from headrace.app.discovery import load_app
from headrace.model.errors import BadConfig
from headrace.pipeline.flows.fleet.app_bundle import AppBundle, pack
from headrace.pipeline.source.store_access import this_host
from tests.pipeline.flows import fleet_app
from tests.pipeline.store_scenarios import url_of

TIMEOUT_S = 60

# As in a notebook: the app and its functions are of the program itself.
PROGRAM = """
from __future__ import annotations
import pickle, sys
from dataclasses import dataclass
from headrace import App
from headrace.pipeline.flows.fleet.app_bundle import pack

app = App("sqlite:///elsewhere.db", tenant="acme", queue="notes")

@dataclass
class Note:
    text: str

def loud(text):
    return text.upper()

@app.job(max_attempts=7)
async def note(given: Note) -> str:
    return loud(given.text) + len(given.text) * "!"

@app.job
async def twice(given: Note) -> str:
    return await note(given) + await note(given) + (str(app.url) if given.text == "url" else "")

@app.job(queue="dead_letters")
async def chain(given: Note) -> None:
    await note.enqueue(given)

@app.fail_handler
async def bury(id: str, payload: dict, error: dict) -> None:
    app.buried = id

@app.middleware
async def around(context, call_next):
    return await call_next(context)

sys.stdout.buffer.write(pickle.dumps(pack(app)[1]))
"""

# A worker in another process loads it.
WORKER = """
import asyncio, pickle, sys
bundle = pickle.loads(sys.stdin.buffer.read())
app = bundle.load(sys.argv[1], "")
print(app.registry.kinds, app.maker.tenant, len(app.registry.fails), len(app.middleware_stack))
print([str(queue.full_name) for queue in (*app.handlers.queues, *app.handlers.fail_queues)])
find = app.registry.find
made = find("note").handler.arguments.decode(b'{"given": {"text": "hey"}}')
print(asyncio.run(find("note")(*made[0], **made[1])), find("note").job_options.max_attempts)
made = find("twice").handler.arguments.decode(b'{"given": {"text": "url"}}')
print(asyncio.run(find("twice")(*made[0], **made[1])))
async def work():
    made = find("chain").handler.arguments.decode(b'{"given": {"text": "hey"}}')
    await find("chain")(*made[0], **made[1])
    await app.work(until_idle=True)
    counts = await (await app.client()).store.queues.counts(find("note").queue)
    await app.close()
    return counts.done
print(asyncio.run(work()))
"""


def test_an_app_of_the_program_itself_is_sent_by_value_with_all_that_its_functions_use(tmp_path: Path) -> None:
    url = url_of(tmp_path / "jobs.db")
    packed = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, timeout=TIMEOUT_S, check=True, cwd=tmp_path
    )

    unpacked = subprocess.run(
        [sys.executable, "-c", WORKER, url],
        input=packed.stdout,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=tmp_path,
    )

    assert unpacked.stderr.decode() == ""
    assert unpacked.stdout.decode().splitlines() == [
        "['note', 'twice', 'chain'] acme 1 1",
        "['notes', 'dead_letters', 'notes.fail']",
        "HEY!!! 7",
        f"URL!!!URL!!!{url}",
        "1",
    ]


# As in a notebook that adds a job to the app of a module.
SHOP = """
from headrace import App

app = App(queue="shop")

@app.job
async def ship(number: int) -> int:
    return number

@app.job
async def order(number: int) -> None:
    await ship.enqueue(number=number)
"""
ADDED = """
import pickle, sys
from shop import app, order
from headrace.pipeline.flows.fleet.app_bundle import pack

@app.job
async def hurry(number: int) -> None:
    await order.enqueue(number=number)

sys.stdout.buffer.write(pickle.dumps(pack(app)[1]))
"""
RUN = """
import asyncio, pickle, sys
bundle = pickle.loads(sys.stdin.buffer.read())
app = bundle.load(sys.argv[1], "")
async def work():
    await app.registry.find("hurry").enqueue(number=1)
    await app.work(until_idle=True)
    counts = await (await app.client()).store.queues.counts(app.registry.find("ship").queue)
    await app.close()
    return counts.done
print(bundle.name, asyncio.run(work()))
"""


def test_jobs_of_a_module_enqueue_into_the_store_of_the_fleet_beside_one_of_the_program(tmp_path: Path) -> None:
    url = url_of(tmp_path / "jobs.db")
    (tmp_path / "shop.py").write_text(SHOP)

    def ran(program: str, *words: str, given: bytes = b"") -> bytes:
        command = [sys.executable, "-c", program, *words]
        return subprocess.run(
            command, input=given, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True, cwd=tmp_path
        ).stdout

    assert ran(RUN, url, given=ran(ADDED)).decode() == "None 3\n"
    assert not (tmp_path / "headrace.db").exists()


def test_an_app_of_a_module_is_sent_by_name_with_the_modules_of_its_functions() -> None:
    _, by_name = pack("tests.pipeline.flows.fleet_app:app")
    _, by_object = pack(fleet_app.app)

    assert by_name.name == by_object.name == "tests.pipeline.flows.fleet_app:app"
    assert by_name.modules == by_object.modules == ("tests.pipeline.flows.fleet_app",)
    assert (by_name.value, by_object.value) == (b"", b"")
    assert by_object.load("sqlite:////there.db", this_host()) is load_app("tests.pipeline.flows.fleet_app:app")
    assert fleet_app.app.url == "sqlite:////there.db"


def test_an_executor_that_cannot_import_the_app_says_what_to_do() -> None:
    bundle = AppBundle("shop_nobody_has.jobs:app", (), ())

    with pytest.raises(BadConfig, match=r"executors cannot import shop_nobody_has.jobs:app .* --py-files") as refused:
        bundle.load("sqlite:////there.db", "elsewhere")

    assert "\n" not in str(refused.value)


def test_an_app_that_cannot_be_pickled_is_refused_on_the_driver() -> None:
    lock, app, other = threading.Lock(), App("sqlite:////there.db"), App("sqlite:////there.db")

    @app.job
    def locked() -> None:
        with lock:
            return

    def aside() -> None:
        return

    aside.__qualname__, aside.__module__ = "aside", "__main__"
    other.job(process=True)(aside)

    with pytest.raises(
        BadConfig, match=r"cannot be pickled \(TypeError: cannot pickle '_thread.lock' object\); put the"
    ):
        pack(app)
    with pytest.raises(BadConfig, match="the handler of 'aside' must run in a separate process, which cannot find"):
        pack(other)


def test_a_bundle_is_pickled_as_plain_bytes() -> None:
    _, bundle = pack(App("sqlite:////there.db"))

    assert pickle.loads(pickle.dumps(bundle)) == bundle  # noqa: S301  (as Spark does)
