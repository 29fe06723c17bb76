"""Promises of a fleet on a local Spark, which runs tasks once: the supervisor restarts what crashes."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.app.app import App
from headrace.cli.main import main
from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import FeedName
from headrace.model.names import Queue
from headrace.pipeline.flows.fleet import supervisor
from headrace.pipeline.flows.fleet.report import FleetProgress
from headrace.pipeline.flows.fleet.run import run_fleet
from headrace.pipeline.flows.fleet.supervisor import SlotTask, Supervisor
from tests.pipeline.flows.fleet_app import app
from tests.pipeline.flows.fleet_runs import check_once, event_counts, journal, once_marked, send
from tests.pipeline.logs import logging_to
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.support.process import wait_until
from tests.support.redis_servers import RedisServer
from tests.support.servers import PASSWORD

APP = "tests.pipeline.flows.fleet_app:app"
LEASE = "2s"


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def test_a_fleet_drains_its_queues_and_reports_what_the_journal_says(spark: SparkSession, url: str) -> None:
    send(url, "double", *({"number": number} for number in range(100)))
    reports: list[FleetProgress] = []

    report = run_fleet(spark, APP, url=url, on_progress=reports.append)

    assert check_once(url) == {"done": 90, "dead": 10}
    events = journal(url)
    claims = [each for each in events if each["event"] == "claimed"]
    assert (report.end_reason, report.slots, report.starts_max, report.crashes) == ("drained", 2, 1, 0)
    assert (report.jobs, report.deliveries, report.done, report.dead) == (100, len(claims), 90, 10)
    assert (report.retried, report.stalled, report.released, report.cancelled, report.open) == (10, 0, 0, 0, 0)
    assert (report.waiting, report.active, report.blocked, report.missed) == (0, 0, 0, 0)
    assert {counts.worker for counts in report.workers} == {each["worker"] for each in claims}
    assert all(counts.worker.startswith(f"fleet-{report.fleet}/") for counts in report.workers)
    assert report.jobs_per_s > 0
    assert report.run_p50_ms is not None
    assert "90 done, 10 retried, 10 dead" in report.sentence()
    last = reports[-1]
    assert (last.running, last.settled, last.done, last.dead, last.remaining) == (0, 110, 90, 10, 0)


def test_a_crash_of_one_worker_costs_no_other_worker_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """The job of the lost process comes back when its lease has expired."""
    url = fresh_url("sqlite", tmp_path)
    send(url, "crash", {"mark": str(tmp_path / "crashed")})
    send(url, "double", *({"number": number} for number in range(20)), delay="100ms")

    report = run_fleet(spark, APP, url=url, lease=LEASE)

    assert check_once(url) == {"done": 19, "dead": 2}
    assert (report.end_reason, report.crashes, report.starts_max, report.open) == ("drained", 1, 2, 0)
    assert report.stalled == event_counts(url)["stalled"]


def test_a_worker_that_crashes_while_progress_is_reported_is_restarted(spark: SparkSession, tmp_path: Path) -> None:
    """The supervisor is busy just then, and it is the last worker."""
    url, go = fresh_url("sqlite", tmp_path), tmp_path / "go"
    send(url, "crash", {"mark": str(tmp_path / "crashed"), "go": str(go)})

    def tell(progress: FleetProgress) -> None:
        if progress.running and not go.exists():
            go.touch()
            wait_until(lambda: all(thread.name != "fleet-0" for thread in threading.enumerate()), "the crash")

    report = run_fleet(spark, APP, url=url, lease=LEASE, workers=1, on_progress=tell)

    assert (report.end_reason, report.crashes, report.done) == ("drained", 1, 1)


def test_a_worker_that_crashes_during_an_outage_of_the_store_is_restarted_after_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a crash does not count against the worker."""
    monkeypatch.setattr(supervisor, "FLEET_CRASHES_MAX", 1)
    monkeypatch.setattr(supervisor, "RESTART_MS_MAX", 200)
    go, plan_restart = tmp_path / "go", Supervisor._plan_restart
    with RedisServer(aof="always").launch() as server:
        send(server.url, "crash", {"mark": str(tmp_path / "crashed"), "go": str(go)})

        def kill_server(_: int) -> None:
            server.kill()
            go.touch()

        def restart_server(self: Supervisor, task: SlotTask) -> None:
            plan_restart(self, task)
            server.start()

        monkeypatch.setattr(Supervisor, "_plan_restart", restart_server)
        with once_marked(tmp_path / "crashed", act=kill_server):
            report = run_fleet(spark, APP, url=server.url, lease=LEASE, workers=1)

    assert (report.end_reason, report.crashes, report.done) == ("drained", 1, 1)


def test_a_fleet_does_not_wait_for_a_thread_that_has_lost_its_job(spark: SparkSession, tmp_path: Path) -> None:
    url, mark = fresh_url("sqlite", tmp_path), tmp_path / "held"
    send(url, "hang", {"mark": str(mark)})
    [job] = [each["id"] for each in journal(url)]

    with once_marked(mark, act=lambda _: call_store(url, lambda store: store.jobs.remove(Queue("fleet"), [job]))):
        report = run_fleet(spark, APP, url=url, lease=LEASE, workers=1)

    assert (report.end_reason, report.done, report.waiting, report.active) == ("drained", 0, 0, 0)


def test_a_stopped_fleet_releases_its_jobs_and_leaves_nothing_running(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh_url("redis", tmp_path)
    marks = [tmp_path / f"held-{number}" for number in range(3)]
    send(url, "hold", *({"mark": str(mark)} for mark in marks))
    stopping = threading.Event()

    with once_marked(*marks, act=lambda _: stopping.set()):
        report = run_fleet(spark, app, url=url, until=None, grace=0, stopping=stopping)

    assert (report.end_reason, report.released, report.open, report.crashes) == ("stopped", 3, 0, 0)
    assert (report.waiting, report.active) == (3, 0)
    assert event_counts(url) == {"enqueued": 3, "claimed": 3, "released": 3}
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert call_store(url, lambda store: store.items.list(FeedName("spark.fleets"))).rows == []


def test_a_fleet_ends_after_its_time_and_reports_on_queues_that_do_not_exist(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = fresh_url("sqlite", tmp_path)

    report = run_fleet(spark, app, url=url, until=None, for_ms=100, workers=1)

    assert (report.end_reason, report.jobs, report.workers) == ("timed_out", 0, [])
    assert report.sentence().endswith("nothing to do")


def test_a_fleet_that_crashes_repeatedly_without_settling_a_job_gives_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FLEET_CRASHES_MAX", 2)
    url = fresh_url("sqlite", tmp_path)
    send(url, "always_crash", {}, max_stalls=100)

    with pytest.raises(Refused, match="crashed 2 times in a row while no job was settled") as refused:
        run_fleet(spark, APP, url=url, lease="200ms", workers=1)

    assert "\n" not in str(refused.value)


def test_arguments_that_a_fleet_cannot_run_with_are_refused_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    elsewhere: Any = {"workers": 1, "url": url, "queues": [Queue("fleet", shards=3)]}
    send(url, "double", {"number": 1})

    with pytest.raises(BadConfig, match="memory:// store lives inside one process"):
        run_fleet(spark, app, url="memory://")
    with pytest.raises(BadConfig, match="workers must be"):
        run_fleet(spark, app, url=url, workers=0)
    with pytest.raises(BadConfig, match="until is 'done'; give drained, idle"):
        run_fleet(spark, app, url=url, until="done")  # type: ignore[arg-type]
    with pytest.raises(BadConfig, match="named by their slots"):
        run_fleet(spark, app, url=url, name="mine")
    with pytest.raises(BadConfig, match="heartbeat every"):
        run_fleet(spark, app, url=url, heartbeat="1h")
    with pytest.raises(BadConfig, match="the app has no jobs"):
        run_fleet(spark, App(url))
    with pytest.raises(BadConfig, match="there is no module 'shop_nobody_has'"):
        run_fleet(spark, "shop_nobody_has:app", url=url)
    with pytest.raises(Refused, match="shards"):
        run_fleet(spark, app, **elsewhere)
    spark.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    spark.conf.set("spark.speculation", "true")
    try:
        with pytest.raises(BadConfig, match=r"a fleet cannot run where spark.speculation is true"):
            run_fleet(spark, app, url=url)
    finally:
        spark.conf.unset("spark.speculation")
        spark.conf.unset("spark.sql.legacy.setCommandRejectsSparkCoreConfs")
    assert event_counts(url) == {"enqueued": 1}


def test_the_password_of_a_store_is_in_no_spark_log_and_in_no_repr(spark: SparkSession, tmp_path: Path) -> None:
    url, log = fresh_url("redis", tmp_path), tmp_path / "log"
    assert PASSWORD in url
    send(url, "double", {"number": 1})

    with logging_to(log, spark):
        report = run_fleet(spark, app, url=url, workers=1)

    logged = log.read_text(errors="replace")
    assert report.done == 1
    assert "INFO DAGScheduler" in logged
    assert PASSWORD not in logged + repr(report)


def test_the_command_drains_an_app_and_reports_what_the_journal_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    url = fresh_url("sqlite", tmp_path)
    send(url, "double", *({"number": number} for number in range(10)))
    monkeypatch.setenv("HEADRACE_URL", url)

    code = main(["pipeline", "fleet", APP, "--workers", "1", "--for", "1m", "--json"])
    document = json.loads(capfd.readouterr().out)
    again = main(["pipeline", "fleet", APP, "--until", "idle", "--queue", "fleet", "--lease", "5s"])
    printed = capfd.readouterr()

    assert (code, again) == (0, 0)
    assert (document["end_reason"], document["done"], document["dead"], len(document["workers"])) == (
        "drained",
        9,
        1,
        1,
    )
    assert printed.out.startswith("fleet: 0 jobs in ")
    assert printed.err == ""
    for words, sentence in (
        ((), "a fleet needs an app; name it as in"),
        (("shop_nobody_has:app",), "there is no module 'shop_nobody_has'"),
        ((APP, "--lease", "1x"), "1x"),
        ((APP, "--queue", "no box"), "queue name 'no box'"),
    ):
        assert main(["pipeline", "fleet", *words]) == 2
        assert sentence in capfd.readouterr().err
