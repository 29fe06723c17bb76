"""Promises of a fleet on executors of their own: whatever is killed, every job ends exactly once by the journal."""

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.claim import ClaimRequest
from headrace.model.outcome import Done
from headrace.pipeline.flows.fleet.run import run_fleet
from headrace.stores.contract.store import Store
from tests.pipeline.flows.fleet_runs import FLEET, check_once, event_counts, journal, once_marked, send
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.support.process import wait_until

APP = "tests.pipeline.flows.fleet_app:app"
LEASE = "2s"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh_url("redis", tmp_path)


def parent(pid: int) -> int:
    """The process that started another."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))


def is_there(pid: int) -> bool:
    """Whether a process lives."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def kill_executor(pid: int) -> None:
    """Kill the Java above a Python worker and the daemon that forked it."""
    os.kill(parent(parent(pid)), signal.SIGKILL)


def kill(pid: int) -> None:
    """Kill a process."""
    os.kill(pid, signal.SIGKILL)


def test_an_executor_and_two_python_workers_are_lost_and_every_job_ends_once(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    executor, worker, crash = (tmp_path / name for name in ("executor", "worker", "crash"))
    send(url, "slow", {}, {})
    send(url, "hold", {"mark": str(worker)}, max_stalls=10)
    send(url, "double", *({"number": number} for number in range(500)), max_stalls=10)

    # One after the other, or two of them might be in the hands of one process.
    def lose_worker(pid: int) -> None:
        kill(pid)
        send(url, "hold", {"mark": str(executor)}, max_stalls=10)

    def lose_executor(pid: int) -> None:
        kill_executor(pid)
        send(url, "crash", {"mark": str(crash)}, max_stalls=10)

    with once_marked(worker, act=lose_worker), once_marked(executor, act=lose_executor):
        report = run_fleet(spark, APP, url=url, lease=LEASE, capacity=5)

    found, ends = event_counts(url), check_once(url)
    assert ends == {"done": 453, "dead": 52}
    assert not is_there(int(executor.read_text()))
    assert (report.end_reason, report.done, report.dead, report.open) == ("drained", 453, 52, 0)
    assert (
        report.deliveries
        == found["claimed"]
        == sum(found[name] for name in ("done", "dead", "retried", "stalled", "released"))
    )
    assert report.stalled == found["stalled"] >= 3
    # Nobody but who was lost had a lease that ran out, and each held five at most.
    assert len({each["worker"] for each in journal(url) if each["event"] == "stalled"}) <= 3
    assert report.stalled <= 15


def test_a_fleet_whose_job_group_is_cancelled_ends_and_keeps_no_lease(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    mark, context = tmp_path / "held", spark.sparkContext
    send(url, "hold", {"mark": str(mark)})
    context.setJobGroup("ours", "a cell of a notebook")

    async def take(store: Store) -> str | None:
        request = ClaimRequest(queues=[FLEET], worker="worker-1", nonce="0123456789ab", lease_ms=60_000)
        for claim in (await store.jobs.claim(request)).items:
            await store.jobs.settle([claim.settle(Done(), 1)])
            return claim.record.id
        return None

    with once_marked(mark, act=lambda _: context.cancelJobGroup("ours")):
        report = run_fleet(spark, APP, url=url, lease=LEASE)
    was_there = is_there(int(mark.read_text()))
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # none again

    assert (report.end_reason, report.deliveries, report.done) == ("cancelled", 1, 0)
    assert report.released + report.open == 1
    assert not was_there
    wait_until(lambda: call_store(url, take) is not None, "the job that was held")
    assert check_once(url) == {"done": 1}
