"""Every program in examples/ runs and prints its expected output."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.postgres_servers import PostgresServer
from tests.support.stores import sqlite_url

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(folder: Path, name: str, *arguments: str) -> list[str]:
    """The lines that an example prints, started in a folder of its own."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "HEADRACE_URL"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.splitlines()


FIRST_JOB = """\
welcomed user 42
"""
LIVE_FEED = """\
what is there, then what changes:
present   1 'repair the mill'
present   2 'paint the door'
published 3 'buy timber' before 1
while the screen was away:
edited    2 'paint the door blue'
moved     2 'paint the door blue' first
retracted 1
the board: paint the door blue, buy timber
the inbox: a telegram and a dead letter
"""
STORE_LEVEL = """\
sqlite, durable: answered calls survive the end of the process, a crash of the system and a power cut
enqueue  welcome/ann  created
enqueue  welcome/bob  created
enqueue  welcome/cy   created
enqueue  digest       created
settle   welcome/ann  done
settle   welcome/bob  done
settle   welcome/cy   retried
result   welcome/ann  "sent to ann@example.org"
counts   waiting 2, 2 of them later; active 0; done 2
journal
    1  enqueued  welcome/ann
    2  enqueued  welcome/bob
    3  enqueued  welcome/cy
    4  enqueued  digest
    5  claimed   welcome/ann  worker-1
    6  claimed   welcome/bob  worker-1
    7  claimed   welcome/cy   worker-1
    8  done      welcome/ann  worker-1
    9  done      welcome/bob  worker-1
   10  retried   welcome/cy   worker-1
"""
RETRIES = """\
three attempts:
  attempt 1: silence
  attempt 2: silence
  attempt 3: silence
  job 'sync/7' died (attempts) of TimeoutError: the CRM did not answer
the fail handler hears of both:
  sync/7 {'customer': 7}: TimeoutError, the CRM did not answer (attempts)
  rename/8 {'customer': 8, 'name': ''}: Fail, customer 8 needs a name (failed)
the CRM is back, so the first one is replayed:
  attempt 1: busy
  attempt 2: updated
  customer 7 updated
dead letters left: rename/8
"""
SINGLETONS = """\
while it waits, the last one wins:
  draft 1 created
  draft 2 updated
while it runs, the next one waits behind it:
  draft 3 blocked
  rendered draft 3
debounced: each edit moves it later, and it runs once, a moment after the last:
  created, updated, updated
  rendered edit 3
with a key, asking twice is noticed, also when the work is done:
  created: invoice of order 7
  duplicate: invoice of order 7
  conflict: the key was used for other work
"""
TENANTS = """\
acme/mail: 60 waiting
globex/mail: 10 waiting
the first eight: acme 0, acme 1, globex 0, acme 2, acme 3, acme 4, globex 1, acme 5
in the end 70 were sent
"""
PROCESS_POOL = """\
primes: 4 168 9592
in a process of its own: True
TimedOut: the handler was still running after its 0.5 s
and the pool is whole again: 25
"""
RESULTS = """\
/       2
/about  1
/news   3
together 6
job 'count/nowhere' died (failed) of Fail: there is no page /nowhere
job 'count/later' has not ended in time: cancelled
job 'count/later' was cancelled and has no result
"""
OWN_TRANSACTION = """\
order 2 was not placed: nobody pays less than nothing
orders: 1
receipt of order 1
"""
OUTPUTS = {
    "first_job.py": FIRST_JOB,
    "live_feed.py": LIVE_FEED,
    "process_pool.py": PROCESS_POOL,
    "results.py": RESULTS,
    "retries_and_dead_letters.py": RETRIES,
    "singletons.py": SINGLETONS,
    "store_level.py": STORE_LEVEL,
    "tenants.py": TENANTS,
}
OTHERS = {"fastapi_producer.py", "own_transaction.py", "spark_tour.py"}
"""Run by tests of their own, the last one by tests/pipeline."""


def test_every_example_is_run_by_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*OUTPUTS, *OTHERS}


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_an_example_prints_its_expected_output(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, name) == OUTPUTS[name].splitlines()


def test_a_job_of_ones_own_transaction_comes_and_goes_with_it(tmp_path: Path) -> None:
    with PostgresServer(fsync=True) as server:
        server.launch()

        assert run(tmp_path, "own_transaction.py", server.url) == OWN_TRANSACTION.splitlines()


@contextmanager
def program(*words: str, url: str, fds: tuple[int, ...] = ()) -> Iterator[None]:
    """A program that runs beside the block, and exits cleanly on a signal."""
    env = os.environ | {"HEADRACE_URL": url}
    process = subprocess.Popen([sys.executable, *words], env=env, stderr=subprocess.PIPE, text=True, pass_fds=fds)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=60)
        # uvicorn ends itself by the signal that it was sent, once all is closed.
        assert (process.returncode in (0, -signal.SIGTERM), "Traceback" in output) == (True, False), output
    finally:
        process.kill()
        process.communicate()


def test_a_web_program_takes_orders_that_a_worker_program_does(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    # It listens before the server is there: whoever asks early waits, and nobody has to look whether it is up.
    with socket.create_server(("127.0.0.1", 0)) as door:
        uvicorn = ("-m", "uvicorn", "--app-dir", str(EXAMPLES), "--fd", str(door.fileno()), "fastapi_producer:web")
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        with (
            program(*uvicorn, url=url, fds=(door.fileno(),)),
            httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
        ):
            sent = client.post("/thumbnails", params={"picture": "mill.png", "width": 64})
            order = sent.json()
            before = client.get(f"/thumbnails/{order['id']}")
            with program(str(EXAMPLES / "fastapi_producer.py"), url=url):
                after = client.get(f"/thumbnails/{order['id']}", params={"wait": 50})
            again = client.post("/thumbnails", params={"picture": "mill.png", "width": 64})
            missing = client.get("/thumbnails/nobody")

    assert (sent.status_code, order["status"]) == (202, "created")
    assert before.json() == {"state": "under way", "result": None}
    assert after.json() == {"state": "done", "result": "mill.png in 64 pixels"}
    assert again.json() == {"id": order["id"], "status": "duplicate"}
    assert missing.status_code == 404
