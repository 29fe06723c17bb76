"""Promises of filters: what is taken over from Spark leaves exactly the rows that SQL leaves, nulls and all."""

import pickle
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline.source.feed.reader import FeedReader, FilteredFeedReader
from headrace.pipeline.source.filters import HIGHEST, LOWEST, Filters
from headrace.pipeline.source.journal.reader import FilteredJournalReader, JournalReader
from headrace.pipeline.source.records.reader import FilteredRecordReader, RecordReader
from headrace.stores.contract.store import Store
from tests.pipeline.store_scenarios import run_scenario, url_of

SWITCH = "spark.sql.python.filterPushdown.enabled"
NUMBERS = some.none() | some.integers(-3, 3)
WORDS = some.none() | some.text("abé😀", max_size=3)

# SQL's own words, in which a value is `?` and the column {0}.
COMPARISONS: dict[Any, str] = {
    EqualTo: "{0} = ?",
    EqualNullSafe: "{0} IS ?",
    GreaterThan: "{0} > ?",
    GreaterThanOrEqual: "{0} >= ?",
    LessThan: "{0} < ?",
    LessThanOrEqual: "{0} <= ?",
}
PARTS_OF_WORDS: dict[Any, str] = {
    StringStartsWith: "substr({0}, 1, length(?1)) = ?1",
    StringEndsWith: "substr({0}, length({0}) - length(?1) + 1) = ?1 AND length({0}) >= length(?1)",
    StringContains: "instr({0}, ?) > 0",
}


def taken(*filters: Filter) -> Filters:
    found, left = Filters.take(filters)
    assert left == []
    return found


def ids(filters: Filters, rows: Sequence[tuple[object, object]]) -> list[int]:
    """Which rows (of a number and a word) are left."""
    columns: dict[str, Any] = {
        "id": range(len(rows)),
        "number": pa.array([row[0] for row in rows], pa.int32()),
        "word": pa.array([row[1] for row in rows], pa.string()),
    }
    left: list[int] = filters.rows(pa.RecordBatch.from_pydict(columns))["id"].to_pylist()
    return left


def ids_by_sql(where: str, values: Sequence[object], rows: Sequence[tuple[object, object]]) -> list[int]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (id INTEGER, number INTEGER, word TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", [(id, *row) for id, row in enumerate(rows)])
        statement = f"SELECT id FROM t WHERE {where} ORDER BY id"  # noqa: S608  (of this module's own words)
        return [id for (id,) in database.execute(statement, values)]


@pytest.mark.parametrize("kind", [*COMPARISONS, *PARTS_OF_WORDS])
@settings(deadline=None, max_examples=50)
@given(
    rows=some.lists(some.tuples(NUMBERS, WORDS), min_size=3, max_size=8),
    on_number=some.booleans(),
    number=NUMBERS,
    word=WORDS,
    negated=some.booleans(),
)
def test_a_comparison_leaves_the_rows_that_sql_leaves(
    kind: Any,
    rows: list[tuple[int | None, str | None]],
    on_number: bool,
    number: int | None,
    word: str | None,
    negated: bool,
) -> None:
    column, value = ("number", number) if on_number and kind in COMPARISONS else ("word", word)
    condition = kind((column,), value)
    where = {**COMPARISONS, **PARTS_OF_WORDS}[kind].format(column)

    found = ids(taken(Not(condition) if negated else condition), rows)

    assert found == ids_by_sql(f"NOT ({where})" if negated else where, [value], rows)


@settings(deadline=None)
@given(
    rows=some.lists(some.tuples(NUMBERS, WORDS), max_size=8),
    words=some.lists(WORDS, min_size=1, max_size=4),
    negated=some.booleans(),
)
def test_a_list_leaves_the_rows_that_sql_leaves(
    rows: list[tuple[int | None, str | None]], words: list[str | None], negated: bool
) -> None:
    condition = In(("word",), tuple(words))
    where = f"word IN ({', '.join('?' * len(words))})"

    found = ids(taken(Not(condition) if negated else condition), rows)

    assert found == ids_by_sql(f"NOT ({where})" if negated else where, words, rows)


def test_all_filters_must_be_fulfilled_and_nulls_can_be_asked_for() -> None:
    rows = [(1, "a"), (2, None), (None, "a"), (2, "b")]

    assert ids(taken(), rows) == [0, 1, 2, 3]
    assert ids(taken(IsNotNull(("number",)), EqualTo(("word",), "a")), rows) == [0]
    assert ids(taken(IsNull(("word",))), rows) == ids(taken(Not(IsNotNull(("word",)))), rows) == [1]


def test_instants_and_flags_are_compared_by_their_microseconds_and_values() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    columns: dict[str, Any] = {
        "happened_at": pa.array([noon, noon + timedelta(microseconds=1), None], pa.timestamp("us", tz="UTC")),
        "kept": pa.array([True, False, None]),
    }
    batch = pa.RecordBatch.from_pydict(columns)

    assert taken(GreaterThan(("happened_at",), noon)).rows(batch)["kept"].to_pylist() == [False]
    assert taken(EqualTo(("kept",), True)).rows(batch)["happened_at"].to_pylist() == [noon]


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("headers", "a"), "b"),
        EqualTo(("word",), b"bytes"),
        In(("number",), (1, 2.5)),
        EqualTo(("number",), 2**70),
        EqualTo(("happened_at",), datetime(2030, 1, 1)),  # noqa: DTZ001  (an instant of no zone is no instant)
    ],
)
def test_a_filter_that_cannot_be_applied_exactly_stays_with_spark(condition: Filter) -> None:
    mine = EqualTo(("id",), "a")

    found, left = Filters.take([condition, mine, Not(condition)])

    assert found.conditions == (mine,)
    assert left == [condition, Not(condition)]


def test_a_known_value_is_allowed_as_long_as_no_filter_on_its_column_rules_it_out() -> None:
    filters = taken(In(("queue",), ("mail", "post")), Not(EqualTo(("queue",), "post")), EqualTo(("state",), "dead"))

    assert [filters.allows("queue", name) for name in ("mail", "post", "other")] == [True, False, False]
    assert filters.allows("tenant", "acme")
    assert not filters.allows("state", "done")


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([], (LOWEST, HIGHEST)),
        ([EqualTo(("seq",), 5)], (5, 5)),
        ([GreaterThan(("seq",), 5), LessThan(("seq",), 9)], (6, 8)),
        ([GreaterThanOrEqual(("seq",), 5), Not(GreaterThan(("seq",), 9))], (5, 9)),
        ([In(("seq",), (4, None, 2))], (2, 4)),
        ([EqualNullSafe(("seq",), 5), GreaterThan(("other",), 7)], (5, 5)),
        ([Not(EqualTo(("seq",), 5)), IsNotNull(("seq",)), EqualTo(("seq",), None)], (LOWEST, HIGHEST)),
    ],
)
def test_bounds_hold_every_number_that_is_asked_for(filters: list[Filter], bounds: tuple[int, int]) -> None:
    assert taken(*filters).bounds("seq") == bounds


@pytest.mark.parametrize(
    ("kind", "whole", "between"),
    [
        (EqualTo, (2, 2), (3, 2)),
        (GreaterThan, (3, HIGHEST), (3, HIGHEST)),
        (GreaterThanOrEqual, (2, HIGHEST), (3, HIGHEST)),
        (LessThan, (LOWEST, 1), (LOWEST, 2)),
        (LessThanOrEqual, (LOWEST, 2), (LOWEST, 2)),
    ],
)
def test_bounds_of_instants_are_the_milliseconds_that_can_fulfil_them(
    kind: Any, whole: tuple[int, int], between: tuple[int, int]
) -> None:
    at = datetime(1970, 1, 1, 0, 0, 0, 2_000, tzinfo=UTC)

    assert taken(kind(("happened_at",), at)).bounds("happened_at") == whole
    assert taken(kind(("happened_at",), at + timedelta(microseconds=1))).bounds("happened_at") == between


@pytest.mark.parametrize("kind", [JournalReader, RecordReader, FeedReader])
def test_a_reader_without_filters_is_one_that_spark_takes_while_its_switch_is_off(kind: Any) -> None:
    reader = kind(None, None)

    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters


@pytest.mark.parametrize("kind", [FilteredJournalReader, FilteredRecordReader, FilteredFeedReader])
def test_a_reader_with_filters_leaves_the_rest_to_spark_and_keeps_its_own_when_pickled(kind: Any) -> None:
    reader = kind(None, None)

    left = list(reader.pushFilters([EqualTo(("seq",), 5), EqualTo(("a", "b"), 1)]))

    assert left == [EqualTo(("a", "b"), 1)]
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301  (as Spark does)
    assert copy.filters == reader.filters == taken(EqualTo(("seq",), 5))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Queue `few` with five events, and `much` of which nothing may be needed."""
    url = url_of(tmp_path_factory.mktemp("filters") / "headrace.db")

    async def story(store: Store) -> None:
        for name, count in (("few", 5), ("much", 500)):
            await store.jobs.enqueue([Job(queue=Queue(name), id=f"job-{n}", kind="k") for n in range(count)], now_ms=1)

    run_scenario(url, story)
    return url


QUERY = (
    "queue = 'few' AND id LIKE 'job-%' AND happened_at >= timestamp'1970-01-01' AND seq IN (2, 3, 9) AND reason IS NULL"
)


def test_spark_leaves_the_filters_to_the_reader_when_its_switch_is_on(spark: SparkSession, url: str) -> None:
    frame = spark.read.format("headrace").option("url", url).load().where(QUERY)

    found = sorted(row.seq for row in frame.collect())

    assert found == [2, 3]
    assert "Scan headrace" in plan_of(frame)
    assert "Filter (" not in plan_of(frame)


def test_explain_shows_the_filters_that_the_reader_has_when_it_is_asked_for_its_long_form(
    spark: SparkSession, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spark.read.format("headrace").option("url", url).load().where(QUERY)

    frame.explain("formatted")

    [pushed] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PushedFilters: ")]
    assert "EqualTo(queue,few)" in pushed
    assert "GreaterThanOrEqual(happened_at," in pushed
    assert "In(seq, [2,3,9])" in pushed


@pytest.mark.parametrize("what", ["journal", "jobs", "dead", "results", "feed"])
def test_a_query_finds_the_same_while_the_switch_is_off(spark: SparkSession, url: str, what: str) -> None:
    query, fresh = "tenant = 'default' AND NOT (id LIKE 'job-3%')", spark.newSession()
    fresh.conf.set(SWITCH, "false")

    on, off = (each.read.format("headrace").options(url=url, what=what).load().where(query) for each in (spark, fresh))

    assert "Filter (" not in plan_of(on)
    assert "Filter (" in plan_of(off)
    assert sorted(map(str, off.collect())) == sorted(map(str, on.collect()))


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
