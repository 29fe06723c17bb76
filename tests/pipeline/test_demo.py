"""Promises of the demo: it ends well, tells the truth, and leaves files that can be read."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.cli.demo.command import compare
from headrace.cli.demo.show import Check
from headrace.cli.demo.story import KINDS, Work, play
from headrace.cli.main import main
from headrace.model.clock import ManualClock
from headrace.model.event import EVENTS
from headrace.stores.open import open_store


def demo(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli.main", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_demo_prints_tables_and_says_that_journal_and_store_agree(tmp_path: Path) -> None:
    ran = demo("--dir", str(tmp_path / "new" / "folder"))

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "All 25 numbers that Spark read from the journal equal the store's own." in ran.stdout
    assert all(
        title in ran.stdout for title in ("What became of the jobs", "Waiting and running", "Attempts", "Deaths")
    )
    assert all(kind in ran.stdout for kind in KINDS)
    assert all(reason in ran.stdout for reason in ("attempts", "stalls", "failed", "expired"))
    assert f"sqlite:///{tmp_path}/new/folder/jobs.db" in ran.stdout
    assert "Try next" in ran.stdout


def test_the_demo_gives_one_json_document_for_programs(tmp_path: Path) -> None:
    ran = demo("--json", "--jobs", "60", "--dir", str(tmp_path))

    told = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert told["ok"] is True
    assert told["checks"][0] == {
        "what": "events",
        "journal": told["summary"]["events"],
        "store": told["summary"]["events"],
    }
    assert all(check["journal"] == check["store"] for check in told["checks"])
    assert pq.read_table(told["table"]).num_rows == told["summary"]["jobs"] >= 60


def test_the_story_has_every_outcome_and_nearly_every_event() -> None:
    clock, work = ManualClock(1_000_000_000), Work()

    async def story() -> set[str]:
        seen: set[str] = set()
        store = await open_store("memory://", clock=clock)
        await play(store, 400, work, clock)
        for queue in work.queues.values():
            for shard in queue.all_shards():
                upto = (await store.journal.bounds(shard)).last_seq
                entries = await store.journal.read(shard, 0, upto)
                seen |= {event.line.event for entry in entries for event in entry.events(shard)}
        return seen

    assert set(EVENTS) - asyncio.run(story()) == {"merged", "released", "asked", "removed", "purged"}


def test_the_story_is_the_same_each_time() -> None:
    async def story() -> list[object]:
        clock, work = ManualClock(1_000_000_000), Work()
        store = await open_store("memory://", clock=clock)
        deliveries = await play(store, 100, work, clock)
        return [
            deliveries,
            clock.now_ms(),
            *[await store.queues.counts(queue, now_ms=1) for queue in work.queues.values()],
        ]

    assert asyncio.run(story()) == asyncio.run(story())


def test_a_number_that_differs_is_seen() -> None:
    clock, work = ManualClock(1_000_000_000), Work()

    async def story() -> list[Check]:
        store = await open_store("memory://", clock=clock)
        await play(store, 50, work, clock)
        return await compare(store, 3, [{"tenant": "acme", "queue": "mail", "open": 99}], clock)

    checks = {check.what: check for check in asyncio.run(story())}

    assert checks["events"].journal == 3 != checks["events"].store
    assert checks["acme/mail open"].journal == 99 != checks["acme/mail open"].store
    assert checks["birch/media done"].journal == 0 != checks["birch/media done"].store


@pytest.mark.parametrize("jobs", ["0", "-1", "100001"])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--jobs", jobs]) == 2

    assert capsys.readouterr().err.startswith("headrace: --jobs must be from 1 to 100,000; found ")


def test_a_folder_with_something_in_it_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()

    assert main(["demo", "--dir", str(tmp_path)]) == 2

    assert "exists and is not an empty folder; name a new one, or leave it out" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
