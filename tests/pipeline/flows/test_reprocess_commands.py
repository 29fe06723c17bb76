"""Promises of `headrace pipeline replay` and `backfill`: they count, show and ask before they write."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.cli.main import main
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Failed, JobError
from headrace.stores.contract.store import Store
from tests.cli.support import environment
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.pipeline.writes import drain, waiting
from tests.support.terminals import Terminal

MAIL = Queue("mail", "acme")
WHERE = ["--where", "error_class = 'Timeout'"]
Run = Callable[..., tuple[str, str]]
ASKING = """
import typer
from headrace.cli.output import Output
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.reprocess import confirm_counts
from headrace.pipeline.flows.replay import ReplayReport

output = Output(json=False)
line = ProgressLine(output)
try:
    with line.running("counting"):
        report = confirm_counts(
            output,
            line,
            count=lambda: ReplayReport(found=5, died_before_ms=1, dry=True),
            size=lambda counts: counts.found,
            show=lambda counts: output.say("the groups"),
            write=lambda counts: ReplayReport(found=counts.found, replayed=5, died_before_ms=1),
            dry_run=False,
            yes=False,
        )
    output.say(report.sentence())
except typer.Abort:
    raise SystemExit(130)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with five dead letters, whose journal holds payloads."""
    url = fresh_url("sqlite", tmp_path)

    async def send(store: Store) -> None:
        await store.queues.configure(MAIL, {"journal_payloads": True})
        await store.jobs.enqueue([Job(queue=MAIL, id=f"job-{at}", kind="send", payload=b"%d" % at) for at in range(5)])

    call_store(url, send)
    drain(url, MAIL, Failed(JobError.of("Timeout", "it failed")))
    return url


@pytest.fixture
def run(
    spark: SparkSession, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_URL", url)

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        exit_code, printed = main(["pipeline", *words]), capfd.readouterr()
        assert exit_code == code, printed
        return printed.out, printed.err

    return run


def document(printed: tuple[str, str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(printed[0])
    return parsed


def test_replay_shows_the_counts_first_and_replays_after_confirmation(run: Run, url: str) -> None:
    """T36: a dry run, no terminal to confirm, --yes, and nothing left."""
    dry, _ = run("replay", *WHERE, "--dry-run")
    unanswered = run("replay", *WHERE, "--json", code=2)
    untouched = waiting(url, MAIL)
    done = document(run("replay", *WHERE, "--yes", "--delay", "1h", "--json"))
    again, _ = run("replay", *WHERE, "--yes")

    lines = dry.splitlines()
    assert lines[0].split() == ["dead", "letters", "queue", "kind", "reason", "first", "died", "last", "died", "error"]
    assert lines[2].split()[:4] == ["5", "acme/mail", "send", "failed"]
    assert lines[-1] == "5 dead letters would be replayed"
    assert (document(unanswered)["dry"], document(unanswered)["found"], untouched) == (True, 5, [])
    [message] = [json.loads(line)["message"] for line in unanswered[1].splitlines() if line.startswith("{")]
    assert message == "5 dead letters would be replayed. Do it? There is no terminal to answer in; add --yes to confirm"
    assert (done["dry"], done["found"], done["replayed"], len(waiting(url, MAIL))) == (False, 5, 5, 5)
    assert again == "no dead letter matches\n"


def test_backfill_shows_the_counts_first_and_enqueues_after_confirmation(run: Run, url: str) -> None:
    """T36: from a history with payloads."""
    run("history", "--once", "--payloads", "--json")
    words = ("backfill", "--where", "event = 'dead' and id <> 'job-0'", "--name", "again")

    dry, hint = run(*words, "--dry-run")
    untouched = waiting(url, MAIL)
    done = document(run(*words, "--yes", "--json", "--to-kind", "resend"))

    assert dry.splitlines()[2].split() == ["4", "0", "acme/mail", "send", "4"]
    assert dry.splitlines()[-1] == "4 jobs would be enqueued again"
    assert "nothing was changed; run it without --dry-run\n" in hint
    assert untouched == []
    assert (done["dry"], done["origin"], done["created"], done["missing"]) == (False, "history", 4, 0)
    assert sorted((record.kind, record.payload) for record in waiting(url, MAIL)) == [
        ("resend", b"%d" % at) for at in range(1, 5)
    ]


def test_backfill_from_a_history_without_payloads_says_what_to_do_instead(run: Run, url: str) -> None:
    run("history", "--once", "--json")
    words = ("backfill", "--where", "event = 'dead'", "--name", "again", "--yes")

    _, error = run(*words, code=2)
    preview = document(run(*words, "--payload", "id", "--limit", "1", "--dry-run", "--json"))
    done = document(run(*words, "--origin", "journal", "--json"))

    assert (
        "was written without payloads, and a job needs one; take the events from the journal (origin journal)" in error
    )
    assert (preview["jobs"], preview["missing"]) == (1, 0)
    assert (done["origin"], done["created"], done["missing"]) == ("journal", 5, 0)


def test_invalid_sql_is_one_sentence(run: Run, url: str) -> None:
    invalid = run("replay", "--where", "dead_letter > 'x'", "--yes", code=2)
    other = run("backfill", "--where", "true", "--name", "n", "--payload", "idd", "--yes", code=2)

    assert "headrace: --where \"dead_letter > 'x'\" fails on a row: cannot cast 'x' to bigint" in invalid[1]
    assert (invalid[0], "Traceback" in invalid[1]) == ("", False)
    assert "headrace: --payload 'idd' names 'idd', which does not exist; columns are tenant, queue," in other[1]
    assert waiting(url, MAIL) == []


@pytest.mark.parametrize(
    ("answer", "code", "last"), [("y", 0, "of 5 dead letters 5 replayed"), ("n", 130, "nothing was changed")]
)
def test_in_a_terminal_the_counts_and_the_question_are_shown_beside_the_progress_line(
    tmp_path: Path, answer: str, code: int, last: str
) -> None:
    """T36: with the code by which the commands ask, without Spark."""
    with Terminal([sys.executable, "-c", ASKING], cwd=tmp_path, env=environment(None)) as terminal:
        terminal.wait_for("the groups\n5 dead letters would be replayed. Do it? [y/N]:")
        terminal.type(f"{answer}\n")
        ended = terminal.end()

    assert ended == code
    assert terminal.output.rstrip().endswith(last)
