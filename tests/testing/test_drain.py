"""Draining: the real worker does all that is due, at once, and a test sees what became of each delivery."""

import asyncio
import threading

import pytest

from headrace import ClaimRequest, JobFailed, Queue, Refused, StoreUnavailable
from headrace.testing import AsyncKit, JobsFailed, Kit
from tests.testing.shop import ANSWERS, LOG, audit, mail, spin, sync, tick, welcome

SOON_S = 20


def test_drain_does_all_due_jobs_and_those_that_they_send(headrace: Kit) -> None:
    """Coroutines, threads, what asks for a process, heavy ones; over several queues."""
    welcome.blocking.enqueue(42)

    drained = headrace.drain()

    assert [(job.kind, job.attempt, job.outcome, job.result) for job in drained] == [
        ("welcome", 1, "done", "hello 42"),
        ("mail", 1, "done", None),
        ("audit", 1, "done", None),
    ]
    assert LOG == ["False mail to u42", "audit u42"]
    assert (drained.counts, len(drained), len(drained.done)) == ({"done": 3}, 3, 3)
    assert not headrace.drain()


async def test_an_async_drain_runs_handlers_on_the_loop_of_the_test(headrace: AsyncKit) -> None:
    async def where() -> bool:
        return asyncio.get_running_loop() is here

    here = asyncio.get_running_loop()
    handle = await headrace.app.job(where).enqueue()
    drained = await headrace.drain()

    assert [(job.id, job.result) for job in drained] == [(handle.id, True)]
    assert await handle.result("5s") is True


def test_jobs_not_due_wait_until_the_clock_is_moved(headrace: Kit) -> None:
    audit.blocking.options(delay="5m").enqueue("later")

    before = headrace.drain()
    headrace.clock.advance("299s")
    shortly_before = headrace.drain()
    headrace.clock.advance("1s")
    after = headrace.drain()

    assert [len(each) for each in (before, shortly_before, after)] == [0, 0, 1]


def test_drain_raises_the_errors_of_failed_attempts(headrace: Kit) -> None:
    ANSWERS.append("busy")
    handle = sync.blocking.enqueue(7)

    with pytest.raises(JobsFailed, match="1 of 1 deliveries failed; drain with raising=False") as raised:
        headrace.drain()

    [error] = raised.value.exceptions
    assert (type(error), str(error)) == (TimeoutError, "the CRM is busy with 7")
    assert error.__notes__ == [f"sync {handle.id!r} on 'crm', attempt 1: retried"]
    trace = error.__traceback__
    assert trace is not None
    assert trace.tb_frame.f_code.co_name == "sync"
    assert raised.value.drained.counts == {"retried": 1}


def test_retries_play_out_at_once_when_the_drain_looks_ahead(headrace: Kit) -> None:
    """10 s after the first failure and 20 s after the second: the whole backoff, without jitter."""
    ANSWERS.extend(["busy", "busy"])
    started_at_ms = headrace.clock.now_ms()
    sync.blocking.enqueue(7)

    first = headrace.drain(ahead="9s", raising=False)
    second = headrace.drain(ahead="1s", raising=False)
    third = headrace.drain(ahead="20s", raising=False)

    assert [each.counts for each in (first, second, third)] == [{"retried": 1}, {"retried": 1}, {"done": 1}]
    assert [job.attempt for each in (first, second, third) for job in each] == [1, 2, 3]
    assert headrace.clock.now_ms() == started_at_ms + 30_000
    assert third.jobs[0].result == 7


def test_a_job_that_uses_up_its_attempts_dies_and_its_fail_handler_runs(headrace: Kit) -> None:
    ANSWERS.extend(["busy"] * 3)
    sync.blocking.options(id="c7").enqueue(7)

    drained = headrace.drain(ahead="1h", raising=False)

    assert [(job.kind, job.outcome) for job in drained] == [
        ("sync", "retried"),
        ("sync", "retried"),
        ("sync", "dead"),
        ("headrace.fail", "done"),
    ]
    assert LOG[-1] == "buried {'customer': 7}: the CRM is busy with 7"
    assert [(dead_letter.record.id, dead_letter.reason) for dead_letter in headrace.dead_letters(sync)] == [
        ("c7", "attempts")
    ]
    assert (headrace.dead_letters("mail"), len(headrace.dead_letters())) == ([], 1)


def test_drained_separates_the_outcomes_that_a_handler_chooses(headrace: Kit) -> None:
    ANSWERS.extend(["later", "mine", "gone"])
    sync.blocking.enqueue(7)

    drained = headrace.drain(ahead="65s", raising=False)

    assert [job.outcome for job in drained][:3] == ["retried", "released", "dead"]
    assert [str(job.error) for job in drained.failed] == ["not yet", "no such customer"]
    assert (len(drained.retried), len(drained.released), len(drained.dead), len(drained.cancelled)) == (1, 1, 1, 0)


def test_a_release_is_no_failure(headrace: Kit) -> None:
    ANSWERS.append("mine")
    sync.blocking.enqueue(7)

    assert headrace.drain().counts == {"released": 1}


def test_an_attempt_that_the_worker_ended_has_an_error_too(headrace: Kit) -> None:
    """No handler raises for an unknown kind or a time-out."""
    headrace.client.enqueue("welcom", {}, queue="crm")
    slow = headrace.app.job(_slow)
    slow.blocking.options(timeout="20ms", max_attempts=1).enqueue()

    with pytest.raises(JobsFailed) as raised:
        headrace.drain()

    messages = sorted(str(error) for error in raised.value.exceptions)
    assert [type(error) for error in raised.value.exceptions] == [JobFailed, JobFailed]
    assert "died (attempt) of TimedOut: the handler was still running after its 0.02 s" in messages[0] + messages[1]
    assert "no handler for kind 'welcom'; did you mean 'welcome'?" in messages[0] + messages[1]


async def _slow() -> None:
    await asyncio.Event().wait()


def test_system_exit_in_a_handler_does_not_end_the_tests(headrace: Kit) -> None:
    quitting = headrace.app.job(_quitting)
    quitting.blocking.enqueue()

    with pytest.raises(JobsFailed) as raised:
        headrace.drain()

    [error] = raised.value.exceptions
    assert isinstance(error.__cause__, SystemExit)


def _quitting() -> None:
    raise SystemExit(3)


def test_a_job_that_sends_itself_at_once_is_stopped_at_the_limit(headrace: Kit) -> None:
    spin.blocking.enqueue()

    with pytest.raises(Refused, match=r"drain stopped after 20 deliveries, and more is due \(spin 21 times\)"):
        headrace.drain(limit=20)


def test_a_job_that_sends_itself_later_runs_as_often_as_the_time_allows(headrace: Kit) -> None:
    tick.blocking.enqueue()

    assert len(headrace.drain(ahead="10m")) == 11
    with pytest.raises(Refused, match="drain stopped after 50 deliveries"):
        headrace.drain(ahead="1d", limit=50)


def test_drain_finds_jobs_on_other_queues_and_leaves_unknown_kinds_alone(headrace: Kit) -> None:
    audit.blocking.options(queue="slow", tenant="globex", shards=2).enqueue("far")
    headrace.client.enqueue("resize", {"image": 1}, queue="images")

    drained = headrace.drain()

    assert [(job.kind, job.queue) for job in drained] == [("audit", Queue("slow", "globex", 2))]
    headrace.assert_enqueued("resize", image=1)


def test_drain_does_jobs_that_handlers_send_to_other_queues(headrace: Kit) -> None:
    async def far() -> None:
        await audit.options(queue="far").enqueue("away")

    headrace.app.job(far).blocking.enqueue()

    assert [(job.kind, job.queue.name) for job in headrace.drain()] == [("far", "default"), ("audit", "far")]


def test_a_drain_may_keep_to_some_queues(headrace: Kit) -> None:
    mail.blocking.enqueue("a")
    audit.blocking.enqueue("b")

    some = headrace.drain(queues=["audit"])
    rest = headrace.drain(queues=[Queue("mail", "acme")])

    assert [[job.kind for job in each] for each in (some, rest)] == [["audit"], ["mail"]]


def test_a_queue_that_is_paused_is_left_alone(headrace: Kit) -> None:
    audit.blocking.enqueue("b")
    audit.blocking.options(delay="1m").enqueue("c")
    headrace.run(headrace.store.queues.configure(Queue("audit", "acme"), {"paused": True}))

    assert len(headrace.drain(ahead="1h")) == 0


def test_one_job_runs_at_a_time_unless_more_are_asked_for(headrace: Kit) -> None:
    """A handler that waits for another job needs a second place."""

    async def child() -> int:
        return 5

    async def parent() -> int:
        return 1 + await (await asked.enqueue()).result("5s")

    asked, asking = headrace.app.job(child), headrace.app.job(parent)
    asking.blocking.enqueue()

    assert {job.kind: job.result for job in headrace.drain(capacity=2)} == {"parent": 6, "child": 5}


def test_an_abandoned_lease_expires_when_the_drain_looks_ahead(headrace: Kit) -> None:
    queue = Queue("audit", "acme")
    audit.blocking.enqueue("b")
    request = ClaimRequest(queues=[queue], worker="w", nonce="12345678", lease_ms=30_000)
    headrace.run(headrace.store.jobs.claim(request))

    assert [headrace.drain(ahead=each).counts for each in ("29s", "1s")] == [{}, {"done": 1}]


def test_an_expired_lease_on_a_paused_queue_does_not_keep_a_drain_from_ending(headrace: Kit) -> None:
    queue = Queue("audit", "acme")
    audit.blocking.options(max_stalls=5).enqueue("b")
    request = ClaimRequest(queues=[queue], worker="w", nonce="12345678", lease_ms=30_000)
    headrace.run(headrace.store.jobs.claim(request))
    headrace.run(headrace.store.queues.configure(queue, {"paused": True}))

    assert len(headrace.drain(ahead="1h")) == 0


def test_a_handler_may_move_the_clock_further_than_the_drain_looks(headrace: Kit) -> None:
    async def patient() -> None:
        headrace.clock.advance("2h")

    headrace.app.job(patient).blocking.enqueue()
    before_ms = headrace.clock.now_ms()

    assert headrace.drain(ahead="1h").counts == {"done": 1}
    assert headrace.clock.now_ms() == before_ms + 7_200_000


def test_draining_a_store_that_is_down_is_refused_and_never_hangs(headrace: Kit) -> None:
    audit.blocking.enqueue("b")

    with headrace.store.down(), pytest.raises(Refused, match="drain after the block of down"):
        headrace.drain()

    assert len(headrace.drain()) == 1


@pytest.mark.parametrize("verb", ["claim", "settle", "turn"])
def test_a_worker_gets_over_lost_replies_and_the_job_is_done_once(headrace: Kit, verb: str) -> None:
    audit.blocking.enqueue("b")
    headrace.store.lose(verb)

    drained = headrace.drain()

    assert (drained.counts, LOG) == ({"done": 1}, ["audit b"])


def test_a_plain_kit_is_refused_where_an_event_loop_runs(headrace: Kit) -> None:
    async def wrong() -> None:
        headrace.drain()

    with pytest.raises(Refused, match="in a coroutine use `async with using"):
        asyncio.run(wrong())


def test_a_handler_cannot_drain_its_own_kit(headrace: Kit) -> None:
    def nested() -> None:
        headrace.drain()

    headrace.app.job(nested).blocking.enqueue()

    with pytest.raises(JobsFailed) as raised:
        headrace.drain()

    assert "a handler cannot drain what it is part of" in str(raised.value.exceptions[0])


async def test_blocking_calls_are_answered_on_the_thread_of_the_running_loop(headrace: AsyncKit) -> None:
    """As they are by a server: in the test itself, and in a coroutine handler."""

    async def careless() -> None:
        audit.blocking.enqueue("from a coroutine")

    headrace.app.job(careless).blocking.enqueue()
    async with asyncio.timeout(SOON_S):
        drained = await headrace.drain()

    assert ([job.kind for job in drained], LOG) == (["careless", "audit"], ["audit from a coroutine"])


async def test_a_worker_beside_the_test_notices_that_the_clock_was_moved(headrace: AsyncKit) -> None:
    handle = await sync.options(delay="1h").enqueue(7)

    async with asyncio.timeout(SOON_S), headrace.app.worker(poll="1h"):
        await headrace.store.called("wait")
        headrace.clock.advance("1h")
        result = await handle.result()

    assert result == 7


def test_jobs_sent_by_another_thread_with_its_own_loop_are_enqueued(headrace: Kit) -> None:
    """As the test client of a web framework does."""
    thread = threading.Thread(target=lambda: asyncio.run(_send()))

    thread.start()
    thread.join(SOON_S)

    headrace.assert_enqueued(audit, what="from elsewhere")
    assert len(headrace.drain()) == 1


async def _send() -> None:
    await audit.enqueue("from elsewhere")


def test_a_store_that_is_down_fails_the_code_that_sends(headrace: Kit) -> None:
    with headrace.store.down(), pytest.raises(StoreUnavailable, match="as the test has asked"):
        audit.blocking.enqueue("b")

    headrace.assert_not_enqueued(audit)
