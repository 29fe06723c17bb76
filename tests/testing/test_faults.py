"""A store that fails on command, in every verb of the contract."""

import asyncio
import inspect
import threading
from typing import Any, get_type_hints

import pytest

from headrace.client.client import Client
from headrace.model.claim import ClaimRequest
from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.job import Job, State
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done
from headrace.model.results import Enqueued
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.testing import FaultyStore, KitStore
from headrace.testing.faults import NAMES, PARTS

MAIL = Queue("mail")
SOON_S = 10.0


def job(id: str) -> Job:
    """A job on the queue of these tests."""
    return Job(queue=MAIL, id=id, kind="work")


@pytest.fixture
def store() -> FaultyStore:
    """A store in memory that fails on command."""
    return FaultyStore(MemoryStore(ManualClock(1_000)))


def call(store: FaultyStore, name: str) -> Any:
    """Call a verb with arguments of no meaning: a call that fails does not look at them."""
    part, _, verb = name.rpartition(".")
    return getattr(store, part).__getattr__(verb)([], []) if part else getattr(store, verb)()


def test_all_parts_of_the_contract_can_fail() -> None:
    parts = {name for name, each in inspect.getmembers(Store) if isinstance(each, property)} - {"is_remote"}
    found = {name: get_type_hints(getattr(Store, name).fget)["return"] for name in parts}

    assert found == PARTS


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_every_verb_can_fail_once_on_command(store: FaultyStore, name: str) -> None:
    store.fail(name)

    with pytest.raises(StoreUnavailable, match="as the test has asked"):
        await call(store, name)

    assert store.calls[name] == 1


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_a_store_that_is_down_fails_in_every_verb_until_it_is_back(store: FaultyStore, name: str) -> None:
    with store.down():
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await call(store, name)

    await store.jobs.enqueue([job("a")])
    assert (await store.queues.counts(MAIL)).waiting == 1


async def test_a_call_that_fails_has_done_nothing_and_the_next_one_works(store: FaultyStore) -> None:
    store.fail("enqueue", error=Refused("no", "never"))

    with pytest.raises(Refused, match="never"):
        await store.jobs.enqueue([job("a")])
    found = await store.reads.find(MAIL, ["a"])
    answers = await store.jobs.enqueue([job("a")])

    assert list(found) == [None]
    assert [answer.status for answer in answers] == ["created"]


async def test_a_lost_reply_belongs_to_a_call_that_was_done(store: FaultyStore) -> None:
    store.lose("enqueue")

    with pytest.raises(OutcomeUnknown, match="the reply was lost"):
        await store.jobs.enqueue([job("a")])

    assert (await store.queues.counts(MAIL)).waiting == 1


async def test_a_part_of_a_reply_may_be_lost(store: FaultyStore) -> None:
    store.lose("enqueue", heard=1)

    with pytest.raises(OutcomeUnknown) as raised:
        await store.jobs.enqueue([job("a"), job("b")])

    assert (raised.value.known, raised.value.unknown) == ((Enqueued("a", "created"),), ("b",))


async def test_faults_apply_one_by_one_in_order(store: FaultyStore) -> None:
    store.fail("names", "tenants", times=2)
    store.fail("tenants", error=Refused("no", "never"))

    ends = []
    for _ in range(4):
        try:
            await store.queues.tenants()
            ends.append("ok")
        except (StoreUnavailable, Refused) as error:
            ends.append(type(error).__name__)

    assert ends == ["StoreUnavailable", "StoreUnavailable", "Refused", "ok"]


async def test_a_verb_of_two_parts_is_named_in_full(store: FaultyStore) -> None:
    store.fail("dead.list")

    await store.reads.list(MAIL, State.WAITING)
    with pytest.raises(StoreUnavailable):
        await store.dead.list(MAIL)

    assert (store.calls["list"], store.calls["dead.list"], store.calls["reads.list"]) == (2, 1, 1)


async def test_a_call_that_is_held_waits_until_it_is_released(store: FaultyStore) -> None:
    with store.hold("enqueue") as hold:
        task = asyncio.create_task(store.jobs.enqueue([job("a")]))
        async with asyncio.timeout(SOON_S):
            await hold.reached()
        meanwhile = (await store.queues.counts(MAIL)).waiting

    async with asyncio.timeout(SOON_S):
        answers = await task
    assert (meanwhile, [answer.status for answer in answers]) == (0, ["created"])


async def test_a_hold_is_released_from_any_thread_on_any_loop(headrace_store: KitStore) -> None:
    hold = headrace_store.hold("enqueue")
    sent: list[str] = []

    async def send() -> None:
        sent.extend(answer.status for answer in await headrace_store.jobs.enqueue([job("a")]))

    thread = threading.Thread(target=lambda: asyncio.run(send()))
    thread.start()
    async with asyncio.timeout(SOON_S):
        await headrace_store.called("enqueue")
        await hold.reached()
    hold.release()
    await asyncio.to_thread(thread.join, SOON_S)

    assert sent == ["created"]


def test_a_verb_that_no_store_has_is_refused(store: FaultyStore) -> None:
    with pytest.raises(BadConfig, match="a store has no verb 'enqeue' that could fail; did you mean 'enqueue'"):
        store.fail("enqeue")
    with pytest.raises(BadConfig, match="name the verbs, as in"):
        store.hold()
    with pytest.raises(AttributeError, match="'jobs' of a store has no verb 'enqeue'"):
        _ = store.jobs.enqeue  # type: ignore[attr-defined]


async def test_claim_requests_and_settlements_are_kept(store: FaultyStore) -> None:
    await store.jobs.enqueue([job("a"), job("b")])
    request = ClaimRequest(queues=[MAIL], worker="w", nonce="12345678", limit=1, lease_ms=1_000)
    [claim] = (await store.jobs.claim(request)).items
    turned = await store.jobs.turn(
        [claim.settle(Done())], request=ClaimRequest(queues=[MAIL], worker="w", nonce="2" * 8)
    )

    assert [each.nonce for each in store.claims] == ["12345678", "22222222"]
    assert [(each.lease.id, answer.ok) for each, answer in zip(store.settled, turned.settled, strict=True)] == [
        ("a", True)
    ]


async def test_a_store_of_the_kit_is_used_without_an_app(headrace_store: KitStore) -> None:
    """By clients and workers of one's own, also when one of them closes it."""
    handle = await Client(headrace_store).enqueue("work", {"a": 1}, delay="1m")
    await headrace_store.close()

    [found] = await headrace_store.reads.find(handle.queue, [handle.id])
    assert found is not None
    assert found.record is not None
    assert found.record.run_at_ms == headrace_store.clock.now_ms() + 60_000
    assert (await headrace_store.journal.bounds(Shard(handle.queue, 0))).last_seq == 1
