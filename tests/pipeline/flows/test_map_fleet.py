"""Promises of map through a fleet, and of `headrace pipeline map`."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.cli.main import main
from headrace.model.names import Queue
from headrace.pipeline import map_rows
from headrace.pipeline.flows.map.results import MapProgress
from tests.pipeline.flows.map_runs import greet, row_set
from tests.pipeline.shared_stores import fresh_url
from tests.pipeline.writes import events

APP = "tests.pipeline.flows.map_runs:app"


def test_a_fleet_runs_the_jobs_of_all_rows_and_results_have_the_requested_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The URL holds a password, and the key has two columns."""
    url, progress = fresh_url("redis", tmp_path), list[MapProgress]()
    rows = spark.sql("SELECT id, id % 2 AS half, concat('n', id) AS who FROM range(60)")
    call: dict[str, Any] = {
        "key": ["half", "id"],
        "name": "hi",
        "url": url,
        "shards": 2,
        "schema": "said string, dead_letters int",
    }

    found = map_rows(
        rows, APP, greet.options(priority=7), payload="struct(who AS name)", on_progress=progress.append, **call
    )
    again = map_rows(rows, APP, greet, payload="struct(who AS name)", **call)

    assert found.fleet is not None
    expected = {(n % 2, n, "done", f"Hello, n{n}!", len(str(n)) + 1) for n in range(60)}
    assert row_set(found.frame, "half", "id", "outcome", "result.said", "result.dead_letters") == expected
    assert row_set(again.frame, "id", "result.said") == row_set(found.frame, "id", "result.said")
    assert (found.fleet.done, again.fleet, again.created) == (60, None, 0)
    assert events(url, Queue("map-hi", shards=2))["claimed"] == found.fleet.deliveries
    assert list(dict.fromkeys(each.step for each in progress)) == ["reading", "enqueuing", "running", "collecting"]


def test_the_command_writes_results_by_key_and_continues_where_it_ended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """T36: the same in words and for programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_URL", fresh_url("sqlite", tmp_path))
    Path("numbers.csv").write_text("n,more\n1,a\n2,b\n5,c\n")
    words = ["pipeline", "map", "numbers.csv", "--kind", "square", "--key", "n", "--name", "sq", "--app", APP]

    ended = main([*words, "--workers", "1", "--result", "bigint", "--json"])
    first = json.loads(capfd.readouterr().out)
    again = main([*words, "--result", "bigint"])
    printed = capfd.readouterr()

    folder = tmp_path / "headrace-data" / "map" / "sq"
    assert (ended, again) == (1, 1)
    assert (first["rows"], first["created"], first["outcomes"]) == (3, 3, {"done": 2, "dead": 1})
    assert (first["folder"], first["fleet"]["done"]) == (str(folder), 2)
    assert first["errors"] == [{"outcome": "dead", "error_class": "ValueError", "rows": 1, "example": "5 is no number"}]
    assert sorted((row["n"], row["result"]) for row in pq.read_table(folder).to_pylist()) == [(1, 1), (2, 4), (5, None)]
    assert "3 rows: 0 new jobs on queue 'map-sq', 3 from earlier calls" in printed.out
    assert "results by key in headrace-data/map/sq/*.parquet" in printed.out
    assert printed.err == "next: headrace dead replay --all -q map-sq, and the same command again\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "a map needs an app to run the jobs"),
        (("--app", APP, "--kind", "squre"), "no handler for kind 'squre'; did you mean 'square'?"),
        (("--app", APP, "--name", "a/b"), "the name of a map is 'a/b'"),
        (("--app", APP, "--keep", "soon"), "keep 'soon' is not a valid duration"),
        (("--app", APP, "--to", "."), "is not a table of Headrace and was left alone"),
    ],
)
def test_wrong_arguments_of_map_are_refused_before_spark_starts(
    words: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_APP", raising=False)
    Path("numbers.csv").write_text("n\n1\n")
    command = ["pipeline", "map", "numbers.csv", "--kind", "square", "--key", "n", "--name", "sq"]

    ended = main([*command, *words, "--master", "spark://nowhere:1"])

    assert (ended, sentence in capfd.readouterr().err) == (2, True)
