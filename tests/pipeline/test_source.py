"""Promises of format("headrace"): it gives the store's journal, all of it, and refuses what makes no sense."""

import asyncio
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import StoreUnavailable
from headrace.model.event import EVENTS, Span
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline.run import read_journal
from headrace.pipeline.source.journal.reader import read_page
from headrace.pipeline.source.schema import SPARK_SCHEMA
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.pipeline.stories import Row, odd_story, tell, told_by_the_store, url_of

ONE, THREE = Queue("one", "acme", 1), Queue("three", "acme", 3)
MANY = Queue("many", "birch", 1)
ALONE = Queue("one", "birch", 1)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with odd stories on one and on three shards, and a queue of more entries than one page holds."""
    url = url_of(tmp_path_factory.mktemp("source") / "100% #1?.db")

    async def story(store: Store) -> None:
        await odd_story(store, ONE)
        await odd_story(store, THREE)
        await store.jobs.enqueue([Job(queue=ALONE, id="single", kind="k")], now_ms=1)
        for number in range(1_203):
            await store.jobs.enqueue([Job(queue=MANY, id=f"job-{number}", kind="k")], now_ms=number)

    tell(url, story)
    return url


def rows(frame: DataFrame) -> list[Row]:
    return list(frame.toArrow().to_pylist())


def load(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("headrace").options(**options).load()


@pytest.mark.parametrize("queue", [ONE, ONE.companion, THREE, THREE.companion], ids=lambda queue: queue.full_name)
def test_a_read_gives_what_the_store_tells_in_every_column_and_in_order(
    spark: SparkSession, url: str, queue: Queue
) -> None:
    found = rows(load(spark, url=url, tenant="acme", queue=queue.full_name))

    assert found == told_by_the_store(url, [queue])


def test_the_story_of_these_tests_sets_every_column_and_has_every_event(url: str) -> None:
    told = told_by_the_store(url, [ONE, THREE])

    assert {name for row in told for name, value in row.items() if value is not None} == set(SPARK_SCHEMA.names)
    assert set(EVENTS) - {row["event"] for row in told} == set()


def test_a_journal_of_several_pages_is_read_to_its_end(spark: SparkSession, url: str) -> None:
    found = rows(load(spark, url=url, tenant="birch", queue="many"))

    assert found == told_by_the_store(url, [MANY])
    assert len(found) == 1_203


def test_a_read_of_everything_holds_each_tenant_and_queue(spark: SparkSession, url: str) -> None:
    found = rows(read_journal(spark, url))

    assert found == told_by_the_store(url, [ONE, ONE.companion, THREE, THREE.companion, MANY, ALONE])


def test_a_read_of_one_tenant_shows_nothing_of_another(spark: SparkSession, url: str) -> None:
    found = rows(load(spark, url=url, tenant="birch", queue="one"))

    assert [(row["tenant"], row["id"]) for row in found] == [("birch", "single")]


def test_a_list_of_queues_is_read_across_tenants(spark: SparkSession, url: str) -> None:
    found = rows(load(spark, url=url, tenant="*", queue=" three.fail , one"))

    assert found == told_by_the_store(url, [ONE, THREE.companion, ALONE])


def test_the_default_tenant_is_read_when_none_is_named_and_may_be_empty(spark: SparkSession, url: str) -> None:
    found = load(spark, url=url)

    assert rows(found) == []
    assert found.schema == SPARK_SCHEMA


def test_a_store_without_queues_gives_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    url = url_of(tmp_path / "empty.db")

    async def nothing(store: Store) -> None:
        await store.health()

    tell(url, nothing)

    assert rows(read_journal(spark, url)) == []


def test_a_queue_whose_journal_is_empty_gives_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    url, queue = url_of(tmp_path / "trimmed.db"), Queue("short")

    async def story(store: Store) -> None:
        await store.queues.configure(queue, {"journal_keep_max": 0}, now_ms=1)
        assert (await store.journal.bounds(Shard(queue, 0))).first_seq == 2

    tell(url, story)

    assert rows(load(spark, url=url, queue="short")) == []


def test_as_many_partitions_as_asked_for_read_the_same_rows(spark: SparkSession, url: str) -> None:
    frame = load(spark, url=url, tenant="*", minPartitions="7")

    sizes = [len(part) for part in frame.rdd.glom().collect()]

    assert len(sizes) == 7
    assert max(sizes) - min(sizes) <= 1
    assert rows(frame) == told_by_the_store(url, [ONE, ONE.companion, THREE, THREE.companion, MANY, ALONE])


def test_sql_reads_it_as_a_view(spark: SparkSession, url: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW journal USING headrace OPTIONS (url '{url}', tenant 'birch', queue 'many')"
    )

    assert spark.sql("SELECT count(*) AS n FROM journal WHERE event = 'enqueued'").collect()[0].n == 1_203


def test_spark_finds_the_format_by_itself(spark: SparkSession, url: str) -> None:
    # A session of its own, in which nobody has registered anything.
    fresh = spark.newSession()

    assert fresh.read.format("headrace").options(url=url, tenant="birch", queue="one").load().count() == 1


def test_an_unknown_queue_is_refused_with_the_known_ones(spark: SparkSession, url: str) -> None:
    with pytest.raises(
        AnalysisException, match=r"no queue 'thre' of tenant 'acme'; known queues: one, one.fail, three"
    ):
        load(spark, url=url, tenant="acme", queue="one,thre").collect()


def test_a_missing_file_is_refused_and_not_made(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"there is no store at .*gone\.db; check the path"):
        load(spark, url=url_of(tmp_path / "gone.db"))

    assert list(tmp_path.iterdir()) == []


def test_a_schema_from_outside_is_refused(spark: SparkSession, url: str) -> None:
    with pytest.raises(AnalysisException, match=r"has columns of its own; leave out \.schema"):
        spark.read.format("headrace").schema("id string").options(url=url).load().collect()


@pytest.mark.parametrize("kept", [1, 2], ids=["all of them", "the first of them"])
def test_events_that_retention_drops_under_a_reader_are_not_skipped_in_silence(kept: int) -> None:
    queue = Queue("short")
    shard = Shard(queue, 0)

    async def story() -> None:
        store = await open_store("memory://")
        await store.jobs.enqueue([Job(queue=queue, id="a", kind="k")], now_ms=1)
        await store.jobs.enqueue([Job(queue=queue, id="b", kind="k")], now_ms=2)
        await store.queues.configure(queue, {"journal_keep_max": kept}, now_ms=3)
        await read_page(store.journal, Span(shard, 0, 2), 0)

    with pytest.raises(StoreUnavailable, match=r"default/short/0 after seq 0 were dropped while they were read"):
        asyncio.run(story())
