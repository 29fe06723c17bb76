"""Every command on a tenant with more queues and feeds than one page of names: what is behind the page counts too."""

import asyncio
import shutil
from pathlib import Path

import pytest

from headrace.cli.queues.configure import _queue
from headrace.inspect.lookup import queues_of
from headrace.model.feed import FeedName, Publication
from headrace.model.finished import DeadLetter
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, DURATION_MS_MAX, PAGE_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.options import SourceOptions
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.testing.faults import ForwardingStore, StoreCall
from tests.cli.job_states import claim_all, dead_letters, finish_all, job, kill_all
from tests.cli.support import run, with_store
from tests.support.stores import sqlite_url

COUNT = PAGE_MAX + 3
NAMES = [f"queue-{number:04}" for number in range(COUNT)]
FIRST, MIDDLE, LAST = Queue(NAMES[0]), Queue(NAMES[COUNT // 2]), Queue(NAMES[-1])


async def many(store: Store) -> None:
    """Queues with a waiting job each; dead letters in the first, one in the middle and the last; and in the last a job
    that is done and one that runs. As many feeds, and an item in the last."""
    for queue in (FIRST, MIDDLE, LAST):
        await kill_all(store, [job(f"dead-{queue.name}", queue=queue)])
    await finish_all(store, [job("done-last", queue=LAST)], Done(b'{"sent":true}'))
    await store.jobs.enqueue([job("active-last", queue=LAST)])
    await claim_all(store, LAST, lease_ms=DURATION_MS_MAX)
    jobs = [job(f"job-{name}", queue=Queue(name)) for name in NAMES]
    for start in range(0, COUNT, BATCH_MAX):
        await store.jobs.enqueue(jobs[start : start + BATCH_MAX])
    for number in range(COUNT):
        await store.feeds.create(FeedName(f"feed-{number:04}"), instance="test")
    await store.items.publish(FeedName(f"feed-{COUNT - 1:04}"), [Publication(b'{"n":1}', id="a")], instance="test")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store with many queues, which tests copy."""
    folder = tmp_path_factory.mktemp("many")
    with_store(sqlite_url(folder), many)
    return folder


@pytest.fixture
def many_url(built: Path, tmp_path: Path) -> str:
    """A store of the test's own with many queues."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return sqlite_url(tmp_path)


def waiting_in_all(url: str) -> int:
    """How many jobs wait, by the counters of every queue."""

    async def look(store: Store) -> int:
        return sum([(await store.queues.counts(Queue(name))).waiting for name in NAMES])

    return with_store(url, look)


def test_list_reaches_the_jobs_of_every_queue_page_by_page(many_url: str) -> None:
    pages = [run("jobs", "list", "--state", "waiting", "--limit", "800", "--json", url=many_url).document]
    while (cursor := pages[-1]["cursor"]) is not None:
        arguments = ("--state", "waiting", "--limit", "800", "--cursor", cursor, "--json")
        pages.append(run("jobs", "list", *arguments, url=many_url).document)

    assert [row["queue"] for page in pages for row in page["jobs"]] == NAMES


def test_search_looks_at_every_queue_before_it_says_that_this_is_all(many_url: str) -> None:
    by_id, none = run("jobs", "search", "job-queue-1002", url=many_url), run("jobs", "search", "nobody", url=many_url)

    assert (by_id.code, by_id.lines[2].split()[0]) == (0, "job-queue-1002")
    assert none.code == 1
    assert none.err == f"searched all {COUNT + 5:,} jobs\n"


def test_a_job_is_shown_from_whichever_queue_it_is_in(many_url: str) -> None:
    shown = run("jobs", "show", "job-queue-1002", "--json", url=many_url)
    nobody = run("jobs", "show", "nobody", url=many_url)

    assert (shown.code, shown.document["queue"]) == (0, LAST.name)
    assert (nobody.code, f"looked in the {COUNT:,} queues" in nobody.err) == (1, True)


def test_a_forgotten_job_is_found_in_the_journal_of_whichever_queue_it_was_in(many_url: str) -> None:
    with_store(many_url, lambda store: store.jobs.remove(LAST, ["done-last"]))

    shown = run("jobs", "show", "done-last", "--json", url=many_url)

    assert (shown.code, shown.document["queue"], shown.document["state"]) == (0, LAST.name, None)


def test_the_result_of_a_job_is_found_in_whichever_queue_it_is(many_url: str) -> None:
    ran = run("jobs", "result", "done-last", url=many_url)

    assert (ran.code, ran.out) == (0, '{"sent":true}\n')


@pytest.mark.parametrize(("verb", "done"), [("cancel", "cancelled"), ("remove", "removed")])
def test_a_job_that_is_named_is_reached_in_whichever_queue_it_is(many_url: str, verb: str, done: str) -> None:
    ran = run("jobs", verb, "job-queue-1002", "job-queue-0000", "--json", url=many_url)

    assert (ran.code, ran.document["statuses"]) == (0, {done: 2})
    assert waiting_in_all(many_url) == COUNT - 2


def test_cancel_all_leaves_no_job_of_any_queue_waiting(many_url: str) -> None:
    would = run("jobs", "cancel", "--all", "--dry-run", "--json", url=many_url)
    done = run("jobs", "cancel", "--all", "--yes", "--json", url=many_url)

    assert (would.code, would.document["statuses"]) == (0, {"waiting": COUNT})
    assert (done.code, done.document["statuses"], done.document["stopped_early"]) == (0, {"cancelled": COUNT}, False)
    assert waiting_in_all(many_url) == 0


def test_remove_all_leaves_no_job_of_any_queue_that_does_not_run(many_url: str) -> None:
    done = run("jobs", "remove", "--all", "--yes", "--json", url=many_url)

    assert (done.code, done.document["statuses"]) == (0, {"removed": COUNT + 4})
    assert run("jobs", "list", "--json", url=many_url).document["jobs"][0]["id"] == "active-last"
    assert waiting_in_all(many_url) == 0


def test_dead_letters_of_every_queue_are_listed_and_shown(many_url: str) -> None:
    listed = run("dead", "list", "--json", url=many_url)
    shown = run("dead", "show", "dead-queue-1002", "--json", url=many_url)
    by_key = run("dead", "show", "0:1", url=many_url)

    assert [row["queue"] for row in listed.document["dead_letters"]] == [FIRST.name, MIDDLE.name, LAST.name]
    assert (shown.code, shown.document["queue"]) == (0, LAST.name)
    assert by_key.code == 2
    assert f"{FIRST.name} and {MIDDLE.name} and {LAST.name}; choose one with --queue" in by_key.err


@pytest.mark.parametrize(("verb", "done", "waiting"), [("replay", "replayed", COUNT + 3), ("purge", "purged", COUNT)])
@pytest.mark.parametrize("named", [False, True])
def test_dead_letters_of_every_queue_are_replayed_and_purged(
    many_url: str, verb: str, done: str, waiting: int, named: bool
) -> None:
    which = [f"dead-{queue.name}" for queue in (FIRST, MIDDLE, LAST)] if named else ["--all", "--yes"]

    ran = run("dead", verb, *which, "--json", url=many_url)

    async def look(store: Store) -> list[DeadLetter]:
        return [dead_letter for queue in (FIRST, MIDDLE, LAST) for dead_letter in await dead_letters(store, queue)]

    assert (ran.code, ran.document["statuses"]) == (0, {done: 3})
    assert with_store(many_url, look) == []
    assert waiting_in_all(many_url) == waiting


def test_workers_of_every_queue_are_shown_with_all_that_they_hold(many_url: str) -> None:
    ran = run("workers", "--json", url=many_url)

    [worker] = ran.document["workers"]
    assert (ran.code, worker["queues"], worker["active"]) == (0, [FIRST.name, MIDDLE.name, LAST.name], 1)


def test_a_worker_is_shown_with_all_that_it_holds_of_one_queue(file_url: str) -> None:
    async def holding(store: Store) -> None:
        for start in (0, PAGE_MAX):
            await store.jobs.enqueue([job(f"{number:04}") for number in range(start, start + PAGE_MAX)])
            await claim_all(store)

    with_store(file_url, holding)

    [worker] = run("workers", "--json", url=file_url).document["workers"]

    assert worker["active"] == 2 * PAGE_MAX


def test_every_queue_is_listed_and_counted(many_url: str) -> None:
    ran, everybody = run("queues", url=many_url), run("queues", "list", "--tenant", "*", "--json", url=many_url)

    assert (ran.code, ran.err) == (0, "")
    assert f"{COUNT:,} queues: {COUNT:,} waiting" in ran.lines[-1]
    assert [row["queue"] for row in everybody.document["queues"]] == NAMES
    assert (everybody.document["total"]["waiting"], everybody.document["more"]) == (COUNT, False)


def test_the_last_queue_is_paused_configured_shown_purged_and_deleted_like_any_other(many_url: str) -> None:
    name = NAMES[-2]

    paused = run("queues", "pause", name, url=many_url)
    kept = run("queues", "configure", name, "priority=7", "--new", "--shards", "3", url=many_url)
    shown = run("queues", "show", name, "--json", url=many_url)
    purged = run("queues", "purge", name, "--yes", "--json", url=many_url)
    deleted = run("queues", "delete", name, "--yes", url=many_url)

    assert (paused.code, shown.code, deleted.code) == (0, 0, 0)
    assert (kept.code, "has 1 shards and keeps them; found 3" in kept.err) == (2, True)
    assert purged.document["purged"] == 1
    assert run("queues", url=many_url).lines[-1].startswith(f"{COUNT - 1:,} queues")


def test_every_feed_is_listed(many_url: str) -> None:
    ran = run("feeds", "list", "--json", url=many_url)

    assert [row["feed"] for row in ran.document["feeds"]] == [f"feed-{number:04}" for number in range(COUNT)]
    assert (ran.code, ran.document["feeds"][-1]["items"], ran.document["more"]) == (0, 1, False)


def test_the_doctor_looks_at_every_queue_and_repairs_every_one(many_url: str) -> None:
    async def over(store: Store) -> None:
        await claim_all(store, MIDDLE, now_ms=1_000)
        await claim_all(store, LAST, now_ms=1_000)

    with_store(many_url, over)

    sick = run("doctor", "--json", url=many_url)
    repaired = run("doctor", "--repair", "--json", url=many_url)

    leases = [check["found"] for check in sick.document["checks"] if check["check"] == "leases"]
    assert (sick.code, sick.document["queues"], sick.document["more_queues"]) == (1, COUNT, False)
    assert any(LAST.name in found for found in leases)
    assert (repaired.code, repaired.document["repairs"]["leases"]) == (0, 2)


def counting(store: Store, calls: list[StoreCall]) -> Store:
    """The store, with the calls that ask for names written down."""

    async def through(call: StoreCall) -> object:
        if call.name in ("queues.names", "queues.tenants", "items.list"):
            calls.append(call)
        return await call.act()

    return ForwardingStore(store, through)


def test_a_queue_that_is_named_is_asked_for_once_however_many_there_are(many_url: str) -> None:
    async def look() -> tuple[list[Queue], Queue, list[Queue], list[StoreCall]]:
        store, calls = MemoryStore(), list[StoreCall]()
        await store.jobs.enqueue([Job(queue=Queue(name), id="a", kind="send") for name in NAMES[:BATCH_MAX]])
        await store.jobs.enqueue([Job(queue=Queue(name), id="a", kind="send") for name in NAMES[BATCH_MAX:]])
        seen = counting(store, calls)
        options = SourceOptions.parse({"url": many_url, "queue": LAST.name})
        found = await queues_of(seen, "default", LAST.name), await _queue(seen, "default", LAST.name, None)
        return *found, await find_queues(seen, options), calls

    commands, configured, pipeline, calls = asyncio.run(look())

    assert (commands, configured, pipeline) == ([LAST], LAST, [LAST])
    assert [call.kwargs["limit"] for call in calls] == [1, 1, 1]


def test_the_refusal_of_an_unknown_queue_knows_the_nearest_name_behind_the_first_page(many_url: str) -> None:
    with_store(many_url, lambda store: store.queues.configure(Queue("zebra"), {"priority": 5}))

    ran = run("queues", "show", "zebar", url=many_url)

    assert (ran.code, "did you mean 'zebra'?" in ran.err) == (2, True)


def test_a_name_that_no_queue_can_have_is_refused_as_unknown_and_cut(file_url: str) -> None:
    with_store(file_url, lambda store: store.jobs.enqueue([job("a")]))

    for name in ("mail box", "ma\udcff", "m" * 100_000, "", ".fail", "\U0010ffff"):
        ran = run("jobs", "list", "--queue", name, url=file_url)
        assert (ran.code, ran.out) == (2, ""), name[:50]
        assert "tenant 'default' has no queue" in ran.err
        assert len(ran.err) < 300
