"""`headrace worker`: runs an app's jobs, tells what it does, and ends in order."""

import json
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headrace.client.client import Client
from headrace.model.limits import COLLECT_AFTER
from headrace.stores.contract.store import Store
from tests.cli.background import until
from tests.cli.support import run, start, with_store
from tests.support.redis_servers import RedisServer

APP = """
from headrace import App, Fail

app = App({url})


@app.job
async def greet(name: str) -> str:
    return f"Hello, {{name}}!"


@app.job(queue="mail", max_attempts=2, backoff=0)
def send(address: str) -> None:
    raise Fail("no such address")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an app that names no store."""
    return project_at(tmp_path / "project", "")


def project_at(folder: Path, url: str) -> Path:
    folder.mkdir()
    (folder / "app.py").write_text(APP.format(url=url))
    return folder


def sent(url: str, *jobs: tuple[str, object, str], tenant: str = "default") -> None:
    """Enqueue jobs that are tried once: kind, payload and queue."""

    async def send(store: Store) -> None:
        client = Client(store, tenant=tenant)
        await client.enqueue_many(
            [client.job(kind, payload, queue=queue, max_attempts=1) for kind, payload, queue in jobs]
        )

    with_store(url, send)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_worker_runs_what_is_due_and_says_what_it_is_and_has_done(url: str, project: Path) -> None:
    """C38: as `worker start --once` and its kin."""
    sent(url, ("greet", {"name": "Ada"}, "default"), ("send", {"address": "x"}, "mail"))

    ran = run("worker", "app:app", "--until-idle", "--log", "text", "--name", "w1", url=url, cwd=project)

    assert (ran.code, ran.lines) == (0, ["2 claimed: 1 done, 1 dead"])
    printed = ran.err.splitlines()
    assert printed[:2] == ["worker w1", "  app       app:app"]
    assert printed[3:7] == [
        "  queues    default, mail",
        "  kinds     greet, send",
        "  capacity  400 at once, 16 of them in threads",
        "  to stop   Ctrl-C; it also ends when nothing is due",
    ]
    assert [word for line in printed[7:] for word in line.split()[2:3]].count("claimed") == 2


def test_a_program_reads_one_event_a_line_and_the_totals_at_the_end(url: str, project: Path) -> None:
    sent(url, ("greet", {"name": "Ada"}, "default"))

    ran = run("worker", "--app", "app", "--until-idle", "--json", "--log-payloads", url=url, cwd=project)

    printed = events(ran.err)
    assert ran.code == 0
    assert ran.document["event"] == "totals"
    assert (ran.document["claimed"], ran.document["done"]) == (1, 1)
    assert [each["event"] for each in printed] == ["started", "claimed", "done", "stopping", "stopped"]
    assert (printed[1]["kind"], printed[1]["payload"]) == ("greet", '{"name":"Ada"}')


def test_the_collector_of_a_worker_looks_seldom_and_only_at_what_is_new(file_url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import gc\nfrom headrace import App\napp = App()\n@app.job\nasync def greet(name: str) -> str:\n"
        "    print(gc.get_threshold()[0], gc.get_freeze_count() > 0)\n"
    )
    sent(file_url, ("greet", {"name": "Ada"}, "default"))

    ran = run("worker", "app", "--until-idle", "--quiet", "--json", url=file_url, cwd=tmp_path)

    assert ran.out.splitlines()[0] == f"{COLLECT_AFTER} True"


def test_the_log_is_text_in_a_terminal_and_json_without_one(file_url: str, project: Path) -> None:
    seen = run("worker", "app", "--until-idle", url=file_url, cwd=project, terminal=True)
    piped = run("worker", "app", "--until-idle", url=file_url, cwd=project)

    assert (seen.code, seen.lines[1], seen.lines[-1]) == (0, "  app       app", "0 claimed")
    assert [each["event"] for each in events(piped.err)] == ["started", "stopping", "stopped"]


def test_quiet_leaves_out_the_lines_about_jobs(file_url: str, project: Path) -> None:
    sent(file_url, ("greet", {"name": "Ada"}, "default"))

    ran = run("worker", "app", "--until-idle", "--quiet", url=file_url, cwd=project)

    assert ran.document["done"] == 1
    assert [each["event"] for each in events(ran.err)] == ["started", "stopping", "stopped"]


def test_a_tenant_alone_means_the_apps_queues_of_this_tenant(url: str, project: Path) -> None:
    sent(url, ("greet", {"name": "Ada"}, "default"))
    sent(url, ("greet", {"name": "Ada"}, "default"), ("greet", {"name": "Bo"}, "mail"), tenant="acme")
    words = ("worker", "app", "--until-idle", "--log", "text")

    typed = run(*words, "--tenant", "acme", url=url, cwd=project)
    sent(url, ("greet", {"name": "Ada"}, "default"), tenant="acme")
    environment = run(*words, url=url, cwd=project, env={"HEADRACE_WORKER_TENANT": "acme"})

    assert (typed.code, typed.lines) == (0, ["2 claimed: 2 done"])
    assert "  queues    default of acme, mail of acme\n" in typed.err
    assert environment.lines == ["1 claimed: 1 done"]


def test_a_tenant_of_the_table_is_the_workers_where_it_says_so_and_else_for_commands_without_an_app(
    file_url: str, project: Path
) -> None:
    """As for `enqueue`: an app knows whose its queues are."""
    table = project / "pyproject.toml"
    words = ("worker", "app", "--until-idle", "--log", "text")

    table.write_text('[tool.headrace]\ntenant = "acme"\n')
    general = run(*words, url=file_url, cwd=project)
    table.write_text('[tool.headrace.worker]\ntenant = "acme"\n')
    own = run(*words, url=file_url, cwd=project)

    assert "  queues    default, mail\n" in general.err
    assert "  queues    default of acme, mail of acme\n" in own.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_jobs_end_and_the_worker_exits_with_0(number: signal.Signals, file_url: str) -> None:
    """T36: `--register` names handlers for trying things out, and no app is needed."""
    sent(file_url, ("nap", "300ms", "default"))

    with start("worker", "--register", "nap=sleep", "--log", "text", url=file_url) as worker:
        until(worker, "claimed")
        worker.send_signal(number)
        out, err = worker.communicate(timeout=30)

    assert (worker.returncode, out) == (0, "1 claimed: 1 done\n")
    assert "stopping" in err


def test_handlers_for_trying_out_echo_fail_and_sleep(url: str) -> None:
    """T36: `--register type=echo|fail|sleep`, and the intervals, as options."""
    sent(url, ("a", {"x": 1}, "trial"), ("b", None, "trial"), ("c", 0.001, "trial"))
    wishes = [word for wish in ("a=echo", "b=fail", "c=sleep") for word in ("--register", wish)]
    intervals = ["--concurrency", "3", "--poll", "1s", "--lease", "10s", "--heartbeat", "2s"]

    ran = run("worker", *wishes, *intervals, "-q", "trial", "--until-idle", "--log", "text", url=url)

    assert (ran.code, ran.lines) == (0, ["3 claimed: 2 done, 1 dead"])
    assert "  app       none, only sample handlers" in ran.err


def test_what_is_typed_beats_the_apps_own_store_and_that_beats_environment_and_table(
    tmp_path: Path, project: Path
) -> None:
    own = project_at(tmp_path / "own", '"sqlite:///own.db"')
    (project / "pyproject.toml").write_text('[tool.headrace]\nurl = "sqlite:///table.db"\napp = "app:app"\n')
    (own / "pyproject.toml").write_text((project / "pyproject.toml").read_text())
    word = ("worker", "--until-idle", "--log", "text")

    stores = [
        run(*word, "--url", "sqlite:///typed.db", cwd=own),
        run(*word, url="sqlite:///environment.db", cwd=own),
        run(*word, url="sqlite:///environment.db", cwd=project),
        run(*word, cwd=project),
    ]

    names = ["typed.db", "own.db", "environment.db", "table.db"]
    assert [ran.err.splitlines()[2].split("/")[-1] for ran in stores] == names
    assert sorted(path.name for path in (*own.glob("*.db"), *project.glob("*.db"))) == sorted(names)


def test_settings_come_from_options_environment_and_table(file_url: str, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.headrace.worker]\nqueues = ["mail=3", "default"]\ncapacity = 7\nthreads = 5\nlog = "text"\n'
    )

    ran = run(
        "worker",
        "app",
        "--until-idle",
        "--threads",
        "2",
        url=file_url,
        cwd=project,
        env={"HEADRACE_WORKER_CAPACITY": "4"},
    )

    assert "  queues    mail (share 3), default (share 1)\n" in ran.err
    assert "  capacity  4 at once, 2 of them in threads\n" in ran.err


def test_metrics_and_health_are_served_while_it_works(file_url: str) -> None:
    sent(file_url, ("k", None, "default"))

    with start("worker", "--register", "k=echo", "--log", "text", "--metrics-port", "0", url=file_url) as worker:
        printed = until(worker, "done")
        [page] = [line.split()[1] for line in printed.splitlines() if line.startswith("  metrics")]
        with urllib.request.urlopen(page) as answer:  # noqa: S310 - the worker's own
            metrics = answer.read().decode()
        with urllib.request.urlopen(page.replace("/metrics", "/health")) as answer:  # noqa: S310 - the worker's own
            health = json.load(answer)
        worker.terminate()
        worker.communicate(timeout=30)

    assert 'headrace_jobs_claimed_total{kind="k",queue="default",tenant="default"} 1.0' in metrics
    assert health["ok"]
    assert health["totals"]["done"] == 1


def test_a_store_that_is_away_at_the_start_is_waited_for(project: Path) -> None:
    with RedisServer(aof="always").launch() as server:
        sent(server.url, ("greet", {"name": "Ada"}, "default"))
        server.kill()
        with start("worker", "app", "--until-idle", url=server.url, cwd=project) as worker:
            printed = until(worker, "store_lost")
            server.start()
            out, err = worker.communicate(timeout=60)

    assert "cannot be reached" in printed
    assert (worker.returncode, json.loads(out)["done"]) == (0, 1)
    assert [each["event"] for each in events(err)][:2] == ["store_back", "started"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_for_its_store_ends_when_it_is_asked_to(number: signal.Signals, project: Path) -> None:
    with start("worker", "app", "--log", "text", url="redis://127.0.0.1:1/0", cwd=project) as worker:
        until(worker, "store_lost")
        worker.send_signal(number)
        out, err = worker.communicate(timeout=30)

    assert (worker.returncode, out) == (0, "0 claimed\n")
    assert "stopped" in err


def test_with_no_wait_a_worker_ends_where_its_store_is_away(project: Path) -> None:
    ran = run("worker", "app", "--no-wait", url="redis://user:hidden@127.0.0.1:1/0", cwd=project)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("headrace: redis at 127.0.0.1:1 cannot be reached")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "a worker needs an app; name it as in: headrace worker app:app"),
        (["ap:app"], "there is no module 'ap'"),
        (["app", "-q", "mail=much"], "--queues must be NAME or NAME=WEIGHT with a whole number; found 'mail=much'"),
        (
            ["app", "--register", "k=ech"],
            "--register must be KIND=echo, KIND=fail or KIND=sleep; found 'k=ech'; did you",
        ),
        (["app", "--lease", "10s", "--heartbeat", "8s"], "a heartbeat every 8,000 ms leaves no second try"),
        (["app", "--capacity", "0"], "capacity of a worker must be a whole number from 1 to 10,000; found 0"),
        (["app", "--url", "memory://"], "a store in memory ends with the command"),
        (["app", "--tenant", "*"], "a worker claims for one tenant, and tenant '*' means all; start a worker for each"),
        (["empty"], "empty has no jobs; put @app.job above a function"),
        (["app", "--log", "xml"], "Invalid value for '--log'"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(words: list[str], sentence: str, project: Path) -> None:
    (project / "empty.py").write_text("from headrace import App\n\napp = App()\n")

    ran = run("worker", *words, cwd=project)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"headrace: {sentence}")


def test_a_port_that_is_taken_is_refused(file_url: str, project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ran = run("worker", "app", "--metrics-port", port, "--log", "json", url=file_url, cwd=project)

    assert (ran.code, ran.out) == (2, "")
    assert port in ran.err
