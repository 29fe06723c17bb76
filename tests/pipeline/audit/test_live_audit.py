"""Promises of an audit beside running workers and other writers: all their changes are in the journal."""

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.proof.audit_load import run
from tests.proof.worker_runs import emptied

JOBS = 2_000


@pytest.mark.parametrize("name", ["redis", pytest.param("postgres", marks=pytest.mark.proof)])
def test_an_audit_beside_running_workers_finds_nothing(spark: SparkSession, name: str, tmp_path: Path) -> None:
    url = asyncio.run(emptied(name, tmp_path))

    [done] = run(spark, url, JOBS, 1, lambda _: None, at_rest=False)

    assert done.audit.findings == ()
    assert done.audit.jobs > JOBS
    assert done.settled > 0
    assert done.audit.rechecked > 0
