"""`headrace jobs cancel` and `jobs remove`: by id, and by filter in bounded steps."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from headrace.cli.bulk import Apply, BulkAction, StatusTally, act_on_matches, report
from headrace.cli.jobs.options import JobSelection, TargetJob
from headrace.cli.output import Output
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.job import Job, State
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.model.results import Found, Page
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from tests.cli.job_states import MAIL, claim_all, dead_letters, finish_all, job, kill_all, list_state
from tests.cli.support import Ran, run, with_store

OTHER = Queue("other")


def cancelling(apply: Apply[TargetJob]) -> BulkAction[TargetJob]:
    """A cancel by a function of the test's own."""
    return BulkAction(
        verb="cancel",
        noun="job",
        apply=apply,
        foresee=apply,
        dry_label="would cancel",
        succeeded=frozenset(("cancelled",)),
        reports_looked=True,
    )


def waiting_jobs(older_than: str | None = None) -> JobSelection:
    """The waiting jobs of all queues."""
    states = (State.WAITING,)
    return JobSelection(older_than=older_than, scanned_states=states)


async def a_few(store: Store) -> None:
    """A job that is done, one that is active with a blocked job, and two that wait, one of them elsewhere."""
    await finish_all(store, [job("done")], Done())
    await store.jobs.enqueue([job("active")])
    await claim_all(store)
    await store.jobs.enqueue([job("active", kind="again"), job("waiting")])
    await store.jobs.enqueue([job("waiting-too", queue=OTHER), job("waiting", queue=Queue("else"))])


def test_cancel_tells_of_each_id_what_became_of_it(url: str) -> None:
    """Ids are found wherever they are, and answered one by one."""
    with_store(url, a_few)

    some = run("jobs", "cancel", "waiting-too", "done", "nobody", url=url)
    blocked_job = run("jobs", "cancel", "active", "--json", url=url)
    left = run("jobs", "cancel", "active", url=url)
    stopped = run("jobs", "cancel", "active", "--running", "--json", url=url)

    assert (some.code, some.err) == (1, "")
    assert [line.split() for line in some.lines[2:]] == [
        ["waiting-too", "other", "waiting", "cancelled"],
        ["done", "mail", "done", "not", "found"],
        ["nobody", "–", "–", "not", "found"],
    ]
    assert (blocked_job.code, blocked_job.document["statuses"]) == (0, {"cancelled": 1})
    assert (left.code, left.lines[2].split()) == (1, ["active", "mail", "active", "active"])
    assert left.err == "active jobs were left alone; --running asks them to stop\n"
    assert stopped.document["jobs"] == [{"id": "active", "queue": "mail", "status": "asked", "state": "active"}]


def test_an_id_in_two_queues_is_left_alone_until_one_is_named(file_url: str) -> None:
    with_store(file_url, a_few)

    refused = run("jobs", "cancel", "waiting", "waiting-too", url=file_url)
    dry = run("jobs", "cancel", "waiting", "--queue", "mail", "--dry-run", url=file_url)
    kept = with_store(file_url, lambda store: list_state(store, State.WAITING))
    named = run("jobs", "cancel", "waiting", "--queue", "mail", url=file_url)

    assert refused == Ran(2, "", "headrace: job 'waiting' is in the queues else and mail; choose one with --queue\n")
    assert (dry.code, dry.lines[2].split()) == (0, ["waiting", "mail", "waiting", "found"])
    assert [found.id for found in kept] == ["waiting"]
    assert named.code == 0
    assert [found.id for found in with_store(file_url, lambda store: list_state(store, State.WAITING, OTHER))]
    assert [found.id for found in with_store(file_url, lambda store: list_state(store, State.WAITING, Queue("else")))]


def test_what_says_nothing_or_two_things_is_refused(file_url: str) -> None:
    with_store(file_url, a_few)

    nothing = run("jobs", "cancel", "--queue", "mail", url=file_url)
    both = run("jobs", "remove", "waiting", "--kind", "send", url=file_url)
    over = run("jobs", "cancel", "--state", "done", "--yes", url=file_url)
    blocked = run("jobs", "remove", "--state", "blocked", "--yes", url=file_url)

    assert nothing.err == (
        "headrace: no jobs to cancel were selected; give ids, or --kind, --tag, --state or --older-than, or --all\n"
    )
    assert both.err == "headrace: remove takes ids or a filter, not both; leave one out\n"
    assert over.err == "headrace: done jobs have ended; cancel waiting, blocked or active ones\n"
    assert "use jobs cancel" in blocked.err
    assert {ran.code for ran in (nothing, both, over, blocked)} == {2}


async def many(store: Store) -> None:
    """2,500 jobs of which 2,300 are to go; one more of that kind is active, and one of them elsewhere."""
    await store.jobs.enqueue([job("running", kind="old")])
    await claim_all(store)
    rows = [job(f"{number:05}", kind="old" if number < 2_300 else "new") for number in range(2_500)]
    for start in (0, 1_000, 2_000):
        await store.jobs.enqueue(rows[start : start + 1_000])
    await store.jobs.enqueue([job("elsewhere", queue=OTHER, kind="old")])


def test_cancel_by_filter_counts_first_and_then_goes_in_steps(url: str) -> None:
    with_store(url, many)

    dry = run("jobs", "cancel", "--kind", "old", "--queue", "mail", "--dry-run", url=url)
    unanswered = run("jobs", "cancel", "--kind", "old", "--queue", "mail", url=url)
    untouched = with_store(url, lambda store: store.queues.counts(MAIL))
    done = run("jobs", "cancel", "--kind", "old", "--queue", "mail", "--yes", "--json", url=url)
    left = with_store(url, lambda store: store.queues.counts(MAIL))
    again = run("jobs", "cancel", "--kind", "old", "--queue", "mail", "--yes", url=url)

    assert dry == Ran(0, "would cancel: 2,300 waiting; scanned 2,500 jobs\n", "")
    assert unanswered == Ran(
        2,
        "",
        "headrace: Cancel 2,300 jobs of queue mail of tenant default (kind old)? There is no terminal to answer in; add"
        " --yes to confirm\n",
    )
    assert (untouched.waiting, untouched.active) == (2_500, 1)
    assert done.document == {
        "action": "cancel",
        "dry_run": False,
        "matched": 2_300,
        "statuses": {"cancelled": 2_300},
        "looked": 2_500,
        "stopped_early": False,
    }
    assert (left.waiting, left.active, left.cancelled) == (200, 1, 2_300)
    assert again == Ran(0, "no job matches; scanned 200 jobs\n", "")
    assert with_store(url, lambda store: store.queues.counts(OTHER)).waiting == 1


def test_a_person_is_asked_before_jobs_go_by_filter(file_url: str) -> None:
    with_store(file_url, a_few)

    no = run("jobs", "remove", "--all", url=file_url, terminal=True, input="n\n")
    kept = with_store(file_url, lambda store: store.queues.counts(OTHER)).waiting
    yes = run("jobs", "remove", "--all", url=file_url, terminal=True, input="y\n")

    assert (no.code, kept) == (130, 1)
    assert "Remove 4 jobs of all queues of tenant default? [y/N]" in no.out
    assert (yes.code, yes.lines[-1]) == (0, "4 removed; scanned 4 jobs")
    assert with_store(file_url, lambda store: store.queues.counts(MAIL)).active == 1


def test_running_jobs_are_asked_by_filter_only_when_they_match_themselves(file_url: str) -> None:
    """The blocked job of an active job matches and goes; the active one is of another kind and goes on."""
    with_store(file_url, a_few)

    blocked_jobs = run("jobs", "cancel", "--kind", "again", "--running", "--yes", url=file_url)
    [first] = with_store(file_url, lambda store: list_state(store, State.ACTIVE))
    rest = run("jobs", "cancel", "--state", "active", "--running", "--yes", url=file_url)
    [second] = with_store(file_url, lambda store: list_state(store, State.ACTIVE))

    assert blocked_jobs.out.startswith("1 cancelled; scanned ")
    assert (first.blocked_job, first.cancel_asked) == (None, False)
    assert rest == Ran(0, "1 asked; scanned 1 job\n", "")
    assert second.cancel_asked


def test_remove_by_state_spares_an_id_that_lives_on(url: str) -> None:
    """An id that is done and waits anew, or is dead and waits anew, counts as waiting."""

    async def prepare(store: Store) -> None:
        await finish_all(store, [job("done"), job("done-too")], Done())
        await kill_all(store, [job("dead"), job("dead-twice")])
        await store.jobs.enqueue([job("dead-twice")])
        await store.jobs.enqueue([job("busy")])
        claims = await claim_all(store)
        await store.jobs.enqueue([job("busy")])
        await store.jobs.settle([claim.settle(Done()) for claim in claims if claim.record.id == "busy"])

    with_store(url, prepare)

    done = run("jobs", "remove", "--state", "done", "--yes", url=url)
    dead = run("jobs", "remove", "--state", "dead", "--yes", "--json", url=url)
    named = run("jobs", "remove", "busy", "nobody", "--json", url=url)

    assert done == Ran(0, "2 removed; scanned 3 jobs\n", "")
    assert (dead.document["statuses"], dead.document["looked"]) == ({"removed": 1}, 2)
    assert (named.code, named.document["statuses"]) == (1, {"removed": 1, "not_found": 1})
    assert [dead_letter.record.id for dead_letter in with_store(url, dead_letters)] == ["dead-twice"]
    assert [found.id for found in with_store(url, lambda store: list_state(store, State.ACTIVE))] == ["dead-twice"]


class GrowingReads:
    """Reads of a queue that gets a page of new jobs, behind all others, whenever somebody looks."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._inner = store.reads
        self.looks = 0

    async def list(self, queue: Queue, state: State, **options: Any) -> Page[Found]:
        self.looks += 1
        new = [Job(queue=queue, id=f"z{self.looks:05}{number:04}", kind="send") for number in range(1_000)]
        await self._store.jobs.enqueue(new)
        return await self._inner.list(queue, state, **options)


async def test_an_action_ends_although_jobs_come_faster_than_it_looks_at_them() -> None:
    store = MemoryStore()
    await store.jobs.enqueue([job(f"a{number}") for number in range(500)], now_ms=1_000)
    growing = GrowingReads(store)
    store.reads = growing  # type: ignore[assignment]
    touched: list[str] = []

    async def apply(_: Store, queue: Queue, jobs: Sequence[TargetJob]) -> list[str]:
        touched.extend(job.id for job in jobs)
        return ["cancelled"] * len(jobs)

    selection = waiting_jobs(older_than="1000")
    tally = await act_on_matches(store, cancelling(apply), selection, dry_run=False, advance=lambda count: None)

    assert sorted(touched) == sorted(f"a{number}" for number in range(500))
    assert tally.stopped_early
    assert growing.looks == 2


def test_an_action_that_stopped_early_has_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def nothing(_: Store, __: Queue, ___: Sequence[TargetJob]) -> list[str]:
        return []

    tally = StatusTally()
    tally.add(["cancelled"])
    done = report(Output(json=False), cancelling(nothing), tally, dry_run=False)
    tally.stopped_early = True
    early = report(Output(json=False), cancelling(nothing), tally, dry_run=False)

    assert (done, early) == (0, 5)
    assert capsys.readouterr().err == "stopped early: new jobs arrived faster than they were scanned; run it again\n"


async def test_a_store_that_goes_away_halfway_does_not_hide_what_was_done() -> None:
    store, steps = MemoryStore(), count()
    for start in (0, 1_000):
        await store.jobs.enqueue([job(f"{number:04}") for number in range(start, start + 1_000)], now_ms=1_000)

    async def apply(_: Store, queue: Queue, jobs: Sequence[TargetJob]) -> list[str]:
        if next(steps) > 0:
            raise StoreUnavailable("redis at cache:6379 cannot be reached")
        return ["cancelled"] * len(jobs)

    with pytest.raises(OutcomeUnknown) as lost:
        await act_on_matches(store, cancelling(apply), waiting_jobs(), dry_run=False, advance=lambda count: None)

    assert str(lost.value) == (
        "1,000 cancelled, and then: redis at cache:6379 cannot be reached; run it again for the rest"
    )
