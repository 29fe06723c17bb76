"""Batching: many senders share one call, and each gets its own outcome."""

import asyncio

from headrace.client.client import Client
from headrace.client.handle import Handle
from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.limits import PAYLOAD_BYTES_MAX
from tests.client.relay_store import RelayStore


async def test_tasks_that_send_at_once_share_one_call() -> None:
    store = RelayStore()
    client = Client(store)

    handles = await asyncio.gather(*(client.enqueue("send", number, id=f"{number}") for number in range(50)))

    assert [handle.id for handle in handles] == [f"{number}" for number in range(50)]
    assert [len(batch) for batch in store.jobs.batches] == [50]


async def test_a_call_takes_a_thousand_jobs_and_no_more() -> None:
    store = RelayStore()
    client = Client(store)

    handles = await asyncio.gather(*(client.enqueue("send", id=f"{number}") for number in range(2_500)))

    assert [handle.id for handle in handles] == [f"{number}" for number in range(2_500)]
    assert [len(batch) for batch in store.jobs.batches] == [1_000, 1_000, 500]
    assert [job.id for batch in store.jobs.batches for job in batch] == [f"{number}" for number in range(2_500)]


async def test_a_call_takes_a_few_megabytes_and_no_more() -> None:
    store = RelayStore()
    client = Client(store)
    large = "x" * (PAYLOAD_BYTES_MAX - 2)

    await asyncio.gather(*(client.enqueue("send", large) for _ in range(40)))

    assert [len(batch) for batch in store.jobs.batches] == [16, 16, 8]


async def test_one_after_the_other_is_one_call_each() -> None:
    store = RelayStore()
    client = Client(store)

    await client.enqueue("send")
    await client.enqueue("send")

    assert [len(batch) for batch in store.jobs.batches] == [1, 1]


async def test_a_refused_job_does_not_fail_the_others_of_its_batch() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.before = lambda jobs: Refused("odd", "no") if any(job.id == "7" for job in jobs) else None

    answers = await asyncio.gather(
        *(client.enqueue("send", id=f"{number}") for number in range(10)), return_exceptions=True
    )

    assert [isinstance(answer, Refused) for answer in answers] == [number == 7 for number in range(10)]
    assert (await store.queues.counts(client.maker.queue("default"))).waiting == 9


async def test_what_is_no_job_is_refused_and_fails_no_other_job() -> None:
    store = RelayStore()
    client = Client(store)

    wrong, right = await asyncio.gather(
        client.send("send"),  # type: ignore[call-overload]
        client.send(client.job("send")),
        return_exceptions=True,
    )

    assert isinstance(wrong, Refused)
    assert str(wrong).startswith("only a Job can be sent; found str")
    assert isinstance(right, Handle)


async def test_a_lost_reply_fails_only_the_senders_whose_answers_are_lost() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.lost = lambda job: int(job.id) >= 5

    answers = await asyncio.gather(
        *(client.enqueue("send", id=f"{number}") for number in range(8)), return_exceptions=True
    )

    assert [answer.status for answer in answers[:5] if not isinstance(answer, BaseException)] == ["created"] * 5
    unknown = [answer.unknown for answer in answers[5:] if isinstance(answer, OutcomeUnknown)]
    assert unknown == [("5",), ("6",), ("7",)]


async def test_an_id_that_was_sent_twice_is_unknown_to_both_when_one_answer_is_lost() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.lost = lambda job: job.kind == "second"

    answers = await asyncio.gather(
        client.enqueue("first", id="a"), client.enqueue("second", id="a"), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [OutcomeUnknown, OutcomeUnknown]


async def test_each_sender_gets_its_own_error_when_the_store_is_unavailable() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.before = lambda _: StoreUnavailable("nobody there")

    errors = await asyncio.gather(client.enqueue("a"), client.enqueue("b"), return_exceptions=True)

    assert [type(error) for error in errors] == [StoreUnavailable, StoreUnavailable]
    assert [str(error) for error in errors] == ["nobody there", "nobody there"]
    assert errors[0] is not errors[1]


async def test_a_fault_of_the_store_reaches_every_sender() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.before = lambda _: ZeroDivisionError("a fault")

    answers = await asyncio.gather(client.enqueue("a"), client.enqueue("b"), return_exceptions=True)

    assert [type(answer) for answer in answers] == [ZeroDivisionError, ZeroDivisionError]


async def test_a_fault_of_an_enqueue_without_a_task_reaches_every_sender() -> None:
    store = RelayStore()

    def post(*_: object) -> bool:
        raise ZeroDivisionError("a fault")

    store.jobs.enqueue_nowait = post  # type: ignore[attr-defined]  # one that has it writes at once
    client = Client(store)

    answers = await asyncio.gather(*(client.enqueue(kind) for kind in "abc"), return_exceptions=True)

    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 3


async def test_a_task_that_is_cancelled_before_the_call_takes_its_job_along() -> None:
    store = RelayStore()
    client = Client(store)

    async def regret() -> None:
        leaving.cancel()

    leaving = asyncio.create_task(client.enqueue("send", id="leaving"))
    staying = asyncio.create_task(client.enqueue("send", id="staying"))
    await asyncio.gather(regret(), leaving, staying, return_exceptions=True)

    assert leaving.cancelled()
    assert [[job.id for job in batch] for batch in store.jobs.batches] == [["staying"]]


async def test_nothing_is_sent_when_all_senders_were_cancelled() -> None:
    store = RelayStore()
    client = Client(store)
    leaving = asyncio.create_task(client.enqueue("send"))
    asyncio.get_running_loop().call_soon(leaving.cancel)

    await asyncio.wait([leaving])
    await client.enqueue("send", id="later")

    assert [[job.id for job in batch] for batch in store.jobs.batches] == [["later"]]


async def test_a_task_cancelled_after_the_call_has_begun_has_sent_its_job() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.open.clear()
    leaving = asyncio.create_task(client.enqueue("send", id="leaving"))
    staying = asyncio.create_task(client.enqueue("send", id="staying"))
    await store.jobs.arrived.wait()

    leaving.cancel()
    store.jobs.open.set()
    await asyncio.wait([leaving, staying])

    assert leaving.cancelled()
    assert staying.result().ok
    assert [found is not None for found in await client.find("default", "leaving", "staying")] == [True, True]
