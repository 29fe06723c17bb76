"""A worker program prints a greeting, leaves a program's logging alone, and waits for its store."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import App
from headrace.model.limits import COLLECT_AFTER
from tests.cli.support import environment, in_terminal
from tests.support.redis_servers import RedisServer
from tests.support.stores import sqlite_url

PROGRAM = """
import logging, sys
from headrace import App

app = App(sys.argv[1])


@app.job(queue="mail")
async def greet(name: str) -> str:
    return f"Hello, {{name}}!"


{before}
app.run_worker(until_idle=True, name="w1")
"""
RUN_S = 60.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a job that is due."""
    url = sqlite_url(tmp_path)
    send(url)
    return url


TOLD_OF_COLLECTOR = """
import gc

before = gc.get_threshold()


@app.job(queue="mail")
async def greet(name: str) -> str:
    print("works", gc.get_threshold()[0], gc.get_freeze_count() > 0)


import atexit
atexit.register(lambda: print("ended", gc.get_threshold() == before, gc.get_freeze_count() > 0))
"""


def send(url: str) -> None:
    app = App(url)
    app.job(kind="greet", queue="mail")(_greet).blocking.enqueue(name="Ada")
    app.blocking.close()


def _greet(name: str) -> str:
    raise NotImplementedError(name)


def command(url: str, before: str = "") -> list[str]:
    return [sys.executable, "-W", "error", "-c", PROGRAM.format(before=before), url]


def ran(url: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    """The program, run without a terminal until nothing is due."""
    return subprocess.run(
        command(url, before), env=environment(), capture_output=True, text=True, timeout=RUN_S, check=False
    )


def test_in_a_terminal_it_greets_and_writes_a_line_for_every_job(url: str, tmp_path: Path) -> None:
    seen = in_terminal(command(url), tmp_path, environment(), "")

    lines = seen.out.splitlines()
    assert (seen.code, lines[0]) == (0, "worker w1")
    assert [line.split()[0] for line in lines[1:6]] == ["store", "queues", "kinds", "capacity", "to"]
    assert [line.split()[2] for line in lines[6:]] == ["started", "claimed", "done", "stopping", "stopped"]


def test_without_a_terminal_it_writes_an_object_a_line(url: str) -> None:
    program = ran(url)

    lines = [json.loads(line) for line in program.stderr.splitlines()]
    assert (program.returncode, program.stdout) == (0, "")
    assert [each["event"] for each in lines] == ["started", "claimed", "done", "stopping", "stopped"]


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        (
            "logging.basicConfig(format='mine %(message)s', level='INFO')",
            ["started", "claimed", "done", "stopping", "stopped"],
        ),
        ("logging.basicConfig(format='mine %(message)s')", []),
        ("logging.getLogger('headrace').setLevel('WARNING')", []),
    ],
)
def test_a_program_that_has_set_up_logging_is_left_as_it_is(before: str, lines: list[str], url: str) -> None:
    program = ran(url, before)

    output_lines = program.stderr.splitlines()
    assert (program.returncode, program.stdout) == (0, "")
    assert [line.split()[1].rstrip(":") for line in output_lines] == lines
    assert all(line.startswith("mine ") for line in output_lines)


def test_a_log_that_was_set_up_by_hand_has_every_line_once(url: str) -> None:
    program = ran(url, "from headrace.worker.logging import setup_logs; logs = setup_logs('json', jobs=False)")

    lines = [json.loads(line)["event"] for line in program.stderr.splitlines()]
    assert lines == ["started", "stopping", "stopped"]


def test_a_store_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    server = RedisServer()
    with (
        server,
        subprocess.Popen(
            command(server.url), env=environment(), cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as program,
    ):
        assert program.stderr is not None
        first = json.loads(program.stderr.readline())
        server.start()
        events = [json.loads(line)["event"] for line in program.stderr]

    assert (first["event"], program.returncode) == ("store_lost", 0)
    assert events == ["store_back", "started", "stopping", "stopped"]


def test_without_waiting_a_store_that_is_away_at_the_start_is_an_error(url: str) -> None:
    before = "app.run_worker = lambda run=app.run_worker, **given: run(wait=False, **given)"

    program = ran("redis://127.0.0.1:1/0", before)

    assert program.returncode == 1
    assert program.stderr.splitlines()[-1].startswith("headrace.model.errors.StoreUnavailable: redis at 127.0.0.1:1")


def test_the_collector_looks_seldom_and_only_at_what_is_new_while_a_program_works(url: str) -> None:
    program = ran(url, TOLD_OF_COLLECTOR)

    assert program.stdout.splitlines() == [f"works {COLLECT_AFTER} True", "ended True False"]


@pytest.mark.parametrize(
    ("choice", "threshold"),
    [("gc.set_threshold(0)", 0), ("gc.set_threshold(1_000_000)", 1_000_000), ("gc.disable()", None)],
)
def test_a_program_that_has_set_up_its_collector_is_left_as_it_is(choice: str, threshold: int | None, url: str) -> None:
    program = ran(url, f"import gc\n{choice}\n{TOLD_OF_COLLECTOR}")

    assert program.stdout.splitlines() == [
        f"works {gc.get_threshold()[0] if threshold is None else threshold} False",
        "ended True False",
    ]


def test_a_worker_inside_another_program_leaves_its_collector_alone(url: str) -> None:
    within = "app.run_worker = lambda **given: __import__('asyncio').run(app.work(**given))"

    program = ran(url, f"{TOLD_OF_COLLECTOR}\n{within}")

    assert program.stdout.splitlines() == [f"works {gc.get_threshold()[0]} False", "ended True False"]


SEVERAL = """
import os
from pathlib import Path

from headrace import App

app = App()
HERE = Path(__file__).parent


def ran() -> None:
    pass


@app.job
async def greet(name: str) -> None:
    (HERE / f"by-{os.getpid()}").touch()


@app.job(process=True)
def count(numbers: list[int]) -> int:
    (HERE / "counted").write_text(str(sum(numbers)))
    return sum(numbers)


"""
GUARDED = """
if __name__ == "__main__":
    greet.blocking.enqueue(name="Ada")
    count.blocking.enqueue(numbers=[1, 2])
    app.run_worker(processes=2, until_idle=True)
"""


HIDDEN = """
from headrace import App


def main():
    app = App()
    app.job(kind="k")(main)
    app.run_worker(processes=2)


if __name__ == "__main__":
    main()
"""


def ran_program(folder: Path, text: str, url: str | None = None) -> "subprocess.CompletedProcess[str]":
    """A program in a file of its own, run until it ends."""
    (folder / "program.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=folder,
        env=environment(url or sqlite_url(folder)),
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def test_a_program_runs_its_own_jobs_in_several_processes(tmp_path: Path) -> None:
    """What is behind its guard is run once, and handlers with a process of their own are found, too."""
    program = ran_program(tmp_path, SEVERAL + GUARDED)

    lines = [json.loads(line) for line in program.stderr.splitlines()]
    pids = {line["worker"].split(":")[1] for line in lines if line["event"] == "started"}
    assert (program.returncode, program.stdout) == (0, "")
    assert sorted(line["kind"] for line in lines if line["event"] == "done") == ["count", "greet"]
    assert (tmp_path / "counted").read_text() == "3"
    assert {path.name.partition("-")[2] for path in tmp_path.glob("by-*")} <= pids


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SEVERAL + "app.run_worker(processes=2)", "the main program starts a worker whenever it is imported"),
        (
            SEVERAL + 'if __name__ == "__main__":\n    app.run_worker(processes=2, listeners=[print])',
            "listeners do not work across processes",
        ),
        (
            SEVERAL + 'if __name__ == "__main__":\n    app.run_worker(processes=0)',
            "processes must be a whole number from 1 to 512; found 0",
        ),
        (
            SEVERAL + 'if __name__ == "__main__":\n    app.use_url("memory://")\n    app.run_worker(processes=2)',
            "2 worker processes cannot share a store in memory",
        ),
        (
            SEVERAL + 'if __name__ == "__main__":\n    app.job(kind="late")(ran)\n    app.run_worker(processes=2)',
            "a worker process does not find the jobs ['late'] in the app",
        ),
        (
            HIDDEN,
            "worker processes do not find the app",
        ),
    ],
)
def test_what_several_processes_cannot_do_is_refused_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    program = ran_program(tmp_path, text)

    assert program.returncode == 1
    assert program.stderr.splitlines()[-1].startswith(f"headrace.model.errors.BadConfig: {sentence}")
