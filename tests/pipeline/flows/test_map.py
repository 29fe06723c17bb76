"""Promises of map: every key has its result, finished jobs do not run again, and refused arguments write nothing."""

import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.feed import FeedName
from headrace.model.names import Queue
from headrace.pipeline.flows.ingest.source import read_source
from headrace.pipeline.flows.map.results import STEPS, MapProgress
from headrace.stores.contract.store import Store
from tests.pipeline.flows.map_runs import app, row_set, run_map
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.pipeline.writes import events

QUEUE = Queue("map-sq")
FEEDS = FeedName("*")
"""The directory of feeds."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An empty store."""
    return fresh_url("sqlite", tmp_path)


def runs(url: str) -> int:
    """How often a handler was started."""
    return events(url, QUEUE)["claimed"]


def all_names(url: str) -> list[str]:
    """The names of all queues and feeds."""

    async def list_names(store: Store) -> list[str]:
        return [each.name for each in (await store.queues.names("default")).rows] + [
            item.id for item in (await store.items.list(FEEDS)).rows
        ]

    return call_store(url, list_names)


def test_every_key_has_its_result_and_failures_are_rows_with_their_error(spark: SparkSession, url: str) -> None:
    rows = spark.sql(
        "SELECT if(id = 7, NULL, concat('k', id % 11)) AS k, if(id = 8, NULL, id % 11) AS n, 'x' AS more FROM range(12)"
    )

    found = run_map(url, rows, key="k")

    squares = {(f"k{n}", "done", str(n * n), None, None, 0) for n in (1, 2, 3, 4, 6, 9)}
    dead = {(f"k{n}", "dead", None, "ValueError", f"{n} is no number", 1) for n in (0, 5, 10)}
    names = ("k", "outcome", "result", "error_class", "error_message", "attempts")
    assert row_set(found.frame.where("k <> 'k8'"), *names) == squares | dead
    assert row_set(found.frame.where("k = 'k8'"), "outcome", "error_class", "attempts") == {("dead", "BadPayload", 1)}
    assert row_set(found.frame.where("k IS NULL"), "outcome", "error_class", "attempts") == {
        ("refused", "bad_key", None)
    }
    assert (found.rows, found.created, found.folded) == (12, 10, 1)
    assert found.outcomes == {"done": 6, "dead": 4, "refused": 1}
    assert row_set(found.frame.selectExpr("ended_at IS NULL AS open"), "open") == {(True,), (False,)}


def test_the_same_call_again_creates_and_runs_nothing_and_gives_the_same_results(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    rows, folder = spark.range(6).selectExpr("id AS n"), tmp_path / "results"
    first = run_map(url, rows, folder=folder)
    before, ran = row_set(first.frame, "*"), runs(url)

    again = run_map(url, rows.repartition(3), folder=folder)

    assert (first.created, first.duplicate, again.created, again.duplicate) == (6, 0, 0, 6)
    assert (runs(url), ran) == (6, 6)
    assert row_set(again.frame, "*") == before
    assert again.is_complete


def test_a_map_killed_between_any_two_steps_continues_without_running_a_job_twice(
    spark: SparkSession, url: str
) -> None:
    rows = spark.range(40).selectExpr("id AS n")
    steps: list[str] = []

    def die(progress: MapProgress) -> None:
        steps.append(progress.step)
        if steps.count(progress.step) == 1:  # at the start of each step
            raise KeyboardInterrupt

    for _ in STEPS:
        with pytest.raises(KeyboardInterrupt):
            run_map(url, rows, on_progress=die)
    found = run_map(url, rows, on_progress=die)

    assert list(dict.fromkeys(steps)) == list(STEPS)
    assert (found.created, found.duplicate) == (0, 40)
    assert row_set(found.frame, "n", "result") == {(n, str(n * n) if n % 5 else None) for n in range(40)}
    assert runs(url) == 40


def test_a_changed_row_under_the_same_key_is_refused_and_leaves_the_result_of_the_other(
    spark: SparkSession, url: str
) -> None:
    run_map(url, spark.sql("SELECT id AS k, id AS n FROM range(1, 4)"), key="k")

    changed = run_map(url, spark.sql("SELECT id AS k, if(id = 2, 99, id) AS n FROM range(1, 4)"), key="k")
    kept = run_map(url, spark.sql("SELECT 2L AS k, explode(array(2L, 77L)) AS n"), key="k")

    names = ("k", "outcome", "result", "error_class")
    assert row_set(changed.frame, *names) == {
        (1, "done", "1", None),
        (2, "refused", None, "conflict"),
        (3, "done", "9", None),
    }
    assert row_set(kept.frame, *names) == {(2, "done", "4", None), (2, "refused", None, "conflict")}
    assert runs(url) == 3


def test_a_row_without_a_json_form_is_refused_alone(spark: SparkSession, url: str) -> None:
    rows = spark.sql("SELECT id AS k, id AS n, if(id = 1, double('NaN'), 1.5D) AS x FROM range(1, 4)")

    found = run_map(url, rows, "anything", key="k")

    assert row_set(found.frame, "k", "outcome", "result", "error_class") == {
        (1, "refused", None, "bad_payload"),
        (2, "done", '["k","n","x"]', None),
        (3, "done", '["k","n","x"]', None),
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "greet"}, r"greet\(name: str, mark: str = '!'\), needs 'name', and the rows have columns n, t, m;"),
        ({"payload": "struct(n, t)"}, r"square\(n: int\), does not take 't', and payload 'struct\(n, t\)' has n, t"),
        ({"payload": "struct(t AS n)"}, r"none of the first 3 rows fits the handler of 'square': .*`int`"),
        (
            {"payload": "named_struct('n', cast(t AS int))"},
            r"payload .named_struct.* fails on a row: cannot cast 'text'",
        ),
        ({"payload": "struct(n,"}, "payload 'struct\\(n,' is not SQL that Spark understands"),
        ({"key": "nr"}, "key 'nr' names 'nr', which does not exist; columns are n, t, m"),
        ({"key": ["n", "t AS n"]}, "key 't AS n' makes a column 'n', which the results have already; give it another"),
        ({"key": "m"}, "key 'm' is map<string,string>, which has no single text form; use a part"),
        ({"key": []}, "a map needs a key"),
        ({"kind": "squre"}, "no handler for kind 'squre'; did you mean 'square'"),
        ({"schema": "score dubble"}, "schema 'score dubble' is not SQL"),
        ({"keep": "0s"}, "keep is 0"),
        ({"name": "a/b"}, "the name of a map is 'a/b'; start with a letter or digit"),
        ({"capacity": 3}, "capacity is for by='fleet'; workers elsewhere have their own settings"),
        ({"by": "magic"}, "by is 'magic'; give fleet"),
        ({"by": "fleet", "workers": 0}, "a fleet cannot start: workers must be"),
        ({"by": "fleet", "lease": "1ms"}, "lease of a worker must be at least"),
        ({"folder": Path(__file__).parent}, "is not a table of Headrace and was left alone"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused_in_a_sentence_before_anything_is_written(
    spark: SparkSession, url: str, options: dict[str, Any], sentence: str
) -> None:
    rows = spark.sql("SELECT id AS n, 'text' AS t, map('a', 'b') AS m FROM range(3)")

    with pytest.raises(HeadraceError, match=sentence) as raised:
        run_map(url, rows, **options)

    assert isinstance(raised.value, BadConfig)
    assert "\n" not in str(raised.value)
    assert all_names(url) == []


def test_a_stopped_map_reports_open_jobs_and_continues_later(spark: SparkSession, url: str) -> None:
    rows, stopping = spark.range(1, 4).selectExpr("id AS n"), threading.Event()
    stopping.set()

    stopped = run_map(url, rows, stopping=stopping, on_progress=lambda _: None, name="sq", queue="elsewhere")
    found = run_map(url, rows, queue="elsewhere", on_progress=lambda progress: _work(progress, "elsewhere"))

    assert (stopped.outcomes, stopped.is_complete) == ({"open": 3}, False)
    assert (found.outcomes, found.is_complete, found.created) == ({"done": 3}, True, 0)


def _work(progress: MapProgress, queue: str) -> None:
    if progress.step == "running":
        app.run_worker(until_idle=True, queues=[queue])


def test_results_that_the_store_has_dropped_stay_in_the_table(spark: SparkSession, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    run_map(url, spark.sql("SELECT id AS k, id AS n FROM range(1, 4)"), key="k", folder=folder)

    later_ms = SystemClock().now_ms() + 8 * 86_400_000
    call_store(url, lambda store: store.jobs.repair(QUEUE, now_ms=later_ms))
    rows = spark.sql("SELECT id AS k, if(id = 2, 99, id) AS n FROM range(1, 5)")
    found = run_map(url, rows, key="k", folder=folder)

    assert row_set(found.frame, "k", "outcome", "result") == {
        (1, "done", "1"),
        (2, "lost", None),  # the row has changed since, and the earlier result is not this row's
        (3, "done", "9"),
        (4, "done", "16"),
    }
    assert runs(url) == 1  # the journal has dropped the others


def test_results_of_other_rows_stay_in_the_table_and_are_not_in_the_frame(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    run_map(url, spark.range(1, 4).selectExpr("id AS n"), folder=folder)

    found = run_map(url, spark.sql("SELECT cast(n AS bigint) FROM VALUES (3), (4), (null) AS rows(n)"), folder=folder)

    assert row_set(found.frame, "n", "outcome") == {(3, "done"), (4, "done"), (None, "refused")}
    assert found.outcomes == {"done": 2, "refused": 1}
    kept = sorted((row["n"], row["result"]) for row in pq.read_table(folder).to_pylist() if row["n"] is not None)
    assert kept == [(1, "1"), (2, "4"), (3, "9"), (4, "16")]


def test_a_row_that_cannot_be_read_at_its_source_is_one_sentence_and_nothing_is_written(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    (tmp_path / "numbers.csv").write_text("n\n1\ntwo\n")
    rows = read_source(spark, str(tmp_path / "numbers.csv"), schema="n int")

    with pytest.raises(BadConfig, match=r"^the rows cannot be read: .*; fix the source, or leave out such rows$"):
        run_map(url, rows)

    assert all_names(url) == []
