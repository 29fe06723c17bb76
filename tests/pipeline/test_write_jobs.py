"""Promises of a write of jobs: a row is one job, however often it is written, and the counts are true."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig, Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.names import Queue, derived_id
from headrace.model.policy import Policy
from headrace.pipeline.sinks import enqueue
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.jobs import JobSink
from headrace.pipeline.source.sink.result import WriteRun, WriteTally, total
from headrace.pipeline.source.store_access import this_host
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.testing.faults import FaultyStore
from tests.pipeline.shared_stores import SERVED, call_store, fresh_url
from tests.pipeline.writes import Batch, Row, batches, counts_of, drain, events, schema_of, waiting, write

MAIL = Queue("mail", shards=3)
KEYED = "kind string, payload string, key string"
PLAIN = "kind string, payload string"
ALL_COLUMNS = (
    "kind string, payload string, id string, key string, queue string, tenant string, run_at timestamp,"
    " delay_ms bigint, priority int, timeout_ms int, max_attempts int, max_stalls int, backoff_ms int,"
    " backoff_ms_max int, result_ttl_ms int, expires_at timestamp, tag string, headers map<string;string>"
)


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


def keyed(numbers: range) -> list[Row]:
    return [{"kind": "k", "payload": f'{{"n":{number}}}', "key": f"row {number}"} for number in numbers]


def plain(numbers: range) -> list[Row]:
    return [{"kind": "k", "payload": str(number)} for number in numbers]


def test_a_row_says_everything_about_its_job(url: str) -> None:
    at = datetime(2040, 1, 2, 3, 4, 5, 678_000, UTC)
    policy = {"priority": 7, "timeout_ms": 1, "max_attempts": 2, "max_stalls": 3, "backoff_ms": 4}
    policy |= {"backoff_ms_max": 5, "result_ttl_ms": 6}
    row = {"kind": "k", "payload": '{"a": 1}', "id": "x", "key": "y", "queue": "mail", "tenant": "acme", "run_at": at}
    row |= policy | {"expires_at": at, "tag": "t", "headers": {"h": "1"}}
    nothing = dict.fromkeys(row) | {"kind": "bare", "key": "z", "queue": "mail", "delay_ms": 60_000}

    written = write(ALL_COLUMNS, [row, nothing], url=url, shards="2")

    assert counts_of(written) == {"created": 2}
    [full] = waiting(url, Queue("mail", "acme", 2))
    ms = int(at.timestamp() * 1_000)
    assert (full.id, full.kind, full.payload, full.run_at_ms, full.tag) == ("x", "k", b'{"a": 1}', ms, "t")
    assert (full.headers, full.policy) == ({"h": "1"}, Policy(**policy, expires_at_ms=ms))
    bare_queue = Queue("mail", shards=2)
    [bare] = waiting(url, bare_queue)
    assert (bare.id, bare.kind) == (derived_id(bare_queue, "ingest/spark/z"), "bare")
    assert (bare.payload, bare.policy, bare.run_at_ms - bare.enqueued_at_ms) == (b"null", Policy(), 60_000)


def test_rows_written_again_after_workers_have_drained_them_make_no_job(url: str) -> None:
    """The second run has other tasks and another order of rows."""
    first = write(KEYED, keyed(range(1_500)), keyed(range(1_500, 2_500)), url=url, queue="mail", shards="3")
    drained = drain(url, MAIL)

    again = write(KEYED, keyed(range(2_499, -1, -1)), url=url, queue="mail", run="again")
    by_hand = write(PLAIN, plain(range(10)), url=url, queue="mail", run="plain")
    drained_by_hand = drain(url, MAIL)
    other_order = [dict(reversed(row.items())) for row in plain(range(10))]
    turned = write("payload string, kind string", other_order, url=url, queue="mail", run="turned")

    assert (counts_of(first), drained) == ({"created": 2_500}, 2_500)
    assert counts_of(again) == {"duplicate": 2_500}
    assert (counts_of(by_hand), drained_by_hand, counts_of(turned)) == ({"created": 10}, 10, {"duplicate": 10})
    assert events(url, MAIL)["enqueued"] == 2_510


def test_a_task_that_runs_again_after_its_jobs_were_claimed_makes_no_blocked_job_and_counts_them_once(url: str) -> None:
    batch = Batch(KEYED, url=url, queue="mail")
    batch.failed_task(keyed(range(1_500)), part=500)
    done = drain(url, Queue("mail"))
    batch.failed_task(keyed(range(1_700)), part=500)
    request = ClaimRequest(queues=[Queue("mail")], worker="w", nonce="holds them", limit=1_000, lease_ms=60_000)
    active = len(call_store(url, lambda store: store.jobs.claim(request)).items)

    batch.task(keyed(range(2_000)), part=700)
    written = batch.commit()

    assert 1_000 <= done <= 1_500
    assert active > 0
    assert counts_of(written) == {"created": 2_000}
    found = events(url, Queue("mail"))
    assert (found["enqueued"], found["blocked"], found["updated"]) == (2_000, 0, 0)


def test_equal_rows_are_one_job_and_counted_wherever_they_stand(url: str) -> None:
    same = [{"kind": "k", "payload": "1"}] * 3

    written = write(PLAIN, [*same, *plain(range(5))], [*same, {"kind": "other", "payload": "1"}], url=url, queue="mail")
    keyed_apart = [row | {"key": str(number)} for number, row in enumerate(same)]
    apart = write(KEYED, keyed_apart, url=url, queue="mail", run="apart")

    # Five payloads and the other kind, of twelve rows.
    assert counts_of(written) == {"created": 6, "folded": 6}
    assert counts_of(apart) == {"created": 3}


def test_a_row_without_a_kind_takes_that_of_the_options_and_another_kind_is_another_job(url: str) -> None:
    rows = [{"payload": "1"}, {"payload": "2"}]

    first = write("payload string", rows, url=url, queue="mail", kind="a")
    other = write("payload string", rows, url=url, queue="mail", kind="b", run="other")
    named = write(PLAIN, [{"kind": None, "payload": "1"}], url=url, queue="mail", kind="a", run="named")

    assert [counts_of(each) for each in (first, other, named)] == [{"created": 2}, {"created": 2}, {"duplicate": 1}]


def test_a_known_id_is_updated_or_waits_and_the_later_row_of_a_task_wins(url: str) -> None:
    columns = "id string, payload string"
    options = {"url": url, "queue": "mail", "kind": "k"}
    write(columns, [{"id": "a", "payload": "1"}, {"id": "b", "payload": "1"}], **options)
    request = ClaimRequest(queues=[Queue("mail")], worker="w", nonce="it takes a", limit=1, lease_ms=60_000)
    [taken] = call_store(url, lambda store: store.jobs.claim(request)).items

    batch = Batch(columns, run="again", **options)
    batch.task([{"id": id, "payload": str(number)} for number in range(2, 5) for id in "ab"], part=1)
    written = batch.commit()

    assert taken.record.id == "a"
    assert counts_of(written) == {"updated": 3, "blocked": 3}
    assert [(record.id, record.payload) for record in waiting(url, Queue("mail"))] == [("b", b"4")]


def test_an_earlier_run_whose_keys_live_longer_is_not_taken_for_this_one(url: str) -> None:
    write(KEYED, keyed(range(2)), url=url, queue="mail", keyTtl="60d")

    again = write(KEYED, keyed(range(2)), url=url, queue="mail", keyTtl="1d", run="again")

    assert counts_of(again) == {"duplicate": 2}


def test_refused_rows_are_counted_by_reason_and_all_others_are_written(url: str) -> None:
    async def prepare(store: Store) -> None:
        await store.queues.configure(Queue("small"), {"waiting_max": 1})
        await store.jobs.enqueue([Job(queue=Queue("small"), id="a", kind="k")])

    call_store(url, prepare)
    good: Row = {"kind": "k", "payload": "1", "key": "good", "queue": "mail", "tenant": None, "priority": None}
    bad = [
        good | {"payload": "2"},
        good | {"key": "full", "queue": "small"},
        good | {"key": "text", "payload": "it's text"},
        good | {"key": None},
        good | {"key": "kindless", "kind": None},
        good | {"key": "nowhere", "queue": None},
        good | {"key": "misnamed", "queue": "mail box"},
        good | {"key": "whose", "tenant": "Äcme"},
        good | {"key": "high", "priority": 10},
    ]
    batch = Batch(f"{KEYED}, queue string, tenant string, priority int", url=url)
    batch.task([good, *bad, good | {"key": "last"}])

    with pytest.raises(Refused) as refused:
        batch.commit()

    written = batch.report()
    reasons = {"conflict": 1, "full": 1, "bad_payload": 1, "bad_key": 1, "bad_kind": 1, "bad_queue": 2}
    assert counts_of(written) == {"created": 2, "refused": reasons | {"bad_tenant": 1, "bad_priority": 1}}
    assert str(refused.value).startswith("rows were refused, all others are written: of 11 rows 2 created, 9 refused (")
    assert "bad_queue 2" in str(refused.value)
    assert written.examples["conflict"] == (
        "row with key 'ingest/spark/good': its key was used for other work within the last 30 days; give it another key"
        " or another option name"
    )
    assert written.examples["bad_payload"].startswith('payload "it\'s text" is not valid JSON (')


def test_refused_rows_can_be_counted_only_as_those_of_a_queue_that_was_made_otherwise_meanwhile(url: str) -> None:
    batch = Batch(f"{PLAIN}, queue string", url=url, refusals="count")
    first, last = batches(batch.schema, [{"kind": "k", "payload": "1", "queue": name} for name in ("mail", "news")], 1)
    text = batches(batch.schema, [{"kind": "k", "payload": "text", "queue": "mail"}], 1)

    def rows() -> Iterator[pa.RecordBatch]:
        yield first
        with ThreadPoolExecutor(1) as apart:  # the task's own thread runs a loop
            apart.submit(call_store, url, lambda store: store.queues.configure(Queue("news", shards=2), {})).result()
        yield last
        yield from text

    batch.take(rows())
    written = batch.commit()

    assert counts_of(written) == {"created": 1, "refused": {"wrong_shards": 1, "bad_payload": 1}}
    assert written.examples["wrong_shards"].endswith(
        "queue 'news' was created with another number of shards meanwhile; write again"
    )


def test_what_is_no_text_is_written_as_json(file_url: str) -> None:
    fields: list[tuple[str, DataType]] = [("n", IntegerType()), ("at", TimestampType()), ("d", DecimalType(5, 2))]
    fields += [("m", MapType(StringType(), IntegerType())), ("l", ArrayType(DoubleType()))]
    payload = StructType([StructField(name, type) for name, type in fields])
    columns = StructType([StructField("payload", payload), StructField("key", StringType())])
    at = datetime(2030, 1, 1, tzinfo=UTC)
    value = {"n": 1, "at": at, "d": Decimal("1.50"), "m": {"b": 2, "a": 1}, "l": [1.5, None]}
    rows: list[Row] = [{"payload": value, "key": "a"}, {"payload": None, "key": "b"}]
    rows.append({"payload": value | {"l": [float("nan")]}, "key": "c"})

    written = write(columns, rows, url=file_url, queue="mail", kind="k", refusals="count")
    write("payload array<int>", [{"payload": [1, 2]}], url=file_url, queue="list", kind="k", run="list")

    assert counts_of(written) == {"created": 2, "refused": {"bad_payload": 1}}
    assert {record.payload for record in waiting(file_url, Queue("mail"))} == {
        b"null",
        b'{"at":"2030-01-01T00:00:00Z","d":1.50,"l":[1.5,null],"m":{"a":1,"b":2},"n":1}',
    }
    assert [record.payload for record in waiting(file_url, Queue("list"))] == [b"[1,2]"]


def test_a_key_that_cannot_be_one_is_hashed_and_still_known(file_url: str) -> None:
    rows = [{"kind": "k", "key": "x" * 1_000}, {"kind": "k", "key": "x" * 1_001}, {"kind": "k", "key": "line\nend"}]

    first = write("kind string, key string", rows, url=file_url, queue="mail")
    again = write("kind string, key string", rows[::-1], url=file_url, queue="mail", run="again")
    elsewhere = write("kind string, key string", rows, url=file_url, queue="mail", name="else", run="else")

    assert [counts_of(each) for each in (first, again, elsewhere)] == [{"created": 3}, {"duplicate": 3}, {"created": 3}]


async def test_the_later_of_two_rows_with_one_id_wins_however_slow_the_first_is() -> None:
    store = FaultyStore(await open_store("memory://"))
    schema = schema_of("id string, payload string")
    sink = JobSink(WriteOptions(url="", what="jobs", name="mail", kind="k"), schema)
    rows = [{"id": "a", "payload": "1"}, {"id": "a", "payload": "2"}]

    with store.hold("enqueue") as first:
        writing = asyncio.create_task(sink.write(store, WriteRun("run", 0, this_host()), batches(schema, rows, 1)))
        await first.reached()
        for _ in range(100):
            await asyncio.sleep(0)  # time for the second call, if there were one
    tally = await writing

    [found] = await store.reads.find(Queue("mail"), ["a"])
    assert found is not None
    assert found.record is not None
    assert found.record.payload == b"2"
    assert tally.counts == {"created": 1, "updated": 1}
    await store.close()


def test_beyond_what_can_be_counted_exactly_the_counts_are_bounds() -> None:
    tally = WriteTally(rows=30_000_000, counts=Counter(created=29_999_000), ours=29_999_990, refused=Counter(full=10))
    tally.examples["full"] = "it is full"

    written = total("jobs", WriteRun("run", 1, this_host()), [tally, WriteTally()], 2)

    assert counts_of(written) == {"created": 29_999_000, "folded": 990, "refused": {"full": 10}}
    assert written.sentence() == (
        "of 30,000,000 rows 29,999,000 created, 990 folded (at least, folded at most), 10 refused (full 10);"
        " for example: it is full"
    )


async def test_what_is_not_answered_is_sent_again_and_counted_once() -> None:
    store = FaultyStore(await open_store("memory://"))
    sink = JobSink(WriteOptions(url="", what="jobs", name="mail"), schema_of(PLAIN))
    rows = pa.RecordBatch.from_pylist(plain(range(1_500)))
    store.lose("enqueue", heard=10)
    store.fail("enqueue")
    store.lose("enqueue")

    tally = await sink.write(store, WriteRun("run", 0, this_host()), iter([rows]))

    assert (tally.ours, tally.counts["duplicate"], tally.refused) == (1_500, 0, {})
    assert (await store.queues.counts(Queue("mail"))).waiting == 1_500
    with store.down():
        async with asyncio.timeout(30):
            with pytest.raises(StoreUnavailable):
                await sink.write(store, WriteRun("run", 0, this_host()), iter([rows]))
    await store.close()


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("kind string, color string", {}, r"what=jobs has no column 'color'; put it into the payload"),
        ("kind int", {}, r"column 'kind' of a write with what=jobs must be string; found int; cast it"),
        ("kind string, run_at string", {}, r"column 'run_at' .* must be timestamp; found string; cast it"),
        ("kind string, run_at timestamp_ntz", {}, r"must be timestamp; found timestamp_ntz; cast it"),
        ("kind string, headers map<string;int>", {}, r"must be map<string,string>; found map<string,int>"),
        ("kind string, payload binary", {}, r"column 'payload' .* found binary; cast it"),
        ("kind string, kind string", {}, r"column 'kind' occurs 2 times; select it once"),
        ("payload string", {}, r"jobs need a kind; give a column 'kind' or option kind"),
        ("kind string", {"keyTtl": "0s"}, r"option keyTtl is 0; give how long keys are remembered"),
        ("kind string", {"name": "a/b"}, r"option name is 'a/b'; use printable characters other than '/'"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused_with_a_sentence(
    file_url: str, columns: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadConfig, match=sentence):
        Batch(columns, url=file_url, queue="mail", **options)
    with pytest.raises(BadConfig, match=r"jobs need a queue; give a column 'queue' or option queue"):
        Batch("kind string", url=file_url)


def test_spark_writes_a_frame_and_gives_the_counts(spark: SparkSession, url: str) -> None:
    frame = frame_of(spark)

    first = enqueue(frame, url, queue="mail", shards=3)
    drained = drain(url, MAIL)
    again = enqueue(frame.coalesce(1), url, queue="mail")

    assert (counts_of(first), drained) == ({"created": 2_000}, 2_000)
    assert counts_of(again) == {"duplicate": 2_000}


def test_spark_shows_the_sentence_of_a_write_that_is_refused(spark: SparkSession, file_url: str) -> None:
    frame = frame_of(spark)
    writer = frame.write.format("headrace").options(url=file_url, queue="mail")
    enqueue(frame.limit(5), file_url, queue="mail")

    with pytest.raises(Refused, match=r"of 2,000 rows 1,995 created, 5 refused \(conflict 5\); for example: row with"):
        enqueue(frame.selectExpr("'other' as kind", "payload", "key"), file_url, queue="mail")
    with pytest.raises(
        AnalysisException, match=r'cannot be written in the "ErrorIfExists" mode. Please use .*"Append"'
    ):
        writer.save()
    with pytest.raises(AnalysisException, match=r"added, never overwritten; write with \.mode\('append'\)"):
        writer.mode("overwrite").save()
    with pytest.raises(BadConfig, match=r"^a write with what=jobs has no column 'color'; [^\n]*$"):
        enqueue(frame.selectExpr("kind", "1 as color"), file_url, queue="mail")


def frame_of(spark: SparkSession) -> DataFrame:
    return spark.range(0, 2_000, 1, 3).selectExpr(
        "'k' as kind", "struct(id, id % 7 as rest) as payload", "concat('row ', id) as key"
    )
