"""Promises of format("headrace"): it gives the store's journal, all of it, and refuses what makes no sense."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.model.event import EVENTS
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline.event_source import read_journal
from headrace.pipeline.source.schema import SPARK_SCHEMA
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import SERVED, Batch, fresh_url
from tests.pipeline.store_scenarios import Row, odd_story, run_scenario, store_events, url_of

ONE, THREE = Queue("one", "acme", 1), Queue("three", "acme", 3)
MANY = Queue("many", "birch", 1)
ALONE = Queue("one", "birch", 1)
ALL = [ONE, ONE.fail_queue, THREE, THREE.fail_queue, MANY, ALONE]


async def story_of_all(store: Store) -> None:
    """Odd stories on one and on three shards, and a queue of more entries than the first page holds."""
    await odd_story(store, ONE)
    await odd_story(store, THREE)
    await store.jobs.enqueue([Job(queue=ALONE, id="single", kind="k")], now_ms=1)
    for number in range(403):
        await store.jobs.enqueue([Job(queue=MANY, id=f"job-{number}", kind="k")], now_ms=number)


@pytest.fixture(scope="module", params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The story on every store."""
    folder = tmp_path_factory.mktemp("source")
    url = url_of(folder / "100% #1?.db") if request.param == "sqlite" else fresh_url(request.param, folder)
    run_scenario(url, story_of_all)
    return url


@pytest.fixture(scope="module")
def file_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The story in a file, for what does not depend on the store."""
    url = url_of(tmp_path_factory.mktemp("source") / "headrace.db")
    run_scenario(url, story_of_all)
    return url


def rows(frame: DataFrame) -> list[Row]:
    return list(frame.toArrow().to_pylist())


def load(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("headrace").options(**options).load()


def test_a_read_gives_what_the_store_tells_in_every_column_and_in_order(spark: SparkSession, url: str) -> None:
    found = rows(read_journal(spark, url))

    assert found == store_events(url, ALL)


def test_the_story_of_these_tests_sets_every_column_and_has_every_event(url: str) -> None:
    expected = store_events(url, [ONE, THREE])

    assert {name for row in expected for name, value in row.items() if value is not None} == set(SPARK_SCHEMA.names)
    assert set(EVENTS) - {row["event"] for row in expected} == set()


def test_a_journal_of_several_pages_is_read_to_its_end(url: str) -> None:
    found = Batch(url=url, tenant="birch", queue="many").rows

    assert found == store_events(url, [MANY])
    assert len(found) == 403


@pytest.mark.parametrize(
    ("options", "queues"),
    [
        ({"tenant": "birch", "queue": "one"}, [ALONE]),
        ({"tenant": "*", "queue": " three.fail , one"}, [ONE, THREE.fail_queue, ALONE]),
        ({"tenant": "acme"}, [ONE, ONE.fail_queue, THREE, THREE.fail_queue]),
        ({}, []),
    ],
    ids=["one queue", "a list across tenants", "a tenant", "the default tenant"],
)
def test_what_is_named_is_read_and_nothing_else(url: str, options: dict[str, str], queues: list[Queue]) -> None:
    assert Batch(url=url, **options).rows == store_events(url, queues)


def test_only_the_columns_that_are_named_are_read_in_their_order(spark: SparkSession, url: str) -> None:
    frame = load(spark, url=url, tenant="acme", queue="three", columns="worker, seq,event ,happened_at,queue")

    expected = store_events(url, [THREE])
    assert frame.columns == ["worker", "seq", "event", "happened_at", "queue"]
    assert rows(frame) == [{name: row[name] for name in frame.columns} for row in expected]


def test_as_many_parts_as_asked_for_read_the_same_rows(url: str) -> None:
    batch = Batch(url=url, tenant="*", minPartitions="7")

    assert len(batch.parts) == 7
    assert batch.rows == store_events(url, ALL)


def test_a_thousand_small_queues_share_a_few_tasks(tmp_path: Path) -> None:
    queues = [Queue(f"q{number:04}") for number in range(1_001)]
    url = url_of(tmp_path / "headrace.db")

    async def story(store: Store) -> None:
        for queue in queues:
            await store.jobs.enqueue([Job(queue=queue, id=id, kind="k") for id in ("a", "b")], now_ms=1)

    run_scenario(url, story)
    batch = Batch(url=url, columns="queue,id")

    assert len(batch.parts) == len(batch.sizes) == 1
    assert batch.rows == [{"queue": queue.name, "id": id} for queue in queues for id in ("a", "b")]


def test_a_store_without_queues_gives_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    url = url_of(tmp_path / "empty.db")

    async def nothing(store: Store) -> None:
        await store.health()

    run_scenario(url, nothing)
    frame = read_journal(spark, url)

    assert rows(frame) == []
    assert frame.schema == SPARK_SCHEMA


def test_a_queue_whose_journal_is_empty_gives_no_rows(tmp_path: Path) -> None:
    url, queue = url_of(tmp_path / "trimmed.db"), Queue("short")

    async def story(store: Store) -> None:
        await store.queues.configure(queue, {"journal_keep_max": 0}, now_ms=1)
        assert (await store.journal.bounds(Shard(queue, 0))).first_seq == 2

    run_scenario(url, story)

    assert Batch(url=url, queue="short").rows == []


def test_sql_reads_it_as_a_view(spark: SparkSession, file_url: str) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW journal USING headrace"
        f" OPTIONS (url '{file_url}', tenant 'birch', queue 'many')"
    )

    assert spark.sql("SELECT count(*) AS n FROM journal WHERE event = 'enqueued'").collect()[0].n == 403


def test_spark_finds_the_format_by_itself(spark: SparkSession, file_url: str) -> None:
    # A session of its own, in which nobody has registered anything.
    fresh = spark.newSession()

    assert fresh.read.format("headrace").options(url=file_url, tenant="birch", queue="one").load().count() == 1


def test_an_unknown_queue_is_refused_with_the_known_ones(spark: SparkSession, file_url: str) -> None:
    with pytest.raises(
        AnalysisException, match=r"no queue 'thre' of tenant 'acme'; known queues: one, one.fail, three"
    ):
        load(spark, url=file_url, tenant="acme", queue="one,thre").collect()


def test_a_missing_file_is_refused_and_not_made(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"there is no store at .*gone\.db; check the path"):
        load(spark, url=url_of(tmp_path / "gone.db"))

    assert list(tmp_path.iterdir()) == []


def test_a_schema_from_outside_is_refused(spark: SparkSession, file_url: str) -> None:
    with pytest.raises(AnalysisException, match=r"has fixed columns; leave out \.schema"):
        spark.read.format("headrace").schema("id string").options(url=file_url).load().collect()


def test_a_limit_of_streams_is_refused_for_a_batch(file_url: str) -> None:
    with pytest.raises(Exception, match="option maxEventsPerTrigger is for streams"):
        Batch(url=file_url, maxEventsPerTrigger="5")
