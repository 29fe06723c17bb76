"""Promises of the tables about operation: changes as a feed, freshness by queue, findings of an audit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.cli.main import main
from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError
from headrace.pipeline import DataDir, follow_history, follow_stats
from headrace.pipeline.audit.findings import Finding
from headrace.pipeline.event_source import events
from headrace.pipeline.freshness import freshness
from headrace.pipeline.monitor import publish_changes, write_changes, write_findings
from headrace.pipeline.storage.location import Location
from headrace.pipeline.tables.write import read_table, write_errors, write_jobs, write_tables
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import call_store
from tests.pipeline.store_scenarios import run_scenario, url_of

MAIL, CRM = Queue("mail", "acme", 2), Queue("crm", "birch")
CHANGES = FeedName("changes", "acme")
Ran = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path / "jobs.db")


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


@pytest.fixture
def run(spark: SparkSession, url: str, data_dir: DataDir, capsys: pytest.CaptureFixture[str]) -> Ran:
    def ran(*words: str) -> tuple[int, dict[str, Any]]:
        code = main(["pipeline", *words, "--url", url, "--dir", str(data_dir.folder), "--json"])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, document

    return ran


async def enqueue(store: Store, queue: Queue, count: int) -> None:
    await store.jobs.enqueue([Job(queue=queue, id=f"{queue.name}-{n}", kind="send") for n in range(count)])


async def fail_and_finish(store: Store) -> None:
    """One job that failed, one that was done, and others that wait."""
    await enqueue(store, MAIL, 30)
    request = ClaimRequest(queues=[MAIL], worker="one", nonce="nonce-one", limit=2)
    failed, done = (await store.jobs.claim(request)).items
    error = JobError.of("Timeout", "no answer in 30 s")
    await store.jobs.settle([failed.settle(Failed(error), 1), done.settle(Done(b"1"), 1)])


def write_sources(spark: SparkSession, url: str, data_dir: DataDir) -> None:
    """The tables that changes are made of."""
    follow_stats(spark, url, data_dir.table("stats"), once=True, feed=None).awaitTermination()
    write_errors(spark, events(spark, url, data_dir), data_dir)


def test_changes_are_a_table_and_items_of_the_tenants_feeds_and_again_they_are_edited(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    run_scenario(url, fail_and_finish)
    write_sources(spark, url, data_dir)

    count = write_changes(spark, data_dir)
    frame = read_table(spark, data_dir, "changes")
    written = [publish_changes(url, frame), publish_changes(url, frame)]
    more = publish_changes(url, frame.selectExpr("* EXCEPT (now)", "now + 1 AS now"))

    items = [json.loads(item.item) for item in call_store(url, lambda store: store.items.list(CHANGES)).rows]
    ids = [item.id for item in call_store(url, lambda store: store.items.list(CHANGES)).rows]
    assert (count, written, more) == (1, [1, 0], 1)
    assert [(item["change"], item["queue"], item["message"], item["now"]) for item in items] == [
        ("new_error", "mail", "Timeout: no answer in <number> s", 2)
    ]
    assert [id.split("/")[1:] for id in ids] == [["new_error", items[0]["fingerprint"]]]


def test_changes_are_written_beside_their_tables_on_a_disk_and_on_object_storage(
    spark: SparkSession, url: str, home: Location
) -> None:
    run_scenario(url, fail_and_finish)
    data_dir = DataDir(home)

    with pytest.raises(BadConfig, match=r"need the table stats, which .* lacks; write it with: .* stats --once"):
        write_changes(spark, data_dir)
    write_tables(spark, events(spark, url, data_dir, origin="journal"), data_dir)

    assert write_changes(spark, data_dir) == 1


def test_the_command_writes_and_publishes_changes(
    spark: SparkSession, url: str, data_dir: DataDir, run: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    run_scenario(url, fail_and_finish)
    write_sources(spark, url, data_dir)

    code, document = run("changes", "--feed", "moved")
    words = ["--url", url, "--dir", str(data_dir.folder)]
    assert main(["pipeline", "changes", "--no-feed", *words]) == 0
    output = capsys.readouterr().out

    assert (code, document["items"], document["tables"]["changes"]["rows"]) == (0, 1, 1)
    assert call_store(url, lambda store: store.feeds.describe(FeedName("moved", "acme"))) is not None
    assert ["acme/mail", "new", "error", "0", "1"] in [line.split()[:5] for line in output.splitlines()]
    assert "published" not in output


def test_freshness_counts_the_events_that_a_table_does_not_know_yet_by_queue(
    spark: SparkSession, url: str, data_dir: DataDir, run: Ran
) -> None:
    run_scenario(url, lambda store: enqueue(store, MAIL, 5))
    follow_history(spark, url, data_dir.history, once=True).awaitTermination()
    fresh = freshness(url, data_dir)
    run_scenario(url, fail_and_finish)
    run_scenario(url, lambda store: enqueue(store, CRM, 3))
    follow_stats(spark, url, data_dir.table("stats"), once=True, feed=None, queue="mail").awaitTermination()

    found = freshness(url, data_dir)
    codes = [run("freshness", "--behind-max", most)[0] for most in ("34", "33")]
    _, document = run("freshness", "--write", "--queue", "crm")

    behind = {(each.table_name, each.queue): each.events_behind for each in found if not each.queue.endswith(".fail")}
    assert [(each.events_behind, each.behind_ms) for each in fresh if each.queue == "mail"] == [(0, 0)]
    assert behind == {("history", "mail"): 34, ("history", "crm"): 3, ("stats", "mail"): 0, ("stats", "crm"): 3}
    assert all((each.behind_ms or 0) >= 0 and each.store_until_ms for each in found if each.events_behind)
    assert codes == [0, 1]
    shown = {(each["table_name"], each["events_behind"]) for each in document["freshness"]}
    assert shown == {("history", 3), ("stats", 3)}
    rows = read_table(spark, data_dir, "freshness").collect()
    positions = [(row.table_name, row.queue, row.events_behind) for row in rows]
    assert positions == [("history", "crm", 3), ("stats", "crm", 3)]
    assert all(row.as_of >= row.store_until for row in rows)


def test_tables_of_the_history_are_as_fresh_as_the_batch_that_they_have(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    def behind() -> dict[str, int]:
        return {each.table_name: each.events_behind for each in freshness(url, data_dir) if each.queue == "mail"}

    run_scenario(url, lambda store: enqueue(store, MAIL, 5))
    follow_history(spark, url, data_dir.history, once=True).awaitTermination()
    write_jobs(spark, events(spark, url, data_dir), data_dir)
    run_scenario(url, lambda store: enqueue(store, Queue("mail", "acme", 2), 12))
    before = behind()
    follow_history(spark, url, data_dir.history, once=True, events_max=4).awaitTermination()
    between = behind()
    write_jobs(spark, events(spark, url, data_dir), data_dir)

    assert before == {"history": 12, "jobs": 12, "attempts": 12}
    assert between == {"history": 0, "jobs": 12, "attempts": 12}
    assert behind() == {"history": 0, "jobs": 0, "attempts": 0}


def test_a_folder_without_tables_has_no_freshness_and_says_how_to_get_one(
    url: str, data_dir: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    run_scenario(url, lambda store: enqueue(store, MAIL, 1))

    code = main(["pipeline", "freshness", "--url", url, "--dir", str(data_dir.folder)])

    assert code == 0
    assert "yet; run: headrace pipeline history --once" in capsys.readouterr().out


def test_findings_are_a_table_with_a_row_each(spark: SparkSession, data_dir: DataDir) -> None:
    finding = Finding(
        what="lost", tenant="acme", queue="mail", shard=1, id="a", journal="waits", store="nothing", hint="enqueue it"
    )

    counts = [write_findings(spark, [], data_dir), write_findings(spark, [finding], data_dir)]

    [row] = read_table(spark, data_dir, "findings").collect()
    assert (row.what, row.queue, row.shard, row.id, row.seq, row.hint) == ("lost", "mail", 1, "a", None, "enqueue it")
    assert counts == [0, 1]


def test_an_audit_writes_what_it_found(spark: SparkSession, url: str, data_dir: DataDir, run: Ran) -> None:
    run_scenario(url, fail_and_finish)

    code, _ = run("audit")

    assert (code, read_table(spark, data_dir, "findings").count()) == (0, 0)
