"""Promises of what the report takes from the tables: of each part its own, with names, without secrets, and no more."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.limits import PAGE_DAYS_MAX, PAGE_FAILURES_MAX
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.report import queries
from headrace.pipeline.report.model import ALL, Numbers, Scope, View
from headrace.pipeline.report.page import page
from headrace.pipeline.report.report import EVERYTHING, ReportPart, collect
from headrace.pipeline.tables.usage import tenant_usage
from headrace.pipeline.tables.write import read_table
from tests.pipeline.data_dirs import T0, failed_jobs, us, window, write_stats, write_table

SAID = "no answer from redis://me:hunter2@cache:6379, token=abc123"


def failures(fingerprint: str, tenant: str, queue: str, count: int) -> list[dict[str, Any]]:
    names = {"fingerprint": fingerprint, "tenant": tenant, "error_class": "OSError", "template": "token=abc123"}
    job = {"queue": queue, "id": "a", "kinds": ["k"], "failures": count, "deaths": 0}
    return failed_jobs(names | job | {"first_seen": us(T0), "last_seen": us(T0)}, 1, SAID)


def used(day: int, tenant: str) -> dict[str, Any]:
    counts = {"enqueued": 1, "done": 1, "dead": 0, "deliveries": 1, "run_ms": 1, "payload_bytes": 1}
    return {"day": date(2026, 9, day), "tenant": tenant, "queue": "mail"} | counts


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """Of acme mail, which fails in many ways, and reports, whose backlog nobody knows; birch has one queue."""
    data_dir = DataDir(tmp_path_factory.mktemp("headrace-data"))
    write_stats(
        data_dir,
        [
            window(T0, "acme", "mail", "k", done=9, opened=12, backlog=3),
            window(T0, "acme", "reports", "k", done=2, opened=2, backlog=None),
            window(T0, "birch", "web", "k", done=4, opened=9, backlog=5),
        ],
    )
    many = [row for n in range(PAGE_FAILURES_MAX + 1) for row in failures(f"f{n}", "acme", "mail", 100 + n)]
    rest = [*failures("rare", "acme", "reports", 1), *failures("f0", "birch", "web", 7)]
    write_table(data_dir, "errors", many + rest)
    write_table(data_dir, "usage", [used(day, tenant) for day in range(1, 22) for tenant in ("acme", "birch")])
    return data_dir


@pytest.fixture(scope="module")
def numbers(spark: SparkSession, data_dir: DataDir) -> Numbers:
    return collect(spark, data_dir, made_at_ms=T0)


def view_of(numbers: Numbers, scope: Scope) -> View:
    [view] = [view for view in numbers.views if view.scope == scope]
    return view


def test_a_queue_shows_what_failed_in_it_however_rare_that_is_for_its_tenant(numbers: Numbers) -> None:
    reports, mail = (view_of(numbers, Scope("acme", queue)) for queue in ("reports", "mail"))

    assert [failure.fingerprint for failure in reports.failures or []] == ["rare"]
    assert [failure.failures for failure in mail.failures or []] == [100 + n for n in range(PAGE_FAILURES_MAX, 0, -1)]
    assert (reports.failures_more, mail.failures_more) == ((0, 0), (1, 100))


def test_error_messages_are_shown_without_secrets(numbers: Numbers) -> None:
    text = page(numbers, title="Secrets")

    assert "hunter2" not in text
    assert "abc123" not in text
    assert "redis://…@cache:6379" in text


def test_a_queue_that_is_alone_is_called_by_its_name(spark: SparkSession, data_dir: DataDir, numbers: Numbers) -> None:
    lone = collect(spark, data_dir, made_at_ms=T0, part=ReportPart("birch"))

    assert view_of(numbers, Scope("birch")).backlog == {"web": [5]}
    assert [(view.scope, view.backlog) for view in lone.views] == [(ALL, {"web": [5]})]


def test_queues_without_a_known_backlog_are_counted_and_reported(numbers: Numbers) -> None:
    text = page(numbers, title="Unknown")

    assert [(view.scope.name, view.unknown) for view in numbers.views] == [
        *(("", 1), ("acme", 1), ("acme/mail", 0), ("acme/reports", 1), ("birch", 0))
    ]
    assert "peak 8; unknown for 1 queue" in text
    assert "Not known for 1 queue, whose journal has lost its beginning." in text


def test_a_report_of_a_tenant_shows_nothing_of_the_others_and_names_it(spark: SparkSession, data_dir: DataDir) -> None:
    part = collect(spark, data_dir, made_at_ms=T0, part=ReportPart("acme", "reports, mail"))

    [whole, *queues] = part.views
    assert [view.scope for view in queues] == [Scope("acme", "mail"), Scope("acme", "reports")]
    assert whole.counts is not None
    assert whole.counts["done"] == [11]
    assert {name for failure in whole.failures or [] for name in failure.tenants} == {"acme"}
    assert (len(whole.usage or []), whole.usage_is_by_day) == (PAGE_DAYS_MAX, True)
    assert "UTC; only tenant acme, queue reports, mail<" in page(part, title="A part")
    assert EVERYTHING.text == ""


def test_days_are_asked_for_only_of_those_that_are_shown(spark: SparkSession, data_dir: DataDir) -> None:
    usage = tenant_usage(read_table(spark, data_dir, "usage"))

    rows = queries.consumption_by_day(usage, ["birch"], 2).collect()

    assert sorted((row.tenant, row.day.day) for row in rows) == [("birch", 20), ("birch", 21)]


def test_a_report_shows_its_last_days_and_the_jobs_that_were_open_before_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    data_dir, day_ms = DataDir(tmp_path / "data"), 86_400_000
    write_stats(
        data_dir,
        [
            window(T0, "acme", "idle", "k", opened=7, backlog=7),
            window(T0, "acme", "mail", "k", done=1, opened=4, backlog=3),
            window(T0 + 3 * day_ms, "acme", "mail", "k", done=2, opened=1, backlog=2),
        ],
    )
    write_table(data_dir, "errors", [*failures("old", "acme", "mail", 5)])
    write_table(data_dir, "usage", [used(day, "acme") for day in (21, 24)])

    [recent] = collect(spark, data_dir, made_at_ms=T0, days=3).views
    every = collect(spark, data_dir, made_at_ms=T0, days=4).views[0]

    assert recent.counts is not None
    assert (recent.counts["done"], recent.failures, [row.name for row in recent.usage or []]) == (
        [2],
        [],
        ["2026-09-24"],
    )
    assert recent.backlog is not None
    assert sum(levels[-1] for levels in recent.backlog.values()) == 9
    assert every.backlog is not None
    assert sum(levels[-1] for levels in every.backlog.values()) == 9
    assert len(every.failures or []) == 1
