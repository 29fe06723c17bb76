"""The context of a handler shows its job."""

import asyncio
import logging

import pytest

from headrace.model.clock import ManualClock
from headrace.model.errors import Refused
from headrace.stores.contract.store import Store
from headrace.worker.context import Context, ContextFacts, current
from headrace.worker.events import JobsFinished
from tests.worker.support import EventRecorder, build_handlers, build_worker, job, jobs, run_until_idle


class Seen:
    """Handlers that keep their context."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []

    async def work(self) -> None:
        """On the loop."""
        self.contexts.append(current())

    def plain(self) -> None:
        """In a thread."""
        self.contexts.append(current())


@pytest.mark.parametrize("mode", ["work", "plain"])
async def test_a_handler_sees_the_facts_of_its_job(timed: Store, clock: ManualClock, mode: str) -> None:
    """Q34, T5: id, kind, queue, times, counters, fence, limit, tag and headers, beside its arguments."""
    seen = Seen()
    now_ms = clock.now_ms()
    await timed.jobs.enqueue(
        [job("a", mode, timeout_ms=5_000, tag="spring", headers={"trace": "7"}, run_at_ms=now_ms - 10)]
    )

    await run_until_idle(timed, build_handlers(**{mode: getattr(seen, mode)}))

    [context] = seen.contexts
    assert context.job == ContextFacts(
        "a", mode, "mail", "default", 1, 0, 1, now_ms + 5_000, now_ms - 10, now_ms, "spring", {"trace": "7"}
    )
    assert (context.attempt, context.fence, context.deadline_at_ms) == (1, 1, now_ms + 5_000)


async def test_attempts_and_stalls_are_shown_and_fences_grow(timed: Store, clock: ManualClock) -> None:
    """Q34, T5: a handler can see that it is not the first."""
    seen = []

    async def work() -> None:
        context = current()
        seen.append((context.attempt, context.job.stalls, context.fence))
        if len(seen) == 2:
            clock.advance(60_000)  # beyond the lease: this delivery stalls
        raise ValueError("again")

    await timed.jobs.enqueue([job("a", max_attempts=3, backoff_ms=0)])
    await run_until_idle(timed, build_handlers(work=work))

    assert [(attempt, stalls) for attempt, stalls, _ in seen] == [(1, 0), (2, 0), (2, 1), (3, 1)]
    assert [fence for *_, fence in seen] == sorted({fence for *_, fence in seen})


async def test_a_job_without_a_limit_has_no_deadline(store: Store) -> None:
    seen = Seen()
    await store.jobs.enqueue([job("a")])

    await run_until_idle(store, build_handlers(work=seen.work))

    assert (seen.contexts[0].deadline_at_ms, seen.contexts[0].remaining_ms) == (None, None)


async def test_handlers_that_run_at_once_do_not_see_each_other(store: Store) -> None:
    """Q34: each has a context of its own, also in the tasks that it starts."""
    both, ids = asyncio.Barrier(2), []

    async def inner(id: str) -> None:
        await both.wait()
        ids.append((id, current().job.id))

    async def work(id: str) -> None:
        await asyncio.gather(inner(id))

    await store.jobs.enqueue([job(id, payload=b'{"id":"%s"}' % id.encode()) for id in "ab"])
    await run_until_idle(store, build_handlers(work=work))

    assert sorted(ids) == [("a", "a"), ("b", "b")]


async def test_outside_of_a_handler_there_is_no_job() -> None:
    with pytest.raises(Refused, match="no handler is running here"):
        current()


async def test_progress_is_shown_by_the_health_of_the_worker(store: Store) -> None:
    """T5: how far a handler is, with a few words."""
    reported, gate, recorder = asyncio.Event(), asyncio.Event(), EventRecorder()

    async def work() -> None:
        current().progress(0.25, "a quarter")
        reported.set()
        await gate.wait()

    await store.jobs.enqueue([job("a")])
    async with build_worker(store, build_handlers(work=work), recorder) as worker:
        await reported.wait()
        [running] = worker.health().running
        gate.set()
        await recorder.wait_for(JobsFinished)

    assert running.progress is not None
    assert (running.id, running.progress.fraction, running.progress.note) == ("a", 0.25, "a quarter")


@pytest.mark.parametrize(("fraction", "note"), [(1.01, ""), (-0.1, ""), (float("nan"), ""), (0.5, "x" * 201)])
async def test_progress_that_makes_no_sense_is_refused(store: Store, fraction: float, note: str) -> None:
    errors = []

    async def work() -> None:
        try:
            current().progress(fraction, note)
        except Refused as refused:
            errors.append(refused.reason)

    await store.jobs.enqueue([job("a")])
    await run_until_idle(store, build_handlers(work=work))

    assert len(errors) == 1


async def test_the_log_of_a_handler_says_which_job_it_is_about(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def work() -> None:
        current().log.info("sent %d", 3, extra={"size": 9})

    await store.jobs.enqueue(jobs(1))
    await run_until_idle(store, build_handlers(work=work))

    [record] = [each for each in caplog.records if each.name == "headrace.job"]
    assert record.getMessage() == "[work 0 attempt 1] sent 3"
    assert {"job_id": "0", "job_kind": "work", "job_queue": "mail", "job_attempt": 1, "size": 9}.items() <= (
        record.__dict__.items()
    )
