"""Promises of an ingest: every row of a frame becomes one job in any number of runs, or is kept with a reason."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.names import Queue
from headrace.pipeline import Mapping, ingest_rows, read_refused
from tests.pipeline.flows.ingest_runs import counts_of, is_untouched, quiet, url
from tests.pipeline.writes import drain, events, waiting

__all__ = ["quiet", "url"]

SIGN_UPS = Queue("sign-ups")
COLUMNS = {"payload": "struct(id, email)", "key": "id"}


def people(spark: SparkSession, count: int) -> DataFrame:
    """Rows of sign-ups, the eighth of which has a score without a JSON form."""
    return spark.range(0, count, 1, 2).selectExpr(
        "id", "concat('p', id, '@example.org') AS email", "if(id = 7, double('NaN'), id / 2) AS score"
    )


def test_rows_whose_jobs_have_finished_make_no_job_when_they_are_ingested_again(spark: SparkSession, url: str) -> None:
    """A whole row is identified by its values; another order, or another mapping of the rest, changes nothing."""
    rows, whole = people(spark, 300), people(spark, 300).where("id <> 7")
    to: dict[str, Any] = {"name": "sign-ups", "queue": "sign-ups", "kind": "welcome"}

    first = ingest_rows(rows, url, COLUMNS, **to)
    drained = drain(url, SIGN_UPS)
    again = ingest_rows(rows.repartition(3), url, COLUMNS | {"priority": "3"}, **to)
    by_row = ingest_rows(whole.union(whole.limit(10)), url, **(to | {"name": "rows"}))
    drained_by_row = drain(url, SIGN_UPS)
    again_by_row = ingest_rows(whole, url, {"tag": "id"}, **(to | {"name": "rows"}))

    assert (counts_of(first), drained, counts_of(again)) == ({"created": 300}, 300, {"duplicate": 300})
    assert (counts_of(by_row), drained_by_row) == ({"created": 299, "folded": 10}, 299)
    assert counts_of(again_by_row) == {"duplicate": 299}
    assert events(url, SIGN_UPS)["enqueued"] == 599


def test_a_mapping_fills_every_column_of_a_job_and_casts_what_loses_nothing(spark: SparkSession, url: str) -> None:
    rows = spark.sql(
        "SELECT 7L AS n, '2040-01-02T03:04:05Z' AS at, DATE'2041-01-01' AS day, 3.0D AS rank, '60000' AS wait, 'b' AS q"
    )
    mapping = Mapping(
        {
            "kind": "'welcome'",
            "payload": "named_struct('n', n, 'day', day)",
            "key": "struct(n, q)",
            "id": "n",
            "queue": "q",
            "tenant": "'acme'",
            "run_at": "at",
            "expires_at": "day",
            "priority": "rank",
            "timeout_ms": "wait",
            "tag": "n",
            "headers": "map('from', q)",
        }
    )

    report = ingest_rows(rows, url, mapping, name="every")

    [job] = waiting(url, Queue("b", "acme"))
    assert counts_of(report) == {"created": 1}
    assert (job.id, job.kind, job.payload, job.tag) == ("7", "welcome", b'{"day":"2041-01-01","n":7}', "7")
    assert (job.run_at_ms, job.policy.expires_at_ms) == (2_209_086_245_000, 2_240_611_200_000)
    assert (job.policy.priority, job.policy.timeout_ms, job.headers) == (3, 60_000, {"from": "b"})


def test_refused_rows_are_kept_with_the_reason_and_the_others_are_jobs(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """Refused by us, by the mapping and by the store; a second run keeps its own."""
    folder = tmp_path / "refused"
    to: dict[str, Any] = {"name": "people", "queue": "sign-ups", "kind": "welcome"}
    ingest_rows(people(spark, 3), url, COLUMNS, **to)
    mapping = {
        "payload": "struct(id, if(id = 1, 'other', email) AS email, score)",
        "key": "id",
        "run_at": "if(id = 5, 'soon', '2040-01-01')",
        "delay_ms": "if(id = 6, '1.5', null)",
        "refusal": "if(id = 4, 'no_mail: the row has no mail', null)",
    }

    ingested = ingest_rows(people(spark, 9).where("id not in (0, 2)"), url, mapping, refused=folder, **to)
    again = ingest_rows(people(spark, 9).where("id = 7"), url, mapping, refused=folder, **to)

    wrong = {"conflict": 1, "no_mail": 1, "bad_run_at": 1, "bad_delay_ms": 1, "bad_payload": 1}
    assert counts_of(ingested) == {"created": 2, "refused": wrong}
    assert counts_of(again) == {"refused": {"bad_payload": 1}}
    kept = {(row.run, row.key): row for row in read_refused(spark, folder).collect()}
    assert {key for _, key in kept} == {"1", "4", "5", "6", "7"}
    assert len(kept) == 6
    first = {key: row for (run, key), row in kept.items() if run == ingested.run}
    expected = {"1": "conflict", "4": "no_mail", "5": "bad_run_at", "6": "bad_delay_ms", "7": "bad_payload"}
    assert {key: row.reason for key, row in first.items()} == expected
    assert first["4"].sentence == "the row has no mail"
    assert first["5"].sentence.startswith("run_at 'soon' is not a valid time; write it as")
    assert (first["1"].payload, first["1"].queue) == ('{"email":"other","id":1,"score":0.5}', "sign-ups")
    assert json.loads(first["5"].payload)["email"] == "p5@example.org"
    assert first["7"].payload == '{"id": 7, "email": "p7@example.org", "score": NaN}'
    assert ingested.refused_folder == str(folder / f"run={ingested.run}")
    assert (read_refused(spark, tmp_path / "nowhere").count(), [*folder.glob("_tasks/*")]) == (0, [])


def test_a_compound_key_distinguishes_microseconds_and_is_missing_when_all_parts_are_null(
    spark: SparkSession, url: str
) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1, timestamp'2030-01-01 00:00:00.000001'), (1, timestamp'2030-01-01 00:00:00.000002'),"
        " (null, null), (null, null) AS rows(n, at)"
    )
    to: dict[str, Any] = {"queue": "sign-ups", "kind": "k"}

    by_struct = ingest_rows(rows, url, {"payload": "n", "key": "struct(n, at)"}, name="struct", **to)
    by_array = ingest_rows(rows, url, {"payload": "n", "key": "array(string(n), string(at))"}, name="array", **to)

    assert counts_of(by_struct) == counts_of(by_array) == {"created": 2, "refused": {"bad_key": 2}}


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "unknown column": ({"pay": "id"}, "a job has no column 'pay' to map to; it has kind, payload, id, key, "),
    "missing column": ({"key": "idd"}, "mapping key 'idd' names 'idd', which does not exist; columns are id, email"),
    "no SQL": ({"payload": "struct("}, r"mapping payload 'struct\(' is not SQL that Spark understands"),
    "an aggregate": ({"payload": "max(id)"}, "mapping .* is not SQL that Spark understands: .* GROUP BY"),
    "wrong type": ({"kind": "id"}, "column 'kind' of a write with what=jobs must be string; found bigint; cast it"),
    "a bare number as time": (
        {"run_at": "id"},
        r"mapping run_at is bigint instead of an instant.* timestamp_millis\(…\)",
    ),
    "the last value": (
        {"key": "if(id = 4, int(email), 1)"},
        "mapping key .* fails on a row: cannot cast 'p4@example.org' to int",
    ),
    "no time": ({"run_at": "array(id)"}, "column 'run_at' of a write with what=jobs must be timestamp; found array"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mapping_that_does_not_fit_is_one_sentence_and_nothing_is_written(
    spark: SparkSession, url: str, name: str, capfd: pytest.CaptureFixture[str], quiet: None
) -> None:
    columns, sentence = WRONG[name]

    with pytest.raises(BadConfig, match=sentence) as refused:
        ingest_rows(people(spark, 5), url, columns, name="x", kind=None if "kind" in columns else "k", check=True)

    assert "\n" not in str(refused.value)
    assert is_untouched(url)
    assert "Traceback" not in capfd.readouterr().err


def test_sql_that_fails_on_a_value_is_one_sentence_and_the_corrected_run_makes_each_job_once(
    spark: SparkSession, url: str
) -> None:
    to: dict[str, Any] = {"name": "x", "queue": "sign-ups", "kind": "k"}
    rows = people(spark, 40)

    with pytest.raises(BadConfig, match=r"mapping payload .* fails on a row: cannot cast 'p39@example\.org' to int"):
        ingest_rows(rows, url, {"payload": "if(id = 39, int(email), id)", "key": "id"}, **to)
    done = ingest_rows(rows, url, {"payload": "id", "key": "id"}, **to)

    assert done.created + done.duplicate == 40
    assert events(url, SIGN_UPS)["enqueued"] == 40


def test_the_rows_are_read_once_and_twice_with_a_check(spark: SparkSession, url: str) -> None:
    count = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count.add(batch.num_rows)
            yield batch

    rows = spark.range(0, 30, 1, 2).mapInArrow(counted, "id bigint")
    to: dict[str, Any] = {"queue": "sign-ups", "kind": "k"}

    ingest_rows(rows, url, {"key": "id"}, name="once", **to)
    once = count.value
    ingest_rows(rows, url, {"key": "id"}, name="checked", check=True, **to)

    assert (once, count.value - once) == (30, 60)


UNFIT: dict[str, tuple[Callable[[DataFrame, str], object], str]] = {
    "kind": (lambda frame, url: ingest_rows(frame, url, name="x"), "the jobs have no kind; give one"),
    "name": (lambda frame, url: ingest_rows(frame, url, name="a/b", kind="k"), "the name of an ingest is 'a/b'"),
    "queue": (lambda frame, url: ingest_rows(frame, url, name="x", kind="k", queue="a b"), "queue name 'a b'"),
    "keep": (lambda frame, url: ingest_rows(frame, url, name="x", kind="k", keep="soon"), "keep .*'soon'"),
    "no time": (lambda frame, url: ingest_rows(frame, url, name="x", kind="k", keep=0), "keep is 0; give how long"),
    "folder": (
        lambda frame, url: ingest_rows(frame, url, name="x", kind="k", refused="s3://b"),
        "is a URL instead of a folder; mount it",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_wrong_arguments_are_one_sentence_and_nothing_is_written(spark: SparkSession, url: str, name: str) -> None:
    call, sentence = UNFIT[name]

    with pytest.raises(HeadraceError, match=sentence):
        call(people(spark, 5), url)

    assert is_untouched(url)


def test_a_dry_run_counts_the_jobs_and_writes_nothing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    to: dict[str, Any] = {
        "name": "people",
        "queue": "sign-ups",
        "kind": "welcome",
        "refused": str(tmp_path / "refused"),
    }
    mapping = {"payload": "struct(id, score)", "key": "id"}
    rows = people(spark, 50).union(people(spark, 4))

    before = ingest_rows(rows, url, mapping, dry_run=True, **to)
    untouched = is_untouched(url)
    written = ingest_rows(people(spark, 20), url, mapping, **to)
    after = ingest_rows(rows, url, mapping, dry_run=True, **to)

    assert (counts_of(before), before.existing, untouched) == (
        {"jobs": 49, "folded": 4, "refused": {"bad_payload": 1}},
        0,
        True,
    )
    assert "holds a number that JSON cannot write" in before.examples["bad_payload"]
    sample = {"queue": "sign-ups", "tenant": "default", "kind": "welcome", "key": "ingest/people/0"}
    assert json.loads(before.samples[0]) == sample | {"payload": {"id": 0, "score": 0.0}}
    assert (counts_of(after), after.existing) == (counts_of(before), 19)
    assert "would be refused (bad_payload 1)" in before.sentence()
    assert [*(tmp_path / "refused").glob("run=*")] == [Path(written.refused_folder or "")]


def test_a_dry_run_distinguishes_conflicting_rows_of_one_key_from_folded_rows(spark: SparkSession, url: str) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'a') AS rows(id, email)").coalesce(1)
    to: dict[str, Any] = {"name": "people", "queue": "sign-ups", "kind": "welcome"}

    would = ingest_rows(rows, url, COLUMNS, dry_run=True, **to)
    done = ingest_rows(rows, url, COLUMNS, **to)

    assert counts_of(would) == {"jobs": 2, "folded": 1, "refused": {"conflict": 1}}
    assert counts_of(done) == {"created": 2, "folded": 1, "refused": {"conflict": 1}}
