"""The reference page knows every option and every column, and no others."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Failed, JobError
from headrace.pipeline.source import options
from headrace.pipeline.source.schema import TABLES
from headrace.pipeline.source.sink.row_to_job import COLUMNS
from headrace.stores.contract.store import Store
from tests.pipeline.store_scenarios import run_scenario, url_of

PAGE = (Path(__file__).parents[2] / "docs/reference/spark.md").read_text("utf-8")


def section(title: str) -> str:
    """The text under a heading, up to the next one of its kind."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def named(text: str) -> set[str]:
    """What stands in code."""
    return set(re.findall(r"`(\w+)`", text))


def first_cells(text: str) -> set[str]:
    """What stands in code in the first cell of a table's row."""
    return {name for row in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE) for name in named(row)}


def test_every_option_of_a_read_has_a_row_and_no_other_has() -> None:
    known = {*options._COMMON, *(name for names in options._READ.values() for name in names)}

    assert first_cells(section("Reading: options")) | {"maxOffsetsPerTrigger", "minOffsetsPerTrigger"} == known


@pytest.mark.parametrize(
    ("what", "title"), [("jobs", "Writing jobs"), ("dead", "Replaying dead letters"), ("feed", "Publishing to feeds")]
)
def test_every_option_of_a_write_is_named(what: str, title: str) -> None:
    assert set(options._WRITE[what]) - {"feed"} <= named(section(title))


@pytest.mark.parametrize(
    ("what", "title"),
    [("journal", "The journal"), ("jobs", "Jobs"), ("results", "Results"), ("dead", "Dead letters"), ("feed", "Feeds")],
)
def test_every_column_of_a_table_is_named(what: str, title: str) -> None:
    assert set(TABLES[what].names) <= named(section(title))


def test_every_column_of_a_job_that_is_written_is_named() -> None:
    assert set(COLUMNS) <= named(section("Writing jobs"))


async def a_death(store: Store) -> None:
    """A dead letter of the queue that the page's programs are about."""
    queue = Queue("billing")
    await store.jobs.enqueue([Job(queue=queue, id="a", kind="invoice")])
    request = ClaimRequest(queues=[queue], worker="w", nonce="nonce-one", limit=1, lease_ms=10_000)
    claims = await store.jobs.claim(request)
    await store.jobs.settle([claim.settle(Failed(JobError.of("Timeout", "no answer")), 1) for claim in claims.items])


def test_the_programs_of_the_page_run_top_to_bottom(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = url_of(tmp_path / "jobs.db")
    run_scenario(url, a_death)
    orders = spark.createDataFrame([(1, 20), (2, 30)], "order_id long, total long")
    names = {"url": url, "orders": orders, **{name: getattr(F, name) for name in ("lit", "to_json", "struct", "col")}}
    names["frame"] = orders.selectExpr("'k' AS kind", "concat('f', order_id) AS key")

    try:
        for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
            real = re.sub(r"redis://redis.internal:6379/0|sqlite:////var/lib/jobs.db", url, code)
            exec(real.replace("/data/", f"{tmp_path}/"), names)  # noqa: S102 - ours
    finally:
        for query in spark.streams.active:
            query.stop()

    output = capsys.readouterr().out
    assert "|invoice|failed|" in output
    assert "of 2 rows 2 created" in output
