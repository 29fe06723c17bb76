"""Promises of the keys and results of a map, with frames written by hand."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.job import check_id
from headrace.model.names import Queue
from headrace.pipeline.flows.map.keys import Key, id_of, key_of
from headrace.pipeline.flows.map.results import count_errors, map_results, result_type_of
from headrace.pipeline.source.schema import JOBS
from tests.pipeline.flows.map_runs import row_set

AT = datetime(2030, 1, 31, 12, tzinfo=UTC)
JOB = ("id", "state", "tag", "result", "error_class", "error_message", "attempts", "ended_at", "as_of_seq")


def ids(spark: SparkSession, values: str, key: str | list[str]) -> list[str | None]:
    """The ids of rows; None for one whose key is missing."""
    frame = spark.sql(f"SELECT * FROM VALUES {values}")  # noqa: S608 - our own
    parsed: Key = key_of(frame, key)
    keyed = frame.select(*parsed.columns()).withColumn("_text", parsed.text())
    rows = keyed.select(F.when(~parsed.is_missing(), id_of("m", F.col("_text"))).alias("id"))
    return [row.id for row in rows.collect()]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ("('a', 'bc'), ('ab', 'c'), ('', 'abc'), ('abc', ''), ('a\"', 'b'), ('a', '\"b') AS t(a, b)", ["a", "b"]),
        ("(1, '1'), (11, ''), (1, '') AS t(a, b)", ["a", "b"]),
        ("('x'), ('x\\n'), (' x'), ('x '), (''), ('#x'), ('X'), ('é'), ('e\\u0301') AS t(a)", "a"),
        (f"('{'y' * 200}1'), ('{'y' * 200}2'), ('{'y' * 128}'), ('{'y' * 129}') AS t(a)", "a"),
        ("(0.0D), (-0.0D), (double('NaN')), (double('inf')), (1.5D) AS t(a)", "a"),
        ("(1.10), (1.20), (-1.10) AS t(a)", "a"),
        (
            "(timestamp'2030-01-31 12:00:00.000001'), (timestamp'2030-01-31 12:00:00.000002') AS t(a)",
            ["a", "cast(a AS timestamp_ntz) AS b"],
        ),
        (
            "(struct(timestamp'2030-01-31 12:00:00.000001')), (struct(timestamp'2030-01-31 12:00:00.000002')) AS t(a)",
            "a",
        ),
        ("(named_struct('x', 1, 'y', 2)), (named_struct('x', 1, 'y', NULL)) AS t(a)", "a"),
        ("(X'00'), (X'0000'), (X'FF') AS t(a)", "a"),
        ("(array('a', 'b')), (array('a,b')), (array()), (array(NULL)) AS t(a)", "a"),
        ("(true), (false) AS t(a)", "a"),
    ],
)
def test_different_keys_have_different_ids_that_every_store_accepts(
    spark: SparkSession, values: str, key: str | list[str]
) -> None:
    job_ids = ids(spark, values, key)

    assert None not in job_ids
    assert len(set(job_ids)) == len(job_ids)
    for id in job_ids:
        check_id(str(id), Queue("map-m"))


def test_an_id_is_the_readable_key_whatever_its_type(spark: SparkSession) -> None:
    plain = ids(spark, "('4711'), ('ada@lovelace.org'), ('eu/7') AS t(a)", "a")

    assert plain == ["m/4711", "m/ada@lovelace.org", "m/eu/7"]
    assert ids(spark, "(4711), (NULL) AS t(a)", "a") == ["m/4711", None]
    assert ids(spark, "(date'2030-01-31') AS t(a)", "a") == ["m/2030-01-31"]
    assert ids(spark, "('a', 1), (NULL, 1), ('a', NULL) AS t(a, b)", ["a", "b"])[1:] == [None, None]


def job(id: str, state: str, **fields: Any) -> tuple[Any, ...]:
    """A record as the store returns it."""
    record = {"id": id, "state": state, "tag": "row-1", "attempts": 0, "as_of_seq": 1} | fields
    return tuple(record.get(name) for name in JOB)


def test_the_result_of_a_key_is_the_last_state_of_its_job(spark: SparkSession) -> None:
    keys = ("open", "done", "dead", "cancelled", "lost", "changed", "bad", "twice", "moved")
    values = [(k, k, f"m/{k}", "row-1", "bad_payload" if k == "bad" else None, None) for k in keys]
    rows = spark.createDataFrame(
        values, "k string, _key string, _id string, _tag string, _reason string, _sentence string"
    )
    jobs = spark.createDataFrame(
        [
            job("m/open", "active"),
            job("m/done", "done", result='{"a": 1}', ended_at=AT),
            job("m/dead", "dead", error_class="Odd", error_message="it failed", attempts=3, ended_at=AT),
            job("m/cancelled", "cancelled", ended_at=AT),
            job("m/changed", "done", tag="row-2", result="1", ended_at=AT),
            job("m/twice", "dead", error_class="Odd", ended_at=AT),
            job("m/twice", "done", result='{"a": 2}', ended_at=AT.replace(hour=13)),
            job("m/moved", "waiting", as_of_seq=1),
            job("m/moved", "dead", error_class="Odd", ended_at=AT),
            job("m/other", "done"),
        ],
        JOBS.pick(JOB).spark,
    )
    key = key_of(rows, "k")

    results = map_results(rows, key, jobs, result_type_of(rows, "a int")).cache()

    assert row_set(results, "k", "outcome", "result.a", "error_class", "attempts") == {
        ("open", "open", None, None, 0),
        ("done", "done", 1, None, 0),
        ("dead", "dead", None, "Odd", 3),
        ("cancelled", "cancelled", None, None, 0),
        ("lost", "lost", None, None, None),
        ("changed", "refused", None, "conflict", None),
        ("bad", "refused", None, "bad_payload", None),
        ("twice", "done", 2, None, 0),
        ("moved", "open", None, None, 0),
    }
    assert next(tuple(row)[:3] for row in count_errors(results).collect()) == ("dead", "Odd", 1)
