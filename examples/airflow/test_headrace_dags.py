"""The DAGs of this folder run on a store with jobs, and stop where there is nothing new."""

import os
import sqlite3
from pathlib import Path

import headrace_dags
from airflow.sdk import DAG


def states(dag: DAG) -> dict[str, str]:
    """What became of each task of a run."""
    run = dag.test()
    return {each.task_id: str(each.state) for each in run.get_task_instances()}


def test_an_hour_brings_history_tables_and_changes_and_an_hour_without_events_skips_them() -> None:
    folder = Path(os.environ["HEADRACE_PIPELINE_DIR"])

    first, second = states(headrace_dags.hourly), states(headrace_dags.hourly)

    assert first == dict.fromkeys(("history", "news", "tables", "changes", "freshness"), "success")
    assert second == {**first, "tables": "skipped", "changes": "skipped"}
    assert {each.name for each in folder.iterdir() if each.name[0] != "."} >= {"history", "jobs", "errors", "changes"}
    assert (folder / "report.html").is_file()


def test_a_night_fails_where_the_store_holds_what_its_journal_does_not_tell() -> None:
    sound = states(headrace_dags.nightly)
    with sqlite3.connect(os.environ["HEADRACE_URL"].removeprefix("sqlite:///")) as store:
        store.execute("DELETE FROM dead_letter")

    broken = states(headrace_dags.nightly)

    assert (sound, broken) == (
        {"compact": "success", "audit": "success"},
        {"compact": "success", "audit": "failed"},
    )
