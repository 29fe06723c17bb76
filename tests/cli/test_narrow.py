"""Tables in a terminal of 80 columns: a row is a line, and an id that was cut is still good for every command."""

import pytest

from headrace.cli.output import fit
from headrace.model.feed import FeedName
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, JobError, Retried
from headrace.stores.contract.store import Store
from tests.cli.job_states import claim_all, finish_all, job, kill_all
from tests.cli.support import Ran, run, with_store

WIDTH = 80
LONG, FILMS = Queue("a-queue-with-quite-a-long-name"), Queue("films")
STARTS = [f"01981234-5678-7{number}00-8000-00000000000" for number in range(6)]
KIND, TAG = "app.handlers.send_invoice", "customer-4711-of-march"


def ids(queue: Queue) -> list[str]:
    """The ids of the jobs of a queue: as UUIDs of one millisecond are."""
    return [f"{start}{len(queue.name) % 10}" for start in STARTS]


async def crowded(store: Store) -> None:
    """Jobs of two queues with long ids, kinds, tags and errors, in all states; and feeds."""
    for queue in (LONG, FILMS):
        dead, done, later, cancelled, active, waiting = ids(queue)
        await kill_all(store, [job(dead, queue=queue, kind=KIND, tag=TAG)], JobError("app.errors.Refused", "no " * 40))
        await finish_all(store, [job(done, queue=queue, kind=KIND, tag=TAG)], Done(b"1"))
        await store.jobs.enqueue([Job(queue=queue, id=later, kind=KIND, tag=TAG, delay_ms=90_000_000)])
        await store.jobs.enqueue([job(cancelled, queue=queue, kind=KIND, tag=TAG)])
        await store.jobs.cancel(queue, [cancelled])
        await store.jobs.enqueue([job(active, queue=queue, kind=KIND, tag=TAG)])
        [claim] = await claim_all(store, queue)
        await store.jobs.settle([claim.settle(Retried(JobError("E", "once"), delay_ms=0))])
        await claim_all(store, queue)
        await store.jobs.enqueue([job(active, queue=queue), job(waiting, queue=queue, kind=KIND, tag=TAG)])
        await store.queues.configure(queue, {"paused": True})
        await store.feeds.create(FeedName(f"{queue.name}-and-its-feed-of-everything"), "sorted", instance="test")


@pytest.fixture
def url(file_url: str) -> str:
    """A file with all of that."""
    with_store(file_url, crowded)
    return file_url


LISTS = [
    ("jobs", "list"),
    ("jobs", "list", "--queue", FILMS.name),
    ("jobs", "search", "app"),
    ("dead", "list"),
    ("queues",),
    ("queues", "list", "--tenant", "*"),
    ("workers",),
    ("feeds", "list"),
    ("feeds", "items", "*"),
]


def rows(ran: Ran) -> list[str]:
    """The lines of the first table below its rule."""
    rule = next(number for number, line in enumerate(ran.lines) if line.startswith("─"))
    return ran.lines[rule + 1 :]


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_every_list_fits_a_terminal_of_80_columns_line_by_line(url: str, words: tuple[str, ...]) -> None:
    narrow, piped = run(*words, url=url, terminal=True, width=WIDTH), run(*words, url=url)

    hints = 2  # what is said below a table
    assert (narrow.code, piped.code) == (0, 0)
    assert max(len(line) for line in narrow.lines[: len(piped.lines)][:-hints]) <= WIDTH
    assert 0 <= len(rows(narrow)) - len(rows(piped)) <= hints
    assert not [word for word in piped.out.split() if word.startswith("0198") and word.endswith("…")]


def test_columns_that_are_left_out_are_named_unless_they_are_empty(url: str) -> None:
    crowd, few = run("queues", url=url, terminal=True, width=WIDTH), run("workers", url=url, terminal=True, width=WIDTH)

    assert "columns left out of this narrow terminal: cancelled, done; --json shows all" in crowd.out
    assert "left out" not in few.out
    assert fit(("queue", "waiting#", "done#"), [["mail", "1,000", "0"]], 14, ("done",)).left_out == []  # type: ignore[union-attr]
    assert fit(("queue", "waiting#", "done#"), [["mail", "1,000", "7"]], 4, ("done",)) is None


@pytest.mark.parametrize("number", range(6))
def test_an_id_that_a_table_cut_is_taken_as_it_stands_there(url: str, number: int) -> None:
    id = ids(FILMS)[number]
    listed = run("jobs", "list", "--queue", FILMS.name, url=url, terminal=True, width=WIDTH)
    firsts = {line.split()[0] for line in rows(listed) if line}
    [short] = [first for first in firsts if first.endswith("…") and id.startswith(first[:-1])]

    shown = run("jobs", "show", short, "--queue", FILMS.name, "--json", url=url)
    bare = run("jobs", "show", short[:-1], "--queue", FILMS.name, url=url)
    removed = run("jobs", "remove", short[:-1] + "...", "--queue", FILMS.name, "--json", url=url)

    assert (shown.code, shown.document["id"]) == (0, id)
    assert (bare.code, bare.lines[0]) == (0, f"job {id} on queue films of tenant default")
    assert (removed.code, removed.document["jobs"][0]["id"]) == (0, id)


def test_dead_letters_results_and_cancels_take_an_id_that_was_cut(url: str) -> None:
    dead, done, later, *_ = (f"{id[:20]}…" for id in ids(FILMS))

    dead_letter = run("dead", "show", dead, "--queue", "films", "--json", url=url)
    result = run("jobs", "result", done, "--queue", "films", "--json", url=url)
    cancelled = run("jobs", "cancel", later, "--queue", "films", "--json", url=url)

    assert (dead_letter.code, dead_letter.document["id"]) == (0, ids(FILMS)[0])
    assert (result.code, result.document["id"], result.document["result"]) == (0, ids(FILMS)[1], 1)
    assert (cancelled.code, cancelled.document["statuses"]) == (0, {"cancelled": 1})


def test_a_beginning_that_several_ids_have_is_refused_with_some_of_them(url: str) -> None:
    start = "01981234"

    ran = run("jobs", "show", start, url=url)
    marked = run("jobs", "cancel", f"{start}…", "--json", url=url)

    some = ", ".join(repr(id) for id in sorted(ids(LONG) + ids(FILMS))[:5])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (f"headrace: several ids begin with '{start}': {some} and more; write more of the id\n")
    assert (marked.code, '"reason":"ambiguous_id"' in marked.err) == (2, True)


def test_an_id_that_is_gone_is_never_taken_for_the_beginning_of_another_by_what_changes_or_prints_jobs(
    file_url: str,
) -> None:
    async def two(store: Store) -> None:
        await finish_all(store, [job("order-12")], Done(b"12"))
        await finish_all(store, [job("order-1")], Done(b"1"))
        await store.jobs.remove(Queue("mail"), ["order-1"])
        await store.jobs.enqueue([job("order-12")])

    with_store(file_url, two)

    cancelled = run("jobs", "cancel", "order-1", url=file_url)
    removed = run("jobs", "remove", "order-1", url=file_url)
    result = run("jobs", "result", "order-1", url=file_url)
    shown = run("jobs", "show", "order-1", "--json", url=file_url)

    assert (cancelled.code, removed.code, result.code, result.out) == (1, 1, 1, "")
    assert (shown.document["id"], shown.document["state"]) == ("order-1", None), "the journal remembers it"


@pytest.mark.parametrize("shards", [1, 3])
def test_a_beginning_is_found_in_every_state_of_every_shard(file_url: str, shards: int) -> None:
    queue = Queue("mail", shards=shards)

    async def each(store: Store) -> None:
        await kill_all(store, [job(f"dead-{number}-x", queue=queue) for number in range(4)])
        await finish_all(store, [job(f"done-{number}-x", queue=queue) for number in range(4)], Done(b"1"))
        await store.jobs.enqueue([job(f"wait-{number}-x", queue=queue) for number in range(4)])

    with_store(file_url, each)

    for name in ("dead", "done", "wait"):
        for number in range(4):
            ran = run("jobs", "show", f"{name}-{number}", "--json", url=file_url)
            assert (ran.code, ran.document["id"]) == (0, f"{name}-{number}-x")


def test_the_column_beside_what_is_done_counts_failures_and_says_so(url: str) -> None:
    listed = run("jobs", "list", "--queue", "films", url=url)
    shown, waiting = run("jobs", "show", ids(FILMS)[1], url=url), run("jobs", "show", ids(FILMS)[4], url=url)

    assert listed.lines[0].split() == ["id", "kind", "state", "failures", "when", "tag"]
    assert "failures    0; stalls 0" in shown.lines
    assert "failures    1 of 10 attempts; stalls 0 of 3" in waiting.lines
    assert not [line for line in shown.lines if line.startswith("attempts")]
    assert [job["attempts"] for job in run("jobs", "list", "--json", url=url).document["jobs"]].count(0) > 0
