"""History that is killed again and again: the short form of the run. That its check can fail is shown beside the tests
of the pipeline."""

from pathlib import Path

import msgspec
import pytest

from tests.proof.spark_figures import Death, Plan, sentence
from tests.proof.spark_kills import run_kills
from tests.proof.table_kills import TablePlan, run_table_kills, table_sentence
from tests.proof.worker_runs import emptied


@pytest.mark.parametrize(
    "plan",
    [Plan((Death("writing", compacts=True),)), Plan((Death("committed", compacts=True),), is_remote=True)],
    ids=["disk", "s3"],
)
async def test_a_history_whose_processes_are_killed_is_the_journal_each_event_once(plan: Plan, tmp_path: Path) -> None:
    """While events come, files are read and others are merged; counted by Spark and by DuckDB."""
    url = await emptied("redis", tmp_path)

    figures = await run_kills(url, plan, tmp_path)

    assert figures.is_exact, sentence(figures)
    assert sum(figures.kills.values()) == 1
    assert figures.looks > 0, sentence(figures)
    assert figures.again > 0 or plan.is_remote, sentence(figures)


async def test_tables_whose_program_is_killed_within_a_commit_are_those_of_all_events(tmp_path: Path) -> None:
    plan = TablePlan(("attempts",), rounds=10)

    figures = await run_table_kills("sqlite", plan, tmp_path)

    assert figures.is_exact, table_sentence(figures)
    assert figures.has_happened(msgspec.structs.replace(plan, deaths=(None,))), table_sentence(figures)
