"""The example project for Spark Declarative Pipelines runs, run by run, with what was added meanwhile."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError
from headrace.pipeline.spark_session import redaction
from headrace.stores.contract.store import Store
from tests.pipeline.store_scenarios import run_scenario, url_of

EXAMPLE = Path(__file__).parents[2] / "examples/declarative"
PATIENCE_S = 200
MAIL = Queue("mail", "acme")
TABLES = ("events", "jobs", "outcomes", "failures")


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The project in a folder of its own, with a database there for its tables."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder)
    spec = (folder / "spark-pipeline.yml").read_text("utf-8")
    assert spec.count("file:///var/lib/headrace/declarative") == 1
    spec = spec.replace("file:///var/lib/headrace/declarative", f"file://{tmp_path}/storage\ndatabase: declared")
    (folder / "spark-pipeline.yml").write_text(spec, "utf-8")
    spark.sql(f"CREATE DATABASE declared LOCATION 'file:{tmp_path}/warehouse'")
    yield folder
    spark.sql("DROP DATABASE declared CASCADE")


def run(folder: Path, remote: str, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli", "run"],
        cwd=folder,
        env={**os.environ, "SPARK_REMOTE": remote, "HEADRACE_URL": url},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Run is COMPLETED." in done.stderr + done.stdout


def work(url: str, day: str) -> None:
    """Five jobs, of which two are done and one dies."""

    async def story(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=MAIL, id=f"{day}/{number}", kind="welcome") for number in range(5)])
        request = ClaimRequest(queues=[MAIL], worker="w", nonce=f"nonce-{day}", limit=3, lease_ms=60_000)
        first, second, third = (await store.jobs.claim(request)).items
        fail = Failed(JobError("Timeout", "no answer"))
        await store.jobs.settle([first.settle(Done(), 5), second.settle(Done(), 9), third.settle(fail, 7)])

    run_scenario(url, story)


def test_each_run_of_the_project_adds_what_has_happened_to_all_of_its_tables(
    spark: SparkSession, project: Path, remote: str, tmp_path: Path
) -> None:
    url = url_of(tmp_path / "jobs.db")

    seen = []
    for day in ("monday", "tuesday"):
        work(url, day)
        run(project, remote, url)
        for name in TABLES:  # another session has written them
            spark.catalog.refreshTable(f"declared.{name}")
        tables = {name: spark.read.table(f"declared.{name}") for name in TABLES}
        outcomes = {row.outcome: (row.jobs, row.run_ms_max) for row in tables["outcomes"].collect()}
        failures = [(row.error_class, row.failures, row.deaths) for row in tables["failures"].collect()]
        rows = tables["events"].count(), tables["events"].select("shard", "seq").distinct().count()
        seen.append((rows, tables["jobs"].count(), outcomes, sum(deaths for _, _, deaths in failures)))

    assert seen == [
        ((11, 11), 5, {"done": (2, 9), "dead": (1, 7), "open": (2, 0)}, 1),
        ((22, 22), 10, {"done": (4, 9), "dead": (2, 7), "open": (4, 0)}, 2),
    ]


def test_the_project_hides_what_our_own_sessions_hide() -> None:
    text = (EXAMPLE / "conf/spark-defaults.conf").read_text("utf-8")
    settings = dict(line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#"))

    hidden = {name: settings[name].strip().replace("\\\\", "\\") for name in redaction({})}

    assert hidden == redaction({})
