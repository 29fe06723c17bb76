"""The tables of docs/reference/journal.md are true: every event, in every variant, sets exactly those columns."""

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.model.claim import ClaimRequest
from headrace.model.event import EVENTS, LINE_COLUMNS, EventRecord
from headrace.model.limits import WORKER_SEEN_MS
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import Policy
from headrace.stores.open import open_store
from tests.support.play import BOOM, Play

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/journal.md"
COLUMNS = LINE_COLUMNS[1:]
MARKS = ("always", "may", "–")
LEASE_MS = 30_000


def table(text: str) -> dict[str, dict[str, str]]:
    """The marks of the page, by event and column."""
    marks: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if cells[0] == "event":
            header = cells[1:]
        elif cells[0] in EVENTS and set(header) <= set(COLUMNS):
            marks.setdefault(cells[0], {}).update(zip(header, cells[1:], strict=True))
    return marks


TABLE = table(PAGE.read_text("utf-8"))


async def history(tag: str | None) -> list[EventRecord]:
    """A history that has every event in every way in which it can come about."""
    store = await open_store("memory://")
    play = Play(store)
    await play.configure(journal_payloads=tag is not None)
    for tell in (finished_jobs, comings_back, deaths, blocked_jobs, leavings):
        await tell(play, tag)
    lines = [event.line for queue in (play.queue, play.queue.fail_queue) for event in await play.events(queue)]
    await store.close()
    return lines


async def finished_jobs(play: Play, tag: str | None) -> None:
    """Done and cancelled, with and without a request; removed as the last record."""
    for outcome in (Done(b"1"), Cancelled()):
        await play.settle(await play.start("end", tag=tag), outcome)
    await play.remove("end")
    for settlement in (Retried(BOOM), Released(), Cancelled(), Done()):
        claim = await play.start("asked", tag=tag)
        await play.cancel("asked", running=True)
        await play.settle(claim, settlement)
    await play.start("asked", tag=tag)
    await play.cancel("asked", running=True)
    play.advance(LEASE_MS)
    await play.repair()
    await play.enqueue("waits", tag=tag)
    await play.cancel("waits")
    await play.enqueue("later", tag=tag, delay_ms=1_000)
    await play.enqueue("later", tag=tag, policy=Policy(priority=9), update_payload=tag is not None)
    await play.cancel("later")


async def comings_back(play: Play, tag: str | None) -> None:
    """Retried, released and stalled; repaired by a sweep, by the same worker's claim and by another's."""
    outcomes: list[Outcome] = [Retried(BOOM), Retried(JobError("Empty"), 0), Released(), Released(5)]
    for outcome in outcomes:
        claim = await play.start("back", tag=tag)
        await play.settle(claim, outcome)
        await play.remove("back")
    for repairer in (None, "worker-1", "worker-2"):
        await play.start("stall", tag=tag, policy=Policy(max_stalls=9))
        play.advance(LEASE_MS)
        await (play.repair() if repairer is None else play.claim(worker=repairer))
        await play.remove("stall")


async def deaths(play: Play, tag: str | None) -> None:
    """Every reason, with and without a fail handler; then replayed, purged and swept."""
    for fail_handler in (False, True):
        await play.configure(fail_handler=fail_handler)
        await play.settle(await play.start("die", tag=tag), Failed(BOOM))
        await play.settle(await play.start("die", tag=tag, policy=Policy(max_attempts=1)), Retried(BOOM))
        await play.start("die", tag=tag, policy=Policy(max_stalls=1))
        play.advance(LEASE_MS)
        await play.claim()
        await play.enqueue("die", tag=tag, policy=Policy(expires_at_ms=play.now_ms))
        play.advance(1)
        await play.claim()
    await play.replay("die")
    await play.settle(await play.claim_one(), Failed(BOOM))
    await play.replay("die", keep_counts=True)
    await play.cancel("die")
    dead_letters = await play.dead_letters()
    await play.store.dead.purge(play.queue, [dead_letters[0].key], now_ms=play.now_ms)
    await play.configure(keep_dead_max=1)
    await play.repair()


async def blocked_jobs(play: Play, tag: str | None) -> None:
    """Blocked once and again, freed by every end, merged into every way of coming back, cancelled and removed."""
    ends: list[Outcome] = [Done(), Cancelled(), Failed(BOOM), Retried(BOOM), Released()]
    for outcome in ends:
        claim = await play.start("blocked_job", tag=tag)
        await play.enqueue("blocked_job", tag=tag, reset_counts=True)
        await play.enqueue("blocked_job", tag=tag, delay_ms=10)
        await play.settle(claim, outcome)
        await play.remove("blocked_job")
    await play.start("blocked_job", tag=tag)
    await play.enqueue("blocked_job", tag=tag)
    play.advance(LEASE_MS)
    await play.repair()
    await play.claim_one()
    await play.enqueue("blocked_job", tag=tag)
    await play.cancel("blocked_job")
    await play.remove("blocked_job")


async def leavings(play: Play, tag: str | None) -> None:
    """Purged while waiting, and in a turn that settles another job."""
    await play.enqueue("purged", tag=tag)
    await play.enqueue("purged-later", tag=tag, delay_ms=1)
    await play.store.queues.purge(play.queue, now_ms=play.now_ms)
    claim = await play.start("turned", tag=tag)
    await play.enqueue("next", tag=tag)
    play.advance(WORKER_SEEN_MS)
    request = ClaimRequest(queues=[play.queue], worker="worker-3", nonce=play.nonce())
    await play.store.jobs.turn([claim.settle(Done())], request, now_ms=play.now_ms)


def mark(column: str, lines: Sequence[EventRecord]) -> str:
    """The mark that a column deserves on these lines."""
    are_set = {getattr(line, column) is not None for line in lines}
    if len(are_set) > 1:
        return "may"
    return "always" if True in are_set else "–"


def test_the_tables_have_a_row_for_every_event_and_a_column_for_every_field() -> None:
    assert set(TABLE) == set(EVENTS)
    assert all(set(marks) == set(COLUMNS) for marks in TABLE.values())
    assert {mark for marks in TABLE.values() for mark in marks.values()} == set(MARKS)


async def test_every_event_sets_the_columns_that_the_page_says() -> None:
    """Always and never are exact; what may be set was seen both ways."""
    lines = [line for tag in (None, "vip") for line in await history(tag)]

    assert {line.event for line in lines} == set(EVENTS)
    by_event = {event: [line for line in lines if line.event == event] for event in EVENTS}
    assert {event: {column: mark(column, own) for column in COLUMNS} for event, own in by_event.items()} == TABLE


def test_the_page_lists_every_event_with_its_meaning() -> None:
    text = PAGE.read_text("utf-8").partition("## Events")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE) == list(EVENTS)
