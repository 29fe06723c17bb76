"""The models of this folder are built from tables that the pipeline has written, and their tests pass."""

import os
import subprocess
from pathlib import Path

import duckdb
from dbt.cli.main import dbtRunner

PROJECT = Path(__file__).parent


def test_the_models_are_built_from_the_tables_of_the_pipeline(tmp_path: Path) -> None:
    os.environ["HEADRACE_DUCKDB"] = str(tmp_path / "headrace.duckdb")
    subprocess.run([os.environ["HEADRACE_COMMAND"], "pipeline", "jobs", "--json"], check=True, capture_output=True)

    where = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT)]
    paths = ["--target-path", str(tmp_path / "target"), "--log-path", str(tmp_path / "logs")]
    result = dbtRunner().invoke(["build", *where, *paths])

    with duckdb.connect(os.environ["HEADRACE_DUCKDB"]) as database:
        kinds = database.sql("select kind, jobs, done, dead from kinds order by kind").fetchall()
        retried = database.sql("select kind, deliveries from retried_jobs").fetchall()
    assert result.success, result.exception
    assert kinds == [("broken", 1, 0, 1), ("flaky", 1, 1, 0), ("ping", 3, 3, 0)]
    assert retried == [("flaky", 2)]
