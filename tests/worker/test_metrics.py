"""Metrics: every claim and settlement is counted, and requests are answered even while the worker is busy."""

import asyncio
import json
import socket
import sys
import threading
from http.client import HTTPConnection
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig, OutcomeUnknown
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.model.results import Settled
from headrace.stores.contract.store import Store
from headrace.worker.events import EventEmitter, LeaseLost, Lifecycle
from headrace.worker.exceptions import Fail, Release
from headrace.worker.health import WorkerCounts
from headrace.worker.metrics import Metrics, MetricsServer, PrometheusPage
from headrace.worker.settler import Settler
from tests.worker.support import SOON_S, build_handlers, build_worker, job, jobs, run_until_idle
from tests.worker.test_logging import run_of

MAIL_OF_DEFAULT = {"tenant": "default", "queue": "mail"}


async def _nothing() -> None:
    return


def ask(server: MetricsServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """Status, type and body of an answer."""
    line = HTTPConnection("127.0.0.1", server.port, timeout=SOON_S)
    line.request(method, path, headers=headers)
    answer = line.getresponse()
    body = answer.read().decode()
    line.close()
    return answer.status, answer.headers["Content-Type"], body


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a scrape finds, read by Prometheus' own parser."""
    text, _ = PrometheusPage(metrics.registry)("")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One sample; None when it is not there."""
    return samples(metrics).get((name, frozenset(labels.items())))


async def test_claims_and_ends_are_counted_by_tenant_queue_kind_and_outcome(store: Store) -> None:
    async def bad() -> None:
        raise ValueError("no")

    async def fail() -> None:
        raise Fail("never")

    async def later() -> None:
        raise Release(delay="1h")

    metrics, acme = Metrics(), Queue("mail", tenant="acme")
    await store.jobs.enqueue(
        [*jobs(3), job("b", "bad", backoff_ms=3_600_000), job("c", "fail"), job("d", "later"), job("e", queue=acme)]
    )
    await run_until_idle(
        store, build_handlers(Queue("mail"), acme, work=_nothing, bad=bad, fail=fail, later=later), metrics
    )

    claimed, ended = "headrace_jobs_claimed_total", "headrace_jobs_ended_total"
    assert value(metrics, claimed, **MAIL_OF_DEFAULT, kind="work") == 3
    assert value(metrics, claimed, tenant="acme", queue="mail", kind="work") == 1
    for kind, outcome, count in [
        ("work", "done", 3),
        ("bad", "retried", 1),
        ("fail", "dead", 1),
        ("later", "released", 1),
    ]:
        assert value(metrics, ended, **MAIL_OF_DEFAULT, kind=kind, outcome=outcome) == count


async def test_waits_are_those_of_the_stores_clock_and_fall_into_their_bucket(timed: Store, clock: ManualClock) -> None:
    metrics = Metrics()
    await timed.jobs.enqueue([job("a")])
    clock.advance(250)
    await timed.jobs.enqueue([job("b")])
    clock.advance(1)

    await run_until_idle(timed, build_handlers(work=_nothing), metrics)

    bucket = "headrace_job_wait_seconds_bucket"
    counts = [value(metrics, bucket, **MAIL_OF_DEFAULT, le=le) for le in ("0.001", "0.25", "0.5", "600.0", "+Inf")]
    assert counts == [1, 1, 2, 2, 2]
    assert value(metrics, "headrace_job_wait_seconds_sum", **MAIL_OF_DEFAULT) == pytest.approx(0.252)
    assert value(metrics, "headrace_job_wait_seconds_count", **MAIL_OF_DEFAULT) == 2


async def test_run_times_are_counted_by_kind_and_only_of_what_has_run(store: Store) -> None:
    metrics = Metrics()
    run, idle = run_of("ran"), run_of("given-back")
    run.started_at = 1.0
    settler = Settler(lambda _: None, EventEmitter([metrics]))
    settler.put(run, Done(), 1_500)
    settler.put(idle, Done(), 0)
    settler.record_answers(settler.take(), [Settled("ran", "done"), Settled("given-back", "done")])

    labels = {**MAIL_OF_DEFAULT, "kind": "work"}
    assert value(metrics, "headrace_job_run_seconds_count", **labels) == 1
    assert value(metrics, "headrace_job_run_seconds_sum", **labels) == 1.5
    assert value(metrics, "headrace_jobs_ended_total", **labels, outcome="done") == 2


async def test_a_sender_cannot_create_labels(store: Store) -> None:
    metrics = Metrics()
    await store.jobs.enqueue([job(str(number), f"made-up-{number}") for number in range(20)])

    await run_until_idle(store, build_handlers(work=_nothing), metrics)

    kinds = {kind for _, labels in samples(metrics) for name, kind in labels if name == "kind"}
    assert kinds == {"unknown"}
    assert value(metrics, "headrace_jobs_claimed_total", **MAIL_OF_DEFAULT, kind="unknown") == 20


def test_lost_leases_outages_and_presumed_ends_are_counted_and_refusals_are_no_ends() -> None:
    metrics = Metrics()
    events = EventEmitter([metrics])
    settler = Settler(lambda _: None, events)
    settler.put(run_of("sent"), Done(), 5)
    settler.record_failure(settler.take(), OutcomeUnknown("lost"))
    settler.record_answers(settler.take(), [Settled("sent", "not_active")])
    settler.put(run_of("late"), Done(), 5)
    settler.record_answers(settler.take(), [Settled("late", "lease_expired")])

    events.emit(LeaseLost(run_of().claim, "gone"))
    events.emit(Lifecycle("store_lost"))
    events.emit(Lifecycle("store_back"))

    ended = {labels: count for (name, labels), count in samples(metrics).items() if name == "headrace_jobs_ended_total"}
    assert ended == {frozenset({**MAIL_OF_DEFAULT, "kind": "work", "outcome": "presumed"}.items()): 1}
    assert value(metrics, "headrace_leases_lost_total", **MAIL_OF_DEFAULT) == 2
    assert value(metrics, "headrace_store_outages_total") == 1


async def test_metrics_and_health_are_answered_while_the_loop_is_blocked(store: Store) -> None:
    metrics, blocked = Metrics(), threading.Event()
    answers: list[tuple[int, str, str]] = []

    def probe() -> None:
        blocked.wait(SOON_S)
        answers.extend(ask(server, path) for path in ("/health", "/metrics"))

    async def work() -> None:
        blocked.set()
        thread.join(SOON_S)  # the loop stands still until the answers are there

    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=work), metrics, capacity=4)
    thread = threading.Thread(target=probe)
    thread.start()
    with metrics.serve("127.0.0.1", 0, worker.health) as server:
        async with asyncio.timeout(SOON_S):
            await worker.run(until_idle=True)

    (status, kind, body), (_, _, text) = answers
    assert (status, kind) == (200, "application/json")
    assert [running["id"] for running in json.loads(body)["running"]] == ["a"]
    assert "headrace_worker_up 1.0" in text
    assert "headrace_worker_capacity 4.0" in text
    assert "headrace_worker_in_hand 1.0" in text


def test_a_worker_that_is_not_well_answers_503(store: Store) -> None:
    metrics = Metrics()
    worker = build_worker(store, build_handlers(work=_nothing))
    with metrics.serve(health=worker.health) as server:
        status, _, body = ask(server, "/health")
        _, _, text = ask(server, "/metrics")

    assert (status, json.loads(body)["why"]) == (503, "the worker is new")
    assert "headrace_worker_up 0.0" in text


def test_other_paths_are_not_found_and_a_head_has_no_body(store: Store) -> None:
    metrics = Metrics()
    with metrics.serve() as server:
        found = {
            (method, path): ask(server, path, method)
            for path in ("/", "/metrics?x=1", "/health")
            for method in ("GET", "HEAD")
        }
        with socket.create_connection(("127.0.0.1", server.port), SOON_S) as line:
            line.sendall(b"HEAD /metrics HTTP/1.0\r\n\r\n")
            whole = b"".join(iter(lambda: line.recv(65_536), b""))

    assert {key: status for key, (status, _, _) in found.items() if status != 404} == {
        ("GET", "/metrics?x=1"): 200,
        ("HEAD", "/metrics?x=1"): 200,
    }
    assert whole.startswith(b"HTTP/1.0 200 OK\r\n")
    assert whole.endswith(b"\r\n\r\n")


def test_openmetrics_is_served_on_request() -> None:
    with Metrics().serve() as server:
        plain = ask(server, "/metrics")
        fancy = ask(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert plain[1].startswith("text/plain; version=0.0.4")
    assert fancy[1].startswith("application/openmetrics-text")
    assert fancy[2].endswith("# EOF\n")


@pytest.mark.parametrize("port", ["taken", 70_000])
def test_a_port_that_is_taken_is_refused_in_one_sentence(port: Any) -> None:
    metrics = Metrics()
    with metrics.serve() as server, pytest.raises(BadConfig) as refused:
        metrics.serve("127.0.0.1", server.port if port == "taken" else port)

    wanted_port = server.port if port == "taken" else port
    why = "Address already in use" if port == "taken" else "ports go from 0 to 65535"
    assert str(refused.value) == (
        f"metrics cannot be served on 127.0.0.1:{wanted_port} ({why}); choose another port, or 0 for any that is free"
    )


def test_a_closed_server_answers_no_request_and_frees_its_port() -> None:
    metrics = Metrics()
    server = metrics.serve()
    server.close()
    server.close()

    with metrics.serve("127.0.0.1", server.port) as again:
        assert ask(again, "/metrics")[0] == 200


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(BadConfig, match=r"pip install 'headrace\[metrics\]'"):
        Metrics()


async def test_counts_of_several_processes_are_added_by_series_and_by_bucket(store: Store) -> None:
    one, two, sums = WorkerCounts(), WorkerCounts(), WorkerCounts()
    await store.jobs.enqueue([*jobs(3)])
    await run_until_idle(store, build_handlers(work=_nothing), one)
    await store.jobs.enqueue([job("d"), job("e", "other")])
    await run_until_idle(store, build_handlers(work=_nothing, other=_nothing), two)

    for counts in (one, two):
        sums.add(msgspec.msgpack.decode(msgspec.msgpack.encode(counts.copy()), type=WorkerCounts))

    mail = ("default", "mail")
    assert sums.claimed == {(*mail, "work"): 4, (*mail, "other"): 1}
    assert sums.ended == {(*mail, "work", "done"): 4, (*mail, "other", "done"): 1}
    assert sum(sums.waits[mail].counts) == 5
    assert sums.waits[mail].sum_ms == one.waits[mail].sum_ms + two.waits[mail].sum_ms
    assert sum(one.waits[mail].counts) == 3


async def test_a_scrape_from_another_thread_shows_the_watched_queues(store: Store) -> None:
    metrics = Metrics()
    await store.jobs.enqueue(jobs(3))
    metrics.watch(store, ["mail"])

    with metrics.serve() as server:
        _, _, page = await asyncio.to_thread(ask, server, "/metrics")

    assert 'headrace_queue_jobs{queue="mail",state="ready",tenant="default"} 3.0' in page


async def test_a_scrape_shows_the_last_counts_while_the_loop_is_blocked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.metrics.QUEUE_METRICS_WAIT_S", 0.01)
    metrics = Metrics()
    metrics.watch(store, ["mail"])

    with metrics.serve() as server:
        _, _, page = ask(server, "/metrics")  # blocks the loop of the store

    assert "headrace_store_up 0.0" in page


async def test_a_web_program_mounts_the_metrics(store: Store) -> None:
    metrics = Metrics()
    await store.jobs.enqueue(jobs(2))
    metrics.watch(store, ["mail"])
    transport = httpx.ASGITransport(metrics.asgi())
    async with httpx.AsyncClient(transport=transport, base_url="http://program") as client:
        answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    assert 'headrace_queue_jobs{queue="mail",state="ready",tenant="default"} 2.0' in answer.text
