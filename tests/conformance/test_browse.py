"""Browse: jobs in the order in which people look for them, page by page, and how many are ahead of one."""

from itertools import pairwise
from typing import Any

import pytest

from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import AHEAD_IDS_MAX, AHEAD_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done
from headrace.model.policy import Policy
from headrace.model.results import Found, View
from tests.support.play import Play

VIEWS: tuple[View, ...] = ("next", "later", "active", "blocked", "finished", "dead")


async def browse(play: Play, view: View, limit: int = 100) -> list[Found]:
    """All rows of a view, page by page."""
    found: list[Found] = []
    cursor: str | None = None
    for _ in range(200):
        page = await play.store.reads.browse(play.queue, view, cursor=cursor, limit=limit, now_ms=play.now_ms)
        assert len(page.rows) <= limit
        found += page.rows
        cursor = page.cursor
        if cursor is None:
            return found
    pytest.fail("the view does not end")


async def ids(play: Play, view: View, limit: int = 100) -> list[str]:
    """The ids of a view."""
    return [each.id for each in await browse(play, view, limit)]


async def finish(play: Play, id: str, *, cancelled: bool = False, **options: Any) -> None:
    """Enqueue a job and let it end."""
    await play.settle(await play.start(id, **options), Cancelled() if cancelled else Done(b"result"))


async def fill(play: Play) -> None:
    """Seven rows for every view, in all shards."""
    for number in range(7):
        await play.die(f"dead-{number}")
        await finish(play, f"done-{number}", policy=Policy(result_ttl_ms=3_600_000 if number % 3 == 0 else None))
        play.advance(10)
    for number in range(7):
        await play.start(f"active-{number}", lease_ms=10_000 + number)
        await play.enqueue(f"active-{number}")
    for number in range(7):
        await play.enqueue(f"ready-{number}", payload=b"[1]")
        await play.enqueue(f"later-{number}", delay_ms=1_000 + number % 3)


# The order of each view.


async def test_next_is_the_order_in_which_jobs_are_handed_out(play: Play) -> None:
    first, second, third, fourth = play.ids(4)
    await play.enqueue(first, policy=Policy(priority=1))
    await play.enqueue(second)
    await play.enqueue(third, policy=Policy(priority=9))
    await play.enqueue(fourth)

    found = await ids(play, "next")

    assert found == [third, second, fourth, first] == await play.claim_ids()


async def test_next_goes_by_priority_over_all_shards(play: Play) -> None:
    for number in range(20):
        await play.enqueue(f"job-{number}", policy=Policy(priority=number % 4))

    found = await browse(play, "next", limit=3)

    priorities = [each.record.policy.priority or 0 for each in found if each.record is not None]
    assert priorities == sorted(priorities, reverse=True)
    assert len(priorities) == 20


async def test_later_goes_by_the_time_at_which_jobs_are_due_then_by_id(play: Play) -> None:
    delays = {"e": 50, "d": 30, "c": 40, "b": 30, "a": 30}
    for id, delay_ms in delays.items():
        await play.enqueue(id, delay_ms=delay_ms)

    assert await ids(play, "later", limit=2) == ["a", "b", "d", "c", "e"]


async def test_active_goes_by_the_end_of_the_lease_then_by_id(play: Play) -> None:
    leases = {"a": 3_000, "e": 1_000, "b": 2_000, "d": 2_000, "c": 2_000}
    for id, lease_ms in leases.items():
        await play.start(id, lease_ms=lease_ms, worker="worker-7")

    found = await browse(play, "active", limit=2)

    assert [each.id for each in found] == ["e", "b", "c", "d", "a"]
    assert {(each.state, each.worker) for each in found} == {(State.ACTIVE, "worker-7")}


async def test_active_shows_the_job_that_is_blocked_by_each(play: Play) -> None:
    await play.start("a")
    await play.enqueue("a", kind="other")
    await play.start("b")

    found = {each.id: each.blocked_job for each in await browse(play, "active")}

    assert found["b"] is None
    assert found["a"] is not None
    assert found["a"].kind == "other"


async def test_blocked_shows_active_jobs_that_have_a_blocked_job(play: Play) -> None:
    for id in ("c", "a", "b"):
        await play.start(id)
    for id in ("c", "a"):
        await play.enqueue(id)

    assert sorted(await ids(play, "blocked", limit=1)) == ["a", "c"]


async def test_finished_shows_the_newest_first_whether_they_are_pinned_or_not(play: Play) -> None:
    """However long each is kept: a job that ended just now is not behind one that is kept longer."""
    ttls = {"a": None, "b": 9_000_000, "c": 5_000, "d": None, "e": 60_000, "f": 9_000_000}
    for id, ttl_ms in ttls.items():
        await finish(play, id, cancelled=id == "d", policy=Policy(result_ttl_ms=ttl_ms))
        play.advance(1)

    found = await browse(play, "finished", limit=2)

    assert [each.id for each in found] == ["f", "e", "d", "c", "b", "a"]
    assert [each.state for each in found].count(State.CANCELLED) == 1


async def test_a_job_that_finishes_again_is_the_newest(play: Play) -> None:
    for id in ("a", "b", "a"):
        await finish(play, id, policy=Policy(result_ttl_ms=60_000))
        play.advance(1)

    assert await ids(play, "finished") == ["a", "b"]


async def test_finished_passes_over_jobs_that_were_removed(play: Play) -> None:
    for number in range(30):
        await finish(play, f"job-{number:02}")
        play.advance(1)
    for number in range(25):
        await play.remove(f"job-{number:02}")

    assert await ids(play, "finished", limit=2) == [f"job-{number}" for number in range(29, 24, -1)]


async def test_dead_shows_every_dead_letter_the_newest_first(play: Play) -> None:
    keys = []
    for id in ("a", "b", "a", "c"):
        keys.append(await play.die(id))
        play.advance(1)

    found = await browse(play, "dead", limit=2)

    assert [each.dead_letters[0].key for each in found] == keys[::-1]
    assert [each.id for each in found] == ["c", "a", "b", "a"]


# Pages.


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_the_pages_of_a_view_show_every_row_once_in_order(play: Play, view: View, limit: int) -> None:
    await fill(play)

    found = await ids(play, view, limit)

    prefix = {"next": "ready", "blocked": "active", "finished": "done"}.get(view, view)
    assert sorted(found) == [f"{prefix}-{number}" for number in range(7)]
    assert found == await ids(play, view)


async def test_a_view_leaves_out_payloads_and_results(play: Play) -> None:
    await fill(play)

    found = [each for view in VIEWS for each in await browse(play, view)]

    records = [each.record for each in found if each.record] + [each.blocked_job for each in found if each.blocked_job]
    assert {record.payload for record in records} == {b""}
    assert {each.finished_job.result for each in found if each.finished_job} == {None}
    assert {each.dead_letters[0].record.payload for each in found if each.dead_letters} == {b""}


async def test_jobs_that_stay_are_seen_once_while_others_come_and_go(play: Play) -> None:
    for number in range(12):
        await play.enqueue(f"job-{number:02}")
    first = await play.store.reads.browse(play.queue, "next", limit=4, now_ms=play.now_ms)
    gone = {claim.record.id for claim in await play.claim(6)}
    await play.enqueue("new", policy=Policy(priority=9))

    seen = [each.id for each in first.rows]
    cursor = first.cursor
    while cursor is not None:
        page = await play.store.reads.browse(play.queue, "next", cursor=cursor, limit=4, now_ms=play.now_ms)
        seen += [each.id for each in page.rows]
        cursor = page.cursor

    stayed = {f"job-{number:02}" for number in range(12)} - gone
    assert {id for id in seen if id in stayed} == stayed
    assert len(seen) == len(set(seen))


async def test_newer_rows_do_not_disturb_the_pages_of_what_has_ended(play: Play) -> None:
    for number in range(6):
        await finish(play, f"done-{number}")
        await play.die(f"dead-{number}")
        play.advance(1)
    for view in ("finished", "dead"):
        page = await play.store.reads.browse(play.queue, view, limit=3, now_ms=play.now_ms)
        await finish(play, f"new-{view}")
        await play.die(f"new-{view}")

        seen = [each.id for each in page.rows]
        while page.cursor is not None:
            page = await play.store.reads.browse(play.queue, view, cursor=page.cursor, limit=3, now_ms=play.now_ms)
            seen += [each.id for each in page.rows]

        prefix = "done" if view == "finished" else "dead"
        assert [id for id in seen if id.startswith(prefix)] == [f"{prefix}-{number}" for number in range(5, -1, -1)]


async def test_rows_past_their_retention_are_not_shown_before_they_are_swept(play: Play) -> None:
    await play.configure(keep_done_ms=1_000, keep_dead_ms=1_000)
    await finish(play, "old")
    await play.die("old-dead")
    play.advance(999)
    assert (await ids(play, "finished"), await ids(play, "dead")) == (["old"], ["old-dead"])

    play.advance(1)

    assert (await ids(play, "finished"), await ids(play, "dead")) == ([], [])


async def test_a_view_of_an_unknown_queue_is_empty(play: Play) -> None:
    for view in VIEWS:
        assert await browse(play, view) == []


async def test_a_cursor_is_refused_by_other_views_and_for_other_numbers_of_shards(play: Play) -> None:
    await fill(play)
    reads = play.store.reads
    cursors = {view: (await reads.browse(play.queue, view, limit=1, now_ms=play.now_ms)).cursor for view in VIEWS}

    for view, other in pairwise([*VIEWS, VIEWS[0]]):
        if view != "blocked" and other != "blocked":
            with pytest.raises(Refused, match="cursor"):
                await reads.browse(play.queue, other, cursor=cursors[view])
    for view in ("finished", "dead"):
        with pytest.raises(Refused):
            await reads.browse(Queue("mail", "acme", 7), view, cursor=cursors[view])
    for cursor in ("", "x", "AAAA", "é" * 10, "A" * 5_000):
        with pytest.raises(Refused, match="cursor"):
            await reads.browse(play.queue, "next", cursor=cursor)


async def test_an_unknown_view_is_refused_by_name(play: Play) -> None:
    with pytest.raises(Refused, match="'soon' is not a view; use one of next, later"):
        await play.store.reads.browse(play.queue, "soon")  # type: ignore[arg-type]


# Jobs ahead.


async def ahead(play: Play, *ids: str) -> list[int | None]:
    """The number of jobs ahead of each."""
    found = await play.store.reads.find(play.queue, ids, ahead=True, now_ms=play.now_ms)
    return [None if each is None else each.ahead for each in found]


async def test_the_jobs_ahead_of_one_are_those_before_it_in_the_view_next(play: Play) -> None:
    for number in range(15):
        await play.enqueue(f"job-{number}", policy=Policy(priority=number % 3))

    order = await ids(play, "next")

    assert await ahead(play, *order) == list(range(15))


async def test_only_a_ready_job_has_jobs_ahead(play: Play) -> None:
    await play.start("active")
    await play.enqueue("active")
    await finish(play, "done")
    await play.die("dead")
    await play.enqueue("later", delay_ms=1_000)
    await play.enqueue("ready")

    assert await ahead(play, "active", "done", "dead", "later", "unknown", "ready") == [None] * 5 + [0]


async def test_jobs_ahead_are_counted_on_request_only(play: Play) -> None:
    await play.enqueue("a")

    assert (await play.found("a")).ahead is None


async def test_more_jobs_ahead_than_are_counted_are_not_given(play: Play) -> None:
    total = 0
    while total <= AHEAD_MAX:
        await play.enqueue_all(*(play.job(f"first-{total + number}") for number in range(1_000)))
        total += 1_000
    await play.enqueue("last", policy=Policy(priority=0))
    order_at_max = await ahead(play, "last")
    await play.claim(total - AHEAD_MAX)

    assert order_at_max == [None]
    assert await ahead(play, "last") == [AHEAD_MAX]


async def test_jobs_ahead_are_counted_for_a_few_ids_at_a_time(play: Play) -> None:
    with pytest.raises(Refused, match="at most 20"):
        await ahead(play, *(f"job-{number}" for number in range(AHEAD_IDS_MAX + 1)))
