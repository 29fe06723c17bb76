"""Promises of ranges: a batch reads from one place to another, beginning included and end not, and no other events."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.names import Queue, Shard
from tests.pipeline.filled_journals import T0, fill, fill_store, keep
from tests.pipeline.shared_stores import SERVED, Batch, fresh_url

SLOW, QUICK, SHORT = Queue("slow", "acme"), Queue("quick", "birch"), Queue("short", "birch")


@pytest.fixture(scope="module", params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten events a second apart, twenty that are 100 ms apart, and a journal of which seq 6 to 11 are kept."""
    url = fresh_url(request.param, tmp_path_factory.mktemp("ranges"))
    story = (fill(SLOW, 10), fill(QUICK, 20, every_ms=100), fill(SHORT, 10))
    fill_store(url, *story, keep(Shard(SHORT), 6))
    return url


def seqs(url: str, *filters: Filter, queue: str = "slow,quick", **options: str) -> dict[str, list[int]]:
    """The seqs that a batch reads, by queue."""
    found: dict[str, list[int]] = {}
    for row in Batch(
        *filters, url=url, tenant="*", queue=queue, columns="tenant,queue,shard,seq,happened_at", **options
    ).rows:
        found.setdefault(row["queue"], []).append(row["seq"])
    return found


def upto(last: int, first: int = 1) -> list[int]:
    return list(range(first, last + 1))


def test_all_kept_events_are_read_by_default(url: str) -> None:
    assert seqs(url, queue="*") == {"slow": upto(10), "quick": upto(20), "short": upto(11, 6)}


@pytest.mark.parametrize(
    ("place", "slow", "quick"),
    [
        ("earliest", 0, 0),
        ("latest", 10, 20),
        (str(T0 + 1_000), 1, 10),
        (str(T0 + 1_001), 2, 11),
        (str(T0 - 1), 0, 0),
        (str(T0 + 99_000), 10, 20),
        ('{"acme/slow/0": 4, "birch/quick/0": 20}', 3, 19),
        ('{"acme/slow/0": -1, "birch/quick/0": -2}', 10, 0),
        ('{"acme/slow/0": 0, "birch/quick/0": 21}', 0, 20),
        ('{"acme/slow/0": "2023-11-14T22:13:25Z", "birch/quick/0": "2023-11-14T22:13:21Z"}', 5, 10),  # T0 + 5 s, 1 s
        ('{"acme/slow/0": 4, "birch/quick/0": "2023-11-14T22:13:21.150+00:00"}', 3, 12),
    ],
)
def test_a_place_is_the_beginning_of_one_run_and_the_end_of_another(
    url: str, place: str, slow: int, quick: int
) -> None:
    before, behind = seqs(url, endingOffsets=place), seqs(url, startingOffsets=place)

    assert (before.get("slow", []), before.get("quick", [])) == (upto(slow), upto(quick))
    assert (behind.get("slow", []), behind.get("quick", [])) == (upto(10, slow + 1), upto(20, quick + 1))


def test_queues_whose_names_match_a_pattern_are_read(url: str) -> None:
    columns = {"url": url, "tenant": "*", "columns": "queue,seq"}

    found = {row["queue"] for row in Batch(queuePattern="s.*|quic", **columns).rows}

    assert found == {"slow", "short"}
    assert Batch(queuePattern="none", **columns).rows == []


def test_a_shard_that_is_not_named_is_read_whole(url: str) -> None:
    options = {"startingOffsets": '{"acme/slow/0": 4}', "endingOffsets": '{"acme/slow/0": 6}'}

    assert seqs(url, **options) == {"slow": [4, 5], "quick": upto(20)}


@pytest.mark.parametrize(
    ("options", "refusal", "sentence"),
    [
        ({"startingOffsets": '{"acme/slow": 4}'}, BadConfig, "'acme/slow', which is not one of the shards to read;"),
        (
            {"endingOffsets": '{"acme/slow/0": 12}'},
            StoreUnavailable,
            "seq 12 of acme/slow/0, whose journal holds seq 1",
        ),
        ({"startingOffsets": '{"birch/short/0": 5}'}, StoreUnavailable, "whose journal holds seq 6 to 11; give a seq"),
        (
            {"startingOffsets": "latest", "endingOffsets": "earliest"},
            BadConfig,
            "seq 11 and endingOffsets seq 1; start",
        ),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    url: str, options: dict[str, str], refusal: type[Exception], sentence: str
) -> None:
    with pytest.raises(refusal) as refused:
        Batch(url=url, tenant="*", **options)

    assert sentence in str(refused.value)


def test_a_place_that_is_not_there_is_the_nearest_one_when_loss_is_no_failure(url: str) -> None:
    options = {"startingOffsets": '{"birch/short/0": 2}', "endingOffsets": '{"birch/short/0": 99}'}

    assert seqs(url, queue="short", failOnDataLoss="false", **options) == {"short": upto(11, 6)}


def at(ms: int, us: int = 0) -> datetime:
    """An instant as Spark hands it over."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=T0 + ms, microseconds=us)


@pytest.mark.parametrize(
    ("filters", "slow", "quick"),
    [
        ([EqualTo(("tenant",), "acme")], upto(10), []),
        ([In(("queue",), ("quick", "gone"))], [], upto(20)),
        ([Not(StringStartsWith(("queue",), "qu"))], upto(10), []),
        ([EqualTo(("shard",), 1)], [], []),
        ([GreaterThan(("seq",), 8), LessThanOrEqual(("seq",), 12)], [9, 10], upto(12, 9)),
        ([In(("seq",), (3, 5, None))], [3, 5], [3, 5]),
        ([GreaterThanOrEqual(("happened_at",), at(1_000)), LessThan(("happened_at",), at(2_000))], [2], upto(20, 11)),
        ([GreaterThan(("happened_at",), at(1_000)), LessThanOrEqual(("happened_at",), at(2_000))], [3], upto(20, 12)),
        (
            [GreaterThan(("happened_at",), at(1_000, -1)), LessThan(("happened_at",), at(2_000, 1))],
            [2, 3],
            upto(20, 11),
        ),
        ([EqualTo(("happened_at",), at(1_000))], [2], [11]),
        ([EqualTo(("happened_at",), at(1_000, 1))], [], []),
        ([LessThan(("happened_at",), at(-T0))], [], []),
    ],
)
def test_filters_leave_the_rows_that_fulfil_them(
    url: str, filters: list[Filter], slow: list[int], quick: list[int]
) -> None:
    found = seqs(url, *filters)

    assert (found.get("slow", []), found.get("quick", [])) == (slow, quick)


@pytest.mark.parametrize(
    ("condition", "spans"),
    [
        (EqualTo(("queue",), "slow"), [("slow", 0, 10)]),
        (GreaterThan(("seq",), 15), [("quick", 15, 20)]),
        (Not(GreaterThan(("seq",), 2)), [("slow", 0, 2), ("quick", 0, 2)]),
        (GreaterThanOrEqual(("happened_at",), at(3_000)), [("slow", 3, 10)]),
        (LessThan(("happened_at",), at(200)), [("slow", 0, 1), ("quick", 0, 2)]),
        (EqualTo(("event",), "done"), [("slow", 0, 10), ("quick", 0, 20)]),
    ],
)
def test_what_filters_on_place_and_time_rule_out_is_not_even_fetched(
    url: str, condition: Filter, spans: list[tuple[str, int, int]]
) -> None:
    batch = Batch(condition, url=url, tenant="*", queue="slow,quick")

    planned = [(span.shard.queue.name, span.after, span.upto) for part in batch.parts for span in part.spans]
    assert planned == spans
    assert batch.left == []
