"""Promises of the table of errors: what differs only in numbers, ids and addresses is one, and all of it is counted."""

from hashlib import sha256

from pyspark.sql import SparkSession

from headrace.pipeline.tables.errors import errors, template
from tests.pipeline.by_hand import Row, at, columns_of, frame_of, only

COLUMNS = (
    "fingerprint string, tenant string, error_class string, template string, kinds array<string>, "
    "queues array<string>, failures bigint, deaths bigint, jobs bigint, first_seen timestamp, last_seen timestamp, "
    "sample_jobs array<struct<queue:string,id:string,happened_at:timestamp,message:string>>"
)
FOLDED = {
    "no row 17 of 1,000.5 (-3e-05)": "no row <number> of <number> (<number>)",
    "user_42 and job17 took 250ms": "user_<number> and job<number> took <number>ms",
    "order 7f9c24e8-3b2a-4c1d-9e8f-0123456789ab is gone": "order <uuid> is gone",
    "object at 0x7FFF5d4e, digest deadbeef01": "object at <hex>, digest <hex>",
    "job 01J8ZQ6X9T4R5V7W2Y3A1B0C9D": "job <id>",
    "10.0.0.7:5432 refused": "<address> refused",
    "redis at db-1.internal:6379, localhost:80": "redis at <address>, <address>",
    "[2001:db8::8a2e:370]:443 and ::1": "<address> and <address>",
    "GET https://api.example.com/v1/users/9?x=1 failed": "GET <url> failed",
    "mail to ada.l+x@example.co.uk bounced": "mail to <email> bounced",
    "no such file: '/srv/a b/c.txt'": "no such file: <text>",
    "cannot open /var/lib/x.db, ~/y or ../z/1.log": "cannot open <path>, <path> or <path>",
    r"cannot open C:\temp\a.txt": "cannot open <path>",
    'key "name" and b"raw" and `x`': "key <text> and <text> and <text>",
    r"bad 'it\'s' here": "bad <text> here",
    "can't read what isn't there": "can't read what isn't there",
    "due 2030-01-31T12:00:00.250Z, not 2030-01-31 13:00": "due <time>, not <time>",
    "read and/or write\n\tonce  more ": "read and/or write once more",
    "deadline exceeded": "deadline exceeded",
    "": "",
}


def fold(spark: SparkSession, *events: Row, samples: int = 3) -> list[Row]:
    return list(errors(frame_of(spark, *events), samples).toArrow().to_pylist())


def failure(message: str | None = "no 1", event: str = "retried", **more: object) -> Row:
    return {"event": event, "kind": "send", "error_class": "ValueError", "error_message": message, **more}


def named(error_class: str) -> str:
    return sha256(f"{error_class}\nno <number>".encode()).hexdigest()[:12]


def test_the_table_has_the_columns_that_are_written_down(spark: SparkSession) -> None:
    table = errors(frame_of(spark))

    assert columns_of(table) == COLUMNS


def test_what_varies_in_a_message_is_folded_and_the_rest_stays(spark: SparkSession) -> None:
    messages = spark.createDataFrame([(message,) for message in FOLDED], "message string")

    found = messages.select("message", template(messages.message).alias("folded")).collect()

    assert {row.message: row.folded for row in found} == FOLDED


def test_failures_of_one_cause_are_one_row_that_counts_them(spark: SparkSession) -> None:
    rows = fold(
        spark,
        failure("no 1", id="a"),
        failure("no 22", id="a"),
        failure("no 3", "dead", id="a", reason="attempts", dead_letter=1),
        failure("no 4", id="b", kind="print", queue="post"),
        failure("no 5", id="b"),
        failure("no 6", tenant="birch"),
        failure("no 7", error_class="KeyError"),
        {"event": "stalled", "kind": "send"},
        {"event": "done", "kind": "send"},
    )

    names = ("tenant", "error_class", "template", "kinds", "queues", "failures", "deaths", "jobs")
    assert only(rows, *names) == [
        ("acme", "ValueError", "no <number>", ["print", "send"], ["mail", "post"], 5, 1, 3),
        ("acme", "KeyError", "no <number>", ["send"], ["mail"], 1, 0, 1),
        ("birch", "ValueError", "no <number>", ["send"], ["mail"], 1, 0, 1),
    ]
    assert only(rows[:1], "first_seen", "last_seen") == [(at(1), at(5))]
    assert [row["fingerprint"] for row in rows] == [named("ValueError"), named("KeyError"), named("ValueError")]


def test_samples_are_the_last_failures_of_different_jobs(spark: SparkSession) -> None:
    failures = [failure(f"no {number}", id=id) for number, id in enumerate("abccc", 1)]

    rows = fold(spark, *failures, samples=2)

    assert rows[0]["sample_jobs"] == [
        {"queue": "mail", "id": "c", "happened_at": at(5), "message": "no 5"},
        {"queue": "mail", "id": "b", "happened_at": at(2), "message": "no 2"},
    ]


def test_an_error_without_a_message_is_counted_too(spark: SparkSession) -> None:
    rows = fold(spark, failure(None), failure(""))

    assert only(rows, "template", "failures") == [("", 2)]
