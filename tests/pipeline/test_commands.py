"""Promises of `headrace pipeline` with Spark: each command writes its files, tells of them, and ends as it should."""

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.cli.main import main
from headrace.cli.pipeline.progress import progress_text
from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Failed, JobError
from headrace.pipeline.query_progress import QueryProgress
from headrace.stores.contract.store import Store
from tests.cli.support import environment
from tests.pipeline.filled_journals import fill, fill_store
from tests.pipeline.store_scenarios import odd_story, url_of
from tests.support.terminals import Terminal

ODD = Queue("odd", "acme", 2)
Run = Callable[..., str]
Read = Callable[..., dict[str, Any]]


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store in which everything has happened once, in a folder where commands are run."""
    url = url_of(tmp_path / "jobs.db")
    fill_store(url, lambda store: odd_story(store, ODD))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_URL", url)
    return url


@pytest.fixture
def run(here: str, capfd: pytest.CaptureFixture[str]) -> Run:
    def ran(*words: str, code: int = 0) -> str:
        ended, output = main(["pipeline", *words]), capfd.readouterr()
        assert (ended, re.sub(r"(?m)^(next|watch it with|open it in a browser): .*\n", "", output.err)) == (code, "")
        return output.out

    return ran


@pytest.fixture
def read(run: Run) -> Read:
    def ran(*words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run(*words, "--json"))
        return found

    return ran


def test_a_day_of_the_pipeline(read: Read, run: Run, tmp_path: Path) -> None:
    """T36: history, then every table of it, the report, and an audit; programs are told what people read."""
    data_dir = tmp_path / "headrace-data"

    history, again = read("history", "--once", "--events-max", "20"), read("history", "--once")
    compacted, jobs, errors = read("compact"), read("jobs"), read("errors", "--samples", "1", "--limit", "1")
    usage, stats, report = read("usage"), read("stats", "--once", "--window", "10s"), read("report", "--title", "Odd")
    audit = read("audit")

    events = DeltaTable(data_dir / "history").count()
    assert (history["events"], history["behind"], again["events"]) == (events, 0, 0)
    assert history["batches"] > 1
    assert compacted["files_after"] < compacted["files_before"]
    assert {found["origin"] for found in (jobs, errors, usage, stats)} == {"history"}
    for name, found in (("jobs", jobs), ("attempts", jobs), ("errors", errors), ("usage", usage)):
        assert found["tables"][name] == {
            "folder": str(data_dir / name),
            "rows": DeltaTable(data_dir / name).count(),
        }
    assert sum(row["jobs"] for row in jobs["kinds"]) == jobs["tables"]["jobs"]["rows"]
    assert (len(errors["errors"]), len(errors["errors"][0]["sample_jobs"])) == (1, 1)
    assert sum(row["events"] for row in usage["usage"]) == events
    assert stats["items"] == stats["tables"]["stats"]["changed"] == stats["tables"]["stats"]["rows"] > 0
    assert report == {"report": str(data_dir / "report.html"), "bytes": (data_dir / "report.html").stat().st_size}
    assert (audit["events"] >= events, audit["findings"]) == (True, [])


def test_people_are_shown_the_top_of_a_table_and_where_the_rest_is(run: Run) -> None:
    jobs = run("jobs", "--limit", "2").splitlines()
    errors = run("errors").splitlines()

    assert jobs[0].split()[:3] == ["queue", "kind", "jobs"]
    assert [line.split()[0] for line in jobs[2:4]] == ["acme/odd", "acme/odd"]
    assert re.fullmatch(r"and \d+ more; --limit shows them", jobs[4])
    assert re.fullmatch(r"from \d+ events of the journal:", jobs[5])
    assert [line.split("in ")[1] for line in jobs[6:]] == [
        "headrace-data/jobs",
        "headrace-data/attempts",
    ]
    assert 'Odd"Error: first line' in errors[2]


def test_error_messages_are_printed_without_secrets_and_a_replaced_table_is_named(
    here: str, capfd: pytest.CaptureFixture[str]
) -> None:
    message = "no answer from redis://me:hunter2@cache:6379, token=abc123"
    fill_store(here, lambda store: fail_one(store, Queue("mail", "birch"), message))

    code = main(["pipeline", "errors", "--tenant", "birch"])
    shown, hinted = capfd.readouterr()
    assert main(["pipeline", "errors", "--tenant", "birch", "--json"]) == code == 0
    document = capfd.readouterr().out

    assert "errors now holds tenant birch alone; another --dir keeps both" in hinted
    assert "token=…" in shown
    assert [secret for secret in ("hunter2", "abc123") if secret in shown + document] == []


async def fail_one(store: Store, queue: Queue, message: str) -> None:
    await store.jobs.enqueue([Job(queue=queue, id="a", kind="k")])
    [claim] = (await store.jobs.claim(ClaimRequest(queues=[queue], worker="w", nonce="nonce-fail"))).items
    await store.jobs.settle([claim.settle(Failed(JobError.of("OSError", message)), 1)])


def test_a_report_of_a_queue_or_a_tenant_shows_it_alone_and_says_what_the_tables_hold_now(
    here: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill_store(here, lambda store: odd_story(store, Queue("web", "birch")))
    page = tmp_path / "headrace-data" / "report.html"

    codes, pages = [], []
    for words in ([], ["--as-is", "--queue", "odd"], ["--tenant", "acme"]):
        codes.append(main(["pipeline", "report", *words]))
        pages.append(page.read_text())

    assert codes == [0, 0, 0]
    assert "jobs, attempts, errors and usage now hold tenant acme alone" in capfd.readouterr().err
    assert [scope for scope in ("only queue odd", "only tenant acme") if scope in pages[0]] == []
    assert "only queue odd" in pages[1]
    assert "only tenant acme" in pages[2]
    assert ["birch" in each for each in pages] == [True, False, False]


def test_an_audit_with_findings_lists_them_and_exits_with_1(run: Run, here: str) -> None:
    with closing(sqlite3.connect("jobs.db", isolation_level=None)) as file:
        file.execute("delete from job")

    output = run("audit", code=1)

    assert "lost" in output
    assert "1 difference (" in output or "differences (" in output


def test_in_a_terminal_history_shows_how_far_it_is_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    """T36: the line that moves, a closing line, and 130, by the program itself."""
    url = url_of(tmp_path / "jobs.db")
    fill_store(url, fill(Queue("mail"), 30))
    command = [sys.executable, "-m", "headrace.cli.main", "pipeline", "history", "--every", "100ms"]

    with Terminal(command, cwd=tmp_path, env=environment(url)) as terminal:
        terminal.wait_for("30 events · no backlog")
        fill_store(url, fill(Queue("mail"), 5, since=30))
        terminal.wait_for("35 events · no backlog")
        terminal.type("\x03")
        code = terminal.end()

    assert code == 130
    assert "starting Spark" in terminal.output
    assert re.search(r"\nhistory: 35 events in .* s \(\d+/s\); no backlog\n", terminal.output)
    assert terminal.output.rstrip().endswith("next: headrace pipeline jobs, or headrace pipeline report")
    assert pq.read_table(tmp_path / "headrace-data/history", partitioning=None).num_rows == 35


def test_the_progress_of_a_stream_has_its_pace_and_the_time_left() -> None:
    progress = QueryProgress(batches=3, events=12_000, events_per_s=2_000.0, behind=30_000)

    assert progress_text(progress) == "12,000 events · 2,000/s · 30,000 behind, 15.0 s left"
    assert progress_text(QueryProgress(events=1, behind=0)) == "1 event · no backlog"


def test_history_and_tables_lie_on_object_storage(run: Run, read: Read, bucket: str) -> None:
    where = ("--dir", f"{bucket}/data")

    written = read("history", "--once", *where)
    jobs = read("jobs", *where)
    again = run("history", "--once", *where)
    compacted = read("compact", *where)

    assert written["events"] > 0
    assert written["history"] == f"{bucket}/data/history"
    assert jobs["origin"] == "history"
    assert jobs["tables"]["jobs"]["folder"] == f"{bucket}/data/jobs"
    assert jobs["tables"]["jobs"]["rows"] > 0
    assert f"{bucket}/data/history" in again
    assert compacted["files_after"] <= 1
