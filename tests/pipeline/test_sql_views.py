"""Promises of payloads as structs and of views: for programs, for SQL, with an app and without one."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from pyspark.sql import SparkSession

from headrace import App, Fail, Queue
from headrace.model.errors import BadConfig
from headrace.pipeline import DataDir, follow_history, payloads, views, write_jobs
from headrace.pipeline.event_source import events
from headrace.pipeline.payload_types import PayloadTypes, variant_type
from headrace.pipeline.sql_views import FILE, PayloadOrigin, app_types, read_versions, shown_options, view_statements

SHOP = Queue("shop", "acme")


class Line(Struct):
    sku: str
    price: Decimal


class Receipt(Struct):
    total: Decimal
    lines: int


@pytest.fixture
def app(tmp_path: Path) -> App:
    """An app whose jobs have run: two invoices that were done, one that died, and one of a kind with odd signs."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.job(queue=SHOP, max_attempts=1, result_ttl="1h")
    def invoice(order: int, lines: list[Line], note: str | None = None) -> Receipt:
        if not lines:
            raise Fail("nothing was ordered")
        return Receipt(sum((each.price for each in lines), Decimal(0)), len(lines))

    @app.job(queue=SHOP, kind="Shop.Ping$'s")
    def ping() -> None: ...

    lines = [Line("a", Decimal("1.5")), Line("b", Decimal(2))]
    invoice.blocking.enqueue_many(
        [{"order": 1, "lines": lines}, {"order": 2, "lines": lines[:1], "note": "é"}, {"order": 3, "lines": []}]
    )
    ping.blocking.enqueue()
    app.run_worker(until_idle=True)
    return app


@pytest.fixture(autouse=True)
def no_views(spark: SparkSession) -> Iterator[None]:
    """The views of one test are not those of the next."""
    yield
    for name in names_of_views(spark):
        spark.catalog.dropTempView(name)


def names_of_views(spark: SparkSession) -> set[str]:
    return {row.viewName for row in spark.sql("SHOW VIEWS").collect() if row.isTemporary}


def url_of(app: App) -> str:
    assert app.url is not None
    return app.url


@pytest.mark.parametrize(
    ("origin", "totals"),
    [
        ("jobs", {(3, None)}),
        ("dead", {(3, None)}),
        ("journal", {(3, None)}),
        ("results", {(None, Decimal("3.5")), (None, Decimal("1.5"))}),
    ],
)
def test_payloads_are_structs_wherever_they_are(
    spark: SparkSession, app: App, origin: PayloadOrigin, totals: set[tuple[int | None, Decimal | None]]
) -> None:
    frame = payloads(spark, app, "invoice", origin=origin)

    rows = [row.asDict(recursive=True) for row in frame.collect()]
    found = {((row.get("payload") or {}).get("order"), (row.get("result") or {}).get("total")) for row in rows}
    assert all(row["fits"] and row.get("kind") == "invoice" for row in rows)
    assert totals <= found


def test_the_history_has_payloads_as_structs_when_it_was_written_with_them(
    spark: SparkSession, app: App, tmp_path: Path
) -> None:
    bare, whole = DataDir(tmp_path / "bare"), DataDir(tmp_path / "whole")
    follow_history(spark, url_of(app), bare.history, once=True).awaitTermination()
    follow_history(spark, url_of(app), whole.history, once=True, payloads=True).awaitTermination()

    rows = payloads(spark, app, "invoice", origin="history", data_dir=whole, tenant="acme").collect()

    assert {row.result.lines for row in rows if row.event == "done"} == {1, 2}
    assert [row.payload.order for row in rows if row.event == "dead"] == [3]
    assert payloads(spark, app, "invoice", origin="history", data_dir=whole, queue="other").collect() == []
    with pytest.raises(BadConfig, match="has no payloads; write one with: headrace pipeline history --payloads"):
        payloads(spark, app, "invoice", origin="history", data_dir=bare)
    with pytest.raises(BadConfig, match="give the folder that holds the history"):
        payloads(spark, app, "invoice", origin="history")


def test_a_kind_or_an_origin_that_is_not_there_is_refused_with_what_is_there(spark: SparkSession, app: App) -> None:
    with pytest.raises(BadConfig, match="no job of kind 'invoise'; did you mean 'invoice'"):
        payloads(spark, app, "invoise")
    with pytest.raises(BadConfig, match="origin is 'past'; give jobs, dead, results, journal, history"):
        payloads(spark, app, "invoice", origin="past")  # type: ignore[arg-type]


def test_views_of_an_app_answer_sql(spark: SparkSession, app: App, tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    follow_history(spark, url_of(app), data_dir.history, once=True, payloads=True).awaitTermination()
    write_jobs(spark, events(spark, url_of(app), data_dir), data_dir)

    names = views(spark, url_of(app), app, data_dir=data_dir)

    assert names == [
        *("history", "table_jobs", "table_attempts"),
        *("jobs", "dead_letters", "results", "journal", "journal_payloads"),
        *(f"{source}_invoice" for source in ("jobs", "dead_letters", "journal", "history")),
        *(f"{source}_shop_ping_s" for source in ("jobs", "dead_letters", "journal", "history")),
    ]
    assert names_of_views(spark) == set(names)
    [dead] = spark.sql("SELECT payload.order, size(payload.lines) AS lines FROM dead_letters_invoice").collect()
    [done] = spark.sql("SELECT sum(result.total) AS total FROM history_invoice WHERE event = 'done'").collect()
    [pings] = spark.sql("SELECT count(*) AS n FROM journal_shop_ping_s WHERE event = 'done'").collect()
    [jobs] = spark.sql("SELECT count(*) AS n FROM table_jobs").collect()
    assert (dead.order, dead.lines, done.total, pings.n, jobs.n) == (3, 0, Decimal(5), 1, 4)


def test_views_without_an_app_have_the_types_of_the_json_and_keep_them(
    spark: SparkSession, app: App, tmp_path: Path
) -> None:
    data_dir = DataDir(tmp_path / "data")

    views(spark, url_of(app), data_dir=data_dir)
    [row] = spark.sql("SELECT payload, fits FROM jobs_invoice WHERE state = 'dead'").collect()
    first = read_versions(data_dir.path)
    app.registry.find("invoice").blocking.enqueue(order=4, lines=[Line("c", Decimal(3))], note="new")  # type: ignore[union-attr]
    views(spark, url_of(app), data_dir=data_dir)
    rows = spark.sql("SELECT payload.note, payload.lines[0].sku FROM jobs_invoice WHERE state = 'waiting'").collect()

    assert (row.payload.asDict(), row.fits) == ({"order": 3, "lines": []}, True)
    assert [(each.kind, each.column, each.version) for each in first][-1] == ("invoice", "result", 1)
    assert [tuple(row) for row in rows] == [("new", "c")]
    assert [each.type for each in read_versions(data_dir.path)][-1].endswith("`note`: STRING>")
    assert (data_dir.path / FILE).is_file()


def test_the_sql_of_views_can_be_run_by_any_session_and_shows_no_password(spark: SparkSession, app: App) -> None:
    options = shown_options(url_of(app), "acme", "*")
    statements = dict(view_statements(options, app_types(app)))

    for statement in statements.values():
        spark.sql(statement)

    assert spark.table("jobs_invoice").schema["payload"].dataType.simpleString().startswith("struct<order:bigint")
    assert shown_options("redis://user:secret@db:6379/0", "*", "*")["url"] == "${env:HEADRACE_URL}"
    assert shown_options("redis://db:6379/0", "*", "*")["url"] == "redis://db:6379/0"


def test_kinds_whose_names_differ_in_signs_only_have_views_of_their_own() -> None:
    types: dict[str, Any] = dict.fromkeys(("a.b", "a-b", "A b", "…"), PayloadTypes(variant_type("OBJECT<n: BIGINT>")))

    names = [name for name, _ in view_statements({"url": "redis://db"}, types) if name.startswith("jobs_")]

    assert names == ["jobs_a_b", "jobs_a_b_2", "jobs_a_b_3", "jobs_kind"]
