"""Promises of the audit: it finds every planted inconsistency, and nothing else."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline.audit.run import audit
from headrace.stores.contract.store import Store
from tests.pipeline.audit.redis_records import RedisFaults
from tests.pipeline.audit.sql_records import MAIL, SqlFaults, fill_roles, id_of, role_of
from tests.pipeline.shared_stores import TWO_OF_SERVED, call_store, fresh_url


async def number_all(store: Store) -> None:
    """Have PostgreSQL number the appended events."""
    await store.journal.all_bounds(MAIL.all_shards())


@pytest.mark.parametrize("name", TWO_OF_SERVED)
def test_every_planted_inconsistency_is_found_and_nothing_else(spark: SparkSession, name: str, tmp_path: Path) -> None:
    url = fresh_url(name, tmp_path)
    call_store(url, fill_roles)
    call_store(url, number_all)
    planted = (RedisFaults() if name == "redis" else SqlFaults(name, tmp_path)).plant()

    after = audit(spark, url, tenant="acme", queue="mail")

    found = {(each.what, role_of(each.id)) for each in after.findings if each.what != "gap"}
    assert found == {(what, role) for what, role in planted if what != "gap"}
    assert any(each.what == "gap" and "events are missing" in each.journal for each in after.findings)
    assert not after.ok
    assert after.rechecked >= 10
    [lost] = [each for each in after.findings if (each.what, each.id) == ("lost", id_of("lost"))]
    assert lost.journal == f"waiting since enqueued at seq {lost.seq}"
    assert lost.store == "no waiting or running job"
    assert all(each.hint for each in after.findings)


def test_an_untouched_store_has_no_findings_and_no_rechecks_even_with_a_trimmed_journal(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, trimmed, stages = fresh_url("sqlite", tmp_path), Queue("trimmed", "other"), list[str]()

    async def fill_trimmed(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=trimmed, id=f"old-{number}", kind="k") for number in range(5)])
        await store.queues.configure(trimmed, {"journal_keep_max": 1})
        await store.journal.trim(Shard(trimmed, 0))
        await store.jobs.enqueue([Job(queue=trimmed, id="new", kind="k")])

    call_store(url, fill_roles)
    call_store(url, fill_trimmed)

    found = audit(spark, url, on_progress=stages.append)

    assert (found.findings, found.ok, found.rechecked, found.moving) == ((), True, 0, 0)
    assert (found.partial, found.shards) == (5, 3)
    assert stages[:2] == ["reading records", "reading the journal"]


@pytest.mark.parametrize("name", ["sqlite", pytest.param("postgres", marks=pytest.mark.proof)])
def test_a_row_planted_into_an_empty_queue_is_found(spark: SparkSession, name: str, tmp_path: Path) -> None:
    url, empty, full = fresh_url(name, tmp_path), Queue("empty", "acme"), Queue("full", "acme")

    async def two_queues(store: Store) -> None:
        await store.queues.configure(empty, {"priority": 3})
        await store.jobs.enqueue([Job(queue=full, id="template", kind="k")])

    call_store(url, two_queues)
    SqlFaults(name, tmp_path).run(
        "INSERT INTO job (shard_id, id, run_at_ms, body, payload)"
        " SELECT s.shard_id, 'stranger', j.run_at_ms, j.body, j.payload FROM job j, shard s"
        " WHERE s.shard_id <> j.shard_id"
    )

    found = audit(spark, url)

    assert ("unknown", "empty", "stranger") in {(each.what, each.queue, each.id) for each in found.findings}


def test_damages_beyond_the_limit_are_counted_and_not_listed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, queue = fresh_url("sqlite", tmp_path), Queue("mail", "acme", 3)
    call_store(url, lambda store: store.jobs.enqueue([Job(queue=queue, id=f"job-{n}", kind="k") for n in range(20)]))
    SqlFaults("sqlite", tmp_path).run("UPDATE shard SET done = done + 3")
    monkeypatch.setattr("headrace.pipeline.audit.run.AUDIT_FLAWS_MAX", 1)

    found = audit(spark, url)

    assert [each.what for each in found.findings] == ["count"]
    assert (found.unlisted, found.ok) == (2, False)
