"""`headrace worker --processes N`: several workers under one supervisor, which look like one from outside."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.client.client import Client
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.cli.background import until
from tests.cli.support import COMMAND, environment, run, start, with_store
from tests.support.process import wait_until
from tests.support.terminals import Terminal

APP = """
import asyncio, os
from pathlib import Path

from headrace import App, current

app = App()
HERE = Path(__file__).parent


@app.job
async def note() -> None:
    current().log.info("noted")
    await asyncio.sleep(0.01)


@app.job(queue="far", process=True)
def note_far() -> None:
    current().log.info("noted far away")


@app.job
async def nap(seconds: float) -> None:
    (HERE / f"napping-{os.getpid()}").touch()
    await asyncio.sleep(seconds)


@app.job
async def block_once() -> None:
    if not (HERE / "blocked").exists():
        (HERE / "blocked").write_text(str(os.getpid()))
        await asyncio.sleep(600)


@app.job
async def invite() -> None:
    await asyncio.sleep(1.0)  # meanwhile the other process is idle
    for name in ("a", "b"):
        await meet.enqueue(name=name)


@app.job
async def meet(name: str) -> None:
    (HERE / name).write_text(str(os.getpid()))
    while len(list(HERE.glob("[ab]"))) < 2:
        await asyncio.sleep(0.01)
"""
TWO = ("--processes", "2")
SOON_S = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an app that names no store."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    return folder


def send(url: str, kind: str, count: int = 1, **payload: object) -> None:
    """Enqueue jobs of a kind."""

    async def sending(store: Store) -> None:
        client = Client(store)
        await client.enqueue_many([client.job(kind, payload) for _ in range(count)])

    with_store(url, sending)


def naps(project: Path) -> int:
    """How many processes have begun to nap."""
    return len(list(project.glob("napping-*")))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def counts_of(url: str) -> dict[str, int]:
    """How many jobs are in which state."""

    async def look(store: Store) -> dict[str, int]:
        counts = await store.queues.counts(Queue("default"))
        return {"waiting": counts.waiting, "active": counts.active, "dead": counts.dead}

    return with_store(url, look)


def charged(url: str) -> set[tuple[int, int]]:
    """The attempts and stalls that waiting jobs were charged."""

    async def look(store: Store) -> set[tuple[int, int]]:
        page = await store.reads.list(Queue("default"), State.WAITING, limit=100)
        return {(row.record.attempts, row.record.stalls) for row in page.rows if row.record is not None}

    return with_store(url, look)


def health_of(page: str) -> tuple[int, dict[str, Any]]:
    """Status and body of the one health answer."""
    try:
        with urllib.request.urlopen(page.replace("/metrics", "/health"), timeout=SOON_S) as answer:  # noqa: S310 - our own
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def metric(page: str, name: str) -> float:
    """The sum of all samples of a name."""
    with urllib.request.urlopen(page, timeout=SOON_S) as answer:  # noqa: S310 - our own
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return sum(each.value for family in families for each in family.samples if each.name == name)


def page_of(worker: "subprocess.Popen[str]") -> str:
    """Where a worker serves its metrics, read off its greeting."""
    printed = until(worker, "  metrics ")
    return printed.split()[-1]


def pids_of(page: str) -> list[int]:
    return [each["pid"] for each in health_of(page)[1]["processes"]]


def is_well(page: str) -> bool:
    return health_of(page)[0] == 200


def test_several_processes_claim_jobs_and_each_job_is_done_once(url: str, project: Path) -> None:
    send(url, "note", 400)

    ran = run("worker", "app", *TWO, "--until-idle", "--json", "--capacity", "10", url=url, cwd=project)

    printed = lines(ran.err)
    done = Counter(line["id"] for line in printed if line["event"] == "done")
    assert (ran.code, ran.document["done"], ran.document["claimed"]) == (0, 400, 400)
    assert (len(done), set(done.values())) == (400, {1})
    assert counts_of(url) == {"waiting": 0, "active": 0, "dead": 0}


def test_lines_of_the_log_and_names_in_the_journal_tell_the_processes_apart(file_url: str, project: Path) -> None:
    send(file_url, "note", 300)

    ran = run("worker", "app", *TWO, "--until-idle", "--json", "--capacity", "2", url=file_url, cwd=project)
    named = run("worker", "app", *TWO, "--until-idle", "--json", "--name", "w", url=file_url, cwd=project)

    names = {line["process"]: line["worker"] for line in lines(ran.err) if line["event"] == "started"}
    claimed = {(line["process"], line["worker"]) for line in lines(ran.err) if line["event"] == "claimed"}
    noted = {line["process"] for line in lines(ran.err) if line["event"] == "log"}
    assert sorted(names) == sorted(noted) == [1, 2]
    assert claimed == set(names.items())
    assert {line["worker"] for line in lines(named.err) if line["event"] == "started"} == {"w:1", "w:2"}


def test_lines_of_handlers_in_a_pool_carry_the_number_of_its_worker(file_url: str, project: Path) -> None:
    far = project / "jobs.txt"
    far.write_text('{"kind": "note_far", "payload": {}, "queue": "far"}\n')
    assert run("enqueue", "--from", str(far), "--no-app", url=file_url, cwd=project).code == 0

    ran = run("worker", "app", *TWO, "--until-idle", "--json", "-q", "far", url=file_url, cwd=project)

    printed = lines(ran.err)
    [claimed] = [line["process"] for line in printed if line["event"] == "claimed"]
    [noted] = [line["process"] for line in printed if line["event"] == "log"]
    assert claimed == noted


def test_a_process_that_is_killed_is_started_anew_and_its_jobs_are_done_after_their_leases(
    url: str, project: Path
) -> None:
    blocked = project / "blocked"  # holds the pid, a moment after it is there
    send(url, "block_once")

    words = ("worker", "app", *TWO, "--lease", "2s", "--log", "text", "--metrics-port", "0")
    with start(*words, url=url, cwd=project) as worker:
        page = page_of(worker)
        until(worker, "claimed")
        wait_until(lambda: blocked.exists() and blocked.read_text() != "", "the job", SOON_S)
        os.kill(int(blocked.read_text()), signal.SIGKILL)
        printed = until(worker, "done")
        wait_until(lambda: is_well(page), "both processes", SOON_S)
        restarts = health_of(page)[1]["restarts"]
        worker.terminate()
        out, _ = worker.communicate(timeout=SOON_S)

    assert "was killed by SIGKILL; the next starts in 0.2 s" in printed
    assert (worker.returncode, restarts) == (0, 1)
    assert out.endswith(" 1 done\n")


def test_a_process_that_dies_at_once_again_and_again_is_started_with_growing_pauses(
    file_url: str, project: Path
) -> None:
    dies_in_a_worker = "\nimport __main__\nif not hasattr(__main__, '__file__'):\n    os._exit(7)\n"
    (project / "app.py").write_text(APP + dies_in_a_worker)

    with start("worker", "app", *TWO, "--json", "--metrics-port", "0", url=file_url, cwd=project) as worker:
        printed = lines(until(worker, '"pause_ms":1600'))
        worker.terminate()
        out, _ = worker.communicate(timeout=SOON_S)

    pauses = [line["pause_ms"] for line in printed if line["process"] == printed[-1]["process"]]
    assert pauses == [200, 400, 800, 1_600]
    assert {line["event"] for line in printed} == {"process_ended"}
    assert printed[0]["message"].endswith("ended with code 7; the next starts in 0.2 s")
    assert (worker.returncode, json.loads(out)["claimed"]) == (0, 0)


def test_a_run_until_idle_gives_up_on_a_process_that_cannot_live(file_url: str, project: Path) -> None:
    dies_in_a_worker = "\nimport __main__\nif not hasattr(__main__, '__file__'):\n    os._exit(7)\n"
    (project / "app.py").write_text(APP + dies_in_a_worker)

    ran = run("worker", "app", *TWO, "--until-idle", "--log", "text", url=file_url, cwd=project)

    assert (ran.code, ran.out) == (1, "")
    assert "ended with code 7, 5 times in a row; see its log" in ran.err.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_the_jobs_of_all_processes_end(number: signal.Signals, file_url: str, project: Path) -> None:
    send(file_url, "nap", 2, seconds=1.5)

    words = ("worker", "app", *TWO, "--capacity", "1", "--log", "text")
    with start(*words, url=file_url, cwd=project) as worker:
        wait_until(lambda: naps(project) == 2, "both naps", SOON_S)
        worker.send_signal(number)
        out, err = worker.communicate(timeout=SOON_S)

    assert (worker.returncode, out) == (0, "2 claimed: 2 done\n")
    assert err.count("stopped") == 2


def test_a_second_signal_gives_the_jobs_of_all_processes_back_at_once_and_charges_nothing(
    file_url: str, project: Path
) -> None:
    send(file_url, "nap", 2, seconds=600)

    words = ("worker", "app", *TWO, "--capacity", "1", "--log", "text", "--grace", "500s")
    with start(*words, url=file_url, cwd=project) as worker:
        wait_until(lambda: naps(project) == 2, "both naps", SOON_S)
        worker.terminate()
        until(worker, "stopping")
        worker.terminate()
        out, _ = worker.communicate(timeout=SOON_S)

    assert (worker.returncode, out) == (0, "2 claimed: 2 released\n")
    assert counts_of(file_url) == {"waiting": 2, "active": 0, "dead": 0}
    assert charged(file_url) == {(0, 0)}


def test_ctrl_c_in_a_terminal_is_one_signal_for_each_process(file_url: str, project: Path) -> None:
    """The terminal sends it to what is in the foreground, and the supervisor passes it on: the grace is kept."""
    send(file_url, "nap", 2, seconds=1.5)
    words = [*COMMAND, "worker", "app", *TWO, "--capacity", "1"]

    with Terminal(words, cwd=project, env=environment(file_url)) as terminal:
        wait_until(lambda: naps(project) == 2, "both naps", SOON_S)
        terminal.type("\x03")
        code = terminal.end()

    assert code == 0
    assert " released" not in terminal.output


def test_metrics_and_health_are_the_sums_of_all_processes_also_of_those_that_are_gone(
    file_url: str, project: Path
) -> None:
    send(file_url, "note", 200)

    words = ("worker", "app", *TWO, "--capacity", "2", "--quiet", "--log", "text", "--metrics-port", "0")
    with start(*words, url=file_url, cwd=project) as worker:
        page = page_of(worker)
        wait_until(lambda: metric(page, "headrace_jobs_ended_total") == 200, "all jobs", SOON_S)
        wait_until(lambda: is_well(page), "both processes", SOON_S)
        status, health = health_of(page)
        names = ("headrace_job_run_seconds_count", "headrace_worker_capacity", "headrace_worker_processes")
        before = [metric(page, name) for name in names]
        os.kill(health["processes"][0]["pid"], signal.SIGTERM)
        wait_until(lambda: health_of(page)[1]["restarts"] == 1 and is_well(page), "a new process", SOON_S)
        after = [metric(page, name) for name in (*names, "headrace_worker_process_restarts_total")]
        worker.terminate()
        out, _ = worker.communicate(timeout=SOON_S)

    each_claimed = [each["worker"]["totals"]["claimed"] for each in health["processes"]]
    assert (status, health["ok"], health["totals"]["done"], sum(each_claimed)) == (200, True, 200, 200)
    assert before == [200, 4, 2]
    assert after == [200, 4, 2, 1]
    assert (worker.returncode, out) == (0, "200 claimed: 200 done\n")


def test_health_says_which_process_does_not_answer(file_url: str, project: Path) -> None:
    words = ("worker", "app", *TWO, "--log", "text", "--metrics-port", "0")
    with start(*words, url=file_url, cwd=project) as worker:
        page = page_of(worker)
        wait_until(lambda: is_well(page), "both processes", SOON_S)
        stopped = pids_of(page)[1]
        os.kill(stopped, signal.SIGSTOP)
        status, health = health_of(page)
        os.kill(stopped, signal.SIGCONT)
        wait_until(lambda: is_well(page), "both processes", SOON_S)
        worker.terminate()
        worker.communicate(timeout=SOON_S)

    assert (status, health["ok"]) == (503, False)
    assert health["why"] == "process 2: it does not answer"


def test_until_idle_keeps_all_processes_until_none_has_anything_to_do(url: str, project: Path) -> None:
    """The two that meet would wait for each other for ever, were the first process to be idle gone by then."""
    (project / "app.py").write_text(APP.replace("App()", f"App({url!r})"))
    send(url, "invite")

    ran = run("worker", "app", *TWO, "--until-idle", "--capacity", "1", "--log", "text", url=url, cwd=project)

    assert (ran.code, ran.lines) == (0, ["3 claimed: 3 done"])
    assert len({(project / name).read_text() for name in ("a", "b")}) == 2


def test_with_no_wait_all_end_where_the_store_is_away(project: Path) -> None:
    ran = run("worker", "app", *TWO, "--no-wait", "--quiet", url="redis://user:hidden@127.0.0.1:1/0", cwd=project)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines()[-1].startswith("headrace: redis at 127.0.0.1:1 cannot be reached")


def test_what_no_process_could_do_ends_all_with_the_same_sentence_and_code_as_one(url: str, project: Path) -> None:
    send(url, "note")
    (project / "app.py").write_text(
        APP.replace("App()", 'App(queue=__import__("headrace").Queue("default", shards=3))')
    )

    one = run("worker", "app", "--log", "text", url=url, cwd=project)
    two = run("worker", "app", *TWO, "--log", "text", url=url, cwd=project)

    assert (one.code, two.code) == (2, 2)
    assert one.err.splitlines()[-1] == two.err.splitlines()[-1]


def test_processes_that_lose_their_supervisor_end_by_themselves_with_their_grace(file_url: str, project: Path) -> None:
    send(file_url, "nap", seconds=1)

    words = ("worker", "app", *TWO, "--log", "text", "--metrics-port", "0")
    with start(*words, url=file_url, cwd=project) as worker:
        page = page_of(worker)
        until(worker, "claimed")
        pids = pids_of(page)
        worker.kill()
        worker.wait()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "their end", SOON_S)

    assert counts_of(file_url) == {"waiting": 0, "active": 0, "dead": 0}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "0"], "Invalid value for '--processes'"),
        ([*TWO, "--url", "memory://"], "a store in memory ends with the command"),
        ([*TWO, "--capacity", "0"], "capacity of a worker must be a whole number from 1 to 10,000; found 0"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_started(words: list[str], sentence: str, project: Path) -> None:
    ran = run("worker", "app", *words, cwd=project)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"headrace: {sentence}")
