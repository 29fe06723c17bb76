"""Promises of the demo: it ends well and in time, tells the truth, and leaves files that can be read."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest
from rich.console import Console

from headrace.cli.demo.app import KINDS
from headrace.cli.demo.command import bars, close, document, show
from headrace.cli.demo.pipeline import STEPS, DemoReport
from headrace.cli.demo.scenario import Killed, Played, kill_a_worker
from headrace.cli.main import main
from headrace.model.errors import HeadraceError
from headrace.pipeline.audit.findings import AuditReport, Finding

PATIENCE_S = 300
"""Beside other tests on two cores; by itself it takes a minute."""
PLAYED = Played(13.2, 1_500, Killed("crawler-1", 4_711, ("site/1", "site/2")))


def test_the_demo_runs_jobs_kills_a_worker_and_shows_what_spark_made_of_it(tmp_path: Path) -> None:
    """One run, since it takes a minute."""
    folder = tmp_path / "new" / "folder"
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}

    command = [sys.executable, "-m", "headrace.cli.main", "demo", "--jobs", "300", "--dir", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=PATIENCE_S)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(kind in ran.stdout for kind in (*KINDS, "headrace.fail"))
    assert [step for step in STEPS if not re.search(rf"✓ {step} .* \d+\.\d s", ran.stdout)] == []
    for sentence in ("crawler-1 (process", "CardDeclined: the bank declined the card of order <number>", "Try next:"):
        assert sentence in ran.stdout
    life = ran.stdout.partition("The events of site/")[2]
    assert re.search(r"enqueued.*claimed +crawler-1.*stalled.*claimed +crawler-2.*done", life, re.DOTALL)
    data = folder / "headrace-data"
    assert (data / "report.html").as_uri() in ran.stdout
    events = ds.dataset(sorted(data.glob("history/day=*/*.parquet")), partitioning="hive").to_table()
    places = events.group_by(["tenant", "queue", "shard", "seq"]).aggregate([]).num_rows
    assert f"{places:,} events in " in ran.stdout
    assert places == events.num_rows
    lives = ds.dataset(data / "jobs").count_rows()
    assert f"✓ jobs     {lives:,} jobs" in ran.stdout
    assert "The audit found nothing: store and journal agree on all" in ran.stdout
    assert "300 rows through jobs and back: 296 done, 4 dead" in ran.stdout
    assert re.search(r"32 +32 Nowhere +dead +LookupError: there is no street such as '32 Nowhere'", ran.stdout)
    found = ds.dataset(data / "map" / "geocode").to_table(columns=["outcome", "result"]).to_pylist()
    assert {(row["outcome"], row["result"] is None) for row in found} == {("done", False), ("dead", True)}


def printed(demo: DemoReport, audit: AuditReport) -> str:
    console = Console(file=StringIO(), width=200)
    show(console, PLAYED, demo)
    close(console, Path("/data"), demo, audit, 61.0)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_what_does_not_add_up_is_shown_with_what_to_do() -> None:
    finding = Finding(
        what="lost",
        tenant="acme",
        queue="mail",
        shard=0,
        id="order/7",
        journal="it waits",
        store="nothing",
        hint="mend",
    )
    audit = AuditReport(events=9, jobs=3, shards=1, rechecked=1, findings=(finding,))

    shown = printed(DemoReport(), audit)

    assert "The audit found 1 difference:" in shown
    assert "lost order/7: it waits, but nothing; mend" in shown


def test_seconds_without_events_are_part_of_the_timeline() -> None:
    start = datetime(2030, 1, 31, tzinfo=UTC)
    zero = dict.fromkeys(("opened", "closed", "done", "retried", "stalled", "dead"), 0)
    rows = [
        {**zero, "window_start": start, "opened": 8},
        {**zero, "window_start": start + timedelta(seconds=3), "closed": 8, "done": 8},
    ]

    shown = printed(DemoReport(timeline=rows), AuditReport(events=0, jobs=0, shards=0, rechecked=0))

    assert re.search(r"open +███ +8 *\n", shown)
    assert re.search(r"done +█ +8 /s *\n", shown)


def test_a_bar_is_as_high_as_its_number_and_never_invisible() -> None:
    assert bars([0, 1, 50, 100]) == " ▁▄█"
    assert bars([0, 0]) == "  "
    assert bars([]) == ""


def test_programs_are_given_one_document_with_the_numbers() -> None:
    audit = AuditReport(events=9, jobs=3, shards=1, rechecked=0)
    demo = DemoReport(seconds={"history": 1.5}, events=9, jobs=3, audit=audit, report=Path("/data/report.html"))

    found = msgspec.json.decode(document(Path("/data"), "sqlite:////data/headrace.db", PLAYED, demo, 61.0))

    assert (found["ok"], found["events"], found["report"]) == (True, 9, "/data/report.html")
    assert found["played"]["killed"]["jobs"] == ["site/1", "site/2"]
    assert found["audit"]["findings"] == []


@pytest.mark.parametrize("jobs", ["0", "99", "10001"])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--jobs", jobs]) == 2

    assert capsys.readouterr().err.startswith("headrace: --jobs must be from 100 to 10,000; found ")


def test_a_folder_with_something_in_it_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()

    assert main(["demo", "--dir", str(tmp_path)]) == 2

    assert "exists and is not an empty folder; name a new one, or leave it out" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


async def test_a_worker_that_ends_before_its_first_job_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    sentence = r"ended with code \d+ before it began a job; its last line was: headrace: "
    with pytest.raises(HeadraceError, match=sentence):
        await kill_a_worker(f"sqlite:///{tmp_path}/file/jobs.db")
