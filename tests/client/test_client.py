"""The client sends, finds, cancels and removes jobs, and returns the answers of the store."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.client import Client
from headrace.client.codec import RAW
from headrace.client.handle import Handle
from headrace.model.clock import ManualClock
from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.limits import ENQUEUES_IN_FLIGHT_MAX
from headrace.model.names import Queue, uuid7
from headrace.stores.memory.store import MemoryStore
from tests.client.relay_store import RelayStore
from tests.client.worker_calls import claim
from tests.support.stores import STORES

DEFAULT = Queue("default")


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Opens an empty store of each kind."""
    return lambda: STORES[request.param](tmp_path)


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "ü", [], {}, {"a": [1, {"b": None}]}, 2**60], ids=json.dumps)
async def test_any_json_value_reaches_the_worker_unchanged_and_the_id_comes_back(value: object) -> None:
    """Q6, T1, T8: a client on a store that the program chose; the handle has the id that is stored."""
    store = MemoryStore()
    client = Client(store)

    handle = await client.enqueue("send", value)

    claimed = await claim(store, DEFAULT)
    assert claimed.record.id == handle.id
    assert client.maker.codec.decode(claimed.record.payload) == value
    assert (handle.queue, handle.status, handle.ok) == (DEFAULT, "created", True)


async def test_the_methods_of_a_client_work_on_every_store(opener: Any) -> None:
    """T1: the program chooses the store; the client is the same."""
    async with opener() as store:
        client = Client(store, tenant="acme", queue="mail")
        mail = Queue("mail", "acme")

        handle = await client.enqueue("send", {"to": 1}, id="a", delay="1h")

        found = await handle.find()
        assert found is not None
        assert found.record is not None
        assert (found.state, found.record.kind, found.record.payload) == ("waiting", "send", b'{"to":1}')
        assert found.record.run_at_ms - found.record.enqueued_at_ms == 3_600_000
        assert (await client.enqueue("send", id="a")).status == "updated"
        assert (await handle.cancel()).status == "cancelled"
        assert [each.status for each in await client.cancel("mail", "a", "b")] == ["not_found", "not_found"]
        assert (await handle.remove()).status == "removed"
        assert await client.find(mail, "a") == [None]


async def test_a_fresh_id_is_made_of_the_given_clock_and_entropy() -> None:
    """T8: time and chance come in from outside."""
    client = Client(MemoryStore(), clock=ManualClock(1_700_000_000_000), entropy=lambda count: b"\x07" * count)

    assert client.job("send").id == uuid7(1_700_000_000_000, b"\x07" * 10)


async def test_the_default_queue_and_tenant_of_the_client_hold_for_jobs_and_for_names() -> None:
    """TB15: the configured default queue is used."""
    client = Client(MemoryStore(), tenant="acme", queue="mail")

    handle = await client.enqueue("send")

    assert handle.queue == Queue("mail", "acme")
    assert [found is not None for found in await client.find("mail", handle.id)] == [True]
    assert await client.find(DEFAULT, handle.id) == [None]


@pytest.mark.parametrize("wrong", [{"queue": "mail box"}, {"tenant": "ACME"}])
async def test_a_client_with_a_wrong_default_is_refused_when_it_is_made(wrong: dict[str, str]) -> None:
    with pytest.raises(Refused, match="is not a name"):
        Client(MemoryStore(), **wrong)  # type: ignore[arg-type]


async def test_a_custom_codec_encodes_the_payload() -> None:
    """T8: the codec is pluggable."""
    client = Client(MemoryStore(), codec=RAW)

    assert client.job("send", b"\x00\xff").payload == b"\x00\xff"


async def test_the_same_key_is_a_duplicate_and_changes_nothing(opener: Any) -> None:
    """T10: first created, then duplicate with the first id; the record is not touched; other queues do not know it."""
    async with opener() as store:
        client = Client(store)
        first = await client.enqueue("send", 1, idempotency_key="k", priority=3)

        second = await client.enqueue("send", 1, idempotency_key="k", priority=7)
        other = await client.enqueue("send", 1, idempotency_key="k", queue="mail")
        keyless = [await client.enqueue("send", 1, idempotency_key=" ") for _ in range(2)]

        assert (first.status, second.status, second.id, second.ok) == ("created", "duplicate", first.id, True)
        assert other.status == "created"
        assert [handle.status for handle in keyless] == ["created", "created"]
        found = await first.find()
        assert found is not None
        assert found.record is not None
        assert found.record.policy.priority == 3
        assert (await store.queues.counts(DEFAULT)).waiting == 3


async def test_a_key_that_stands_for_other_work_is_refused() -> None:
    client = Client(MemoryStore())
    await client.enqueue("send", 1, idempotency_key="k")

    with pytest.raises(Refused, match=r"idempotency key 'k' .* was used for other work") as caught:
        await client.enqueue("send", 2, idempotency_key="k")

    assert caught.value.reason == "conflict"


async def test_a_full_queue_and_a_wrong_number_of_shards_are_refused() -> None:
    """A caller that ignores the answer must not lose a job."""
    store = MemoryStore()
    client = Client(store)
    await store.queues.configure(DEFAULT, {"waiting_max": 1})
    await client.enqueue("send")

    with pytest.raises(Refused, match="queue 'default' of tenant 'default' is full") as full:
        await client.enqueue("send")
    with pytest.raises(Refused, match="has another number of shards than 2") as shards:
        await client.enqueue("send", shards=2)

    assert (full.value.reason, shards.value.reason) == ("full", "wrong_shards")


async def test_many_jobs_are_answered_in_their_order(opener: Any) -> None:
    async with opener() as store:
        client = Client(store)
        counts: list[int] = []

        handles = await client.enqueue_many(
            (client.job("send", number, id=f"{number}") for number in range(2_500)), progress=counts.append
        )

        assert [handle.id for handle in handles] == [f"{number}" for number in range(2_500)]
        assert {handle.status for handle in handles} == {"created"}
        assert sorted(counts) == counts
        assert counts[-1] == 2_500
        assert (await store.queues.counts(DEFAULT)).waiting == 2_500


async def test_many_jobs_with_one_id_are_sent_one_call_after_the_other() -> None:
    """The last one wins, as if they had been sent one by one."""
    store = RelayStore()
    client = Client(store)
    kinds = [f"k{number}" for number in range(2_500)]

    handles = await client.enqueue_many(client.job(kind, id="a") for kind in kinds)

    [found] = await client.find("default", "a")
    assert found is not None
    assert found.record is not None
    assert found.record.kind == kinds[-1]
    assert [handle.status for handle in handles] == ["created"] + ["updated"] * 2_499
    assert store.jobs.overlapping == set()


async def test_a_few_calls_of_many_jobs_are_under_way_at_once() -> None:
    store = RelayStore()
    client = Client(store)

    await client.enqueue_many(client.job("send") for _ in range(10_000))

    assert store.jobs.most_in_flight == ENQUEUES_IN_FLIGHT_MAX


async def test_a_refusal_among_many_is_a_handle_that_says_so() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.before = lambda jobs: Refused("odd", "no") if any(job.id == "b" for job in jobs) else None
    await client.enqueue("send", 1, idempotency_key="k")

    handles = await client.enqueue_many(
        [client.job("send", id="a"), client.job("send", id="b"), client.job("send", 2, idempotency_key="k")]
    )

    assert [(handle.status, handle.ok) for handle in handles] == [
        ("created", True),
        ("refused", False),
        ("conflict", False),
    ]
    assert str(handles[1].error) == "no"


async def test_lost_replies_among_many_carry_the_handles_known_and_the_ids_unknown() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.lost = lambda job: job.id == "1200"
    pulled: list[str] = []

    def jobs() -> Iterator[Job]:
        for number in range(20_000):
            pulled.append(f"{number}")
            yield client.job("send", id=f"{number}")

    with pytest.raises(OutcomeUnknown) as caught:
        await client.enqueue_many(jobs())

    known = [each.id for each in caught.value.known if isinstance(each, Handle)]
    assert caught.value.unknown == ("1200",)
    assert len(pulled) < 20_000
    assert set(known) | {"1200"} == {job.id for batch in store.jobs.batches for job in batch}
    assert (await store.queues.counts(DEFAULT)).waiting == len(known) + 1


async def test_many_jobs_to_a_store_that_cannot_be_reached_change_nothing() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.before = lambda _: StoreUnavailable("nobody there")

    with pytest.raises(StoreUnavailable, match="nobody there"):
        await client.enqueue_many([client.job("send")])


async def test_enqueue_many_names_the_enqueued_jobs_when_the_store_fails_midway() -> None:
    store = RelayStore()
    client = Client(store)
    store.jobs.before = lambda jobs: StoreUnavailable("gone") if jobs[0].id == "1000" else None

    with pytest.raises(OutcomeUnknown, match="gone") as caught:
        await client.enqueue_many(client.job("send", id=f"{number}") for number in range(1_500))

    assert len(caught.value.known) == 1_000
    assert caught.value.unknown == tuple(f"{number}" for number in range(1_000, 1_500))


async def test_what_is_no_job_among_many_is_refused() -> None:
    client = Client(MemoryStore())

    with pytest.raises(Refused, match="only a Job can be sent; found str"):
        await client.enqueue_many(["send"])  # type: ignore[list-item]


async def test_no_jobs_at_all_are_fine() -> None:
    assert await Client(MemoryStore()).enqueue_many([]) == []


async def test_many_ids_are_looked_up_in_batches() -> None:
    client = Client(MemoryStore())
    await client.enqueue_many(client.job("send", id=f"{number}") for number in range(1_500))
    ids = [f"{number}" for number in range(1_500)]

    found = await client.find("default", *ids)
    cancelled = await client.cancel("default", *ids)
    removed = await client.remove("default", *ids)

    assert [each.id for each in found if each is not None] == ids
    assert [(each.id, each.status) for each in cancelled] == [(id, "cancelled") for id in ids]
    assert [(each.id, each.status) for each in removed] == [(id, "removed") for id in ids]


async def test_calls_after_the_store_was_closed_say_that_it_was(opener: Any) -> None:
    """Q14, T23: closing twice is fine, everything else is refused with a sentence that says why."""
    async with opener() as store:
        client = Client(store)
        handle = await client.enqueue("send")

        await store.close()
        await store.close()

        for call in (
            client.enqueue("send"),
            client.enqueue_many([client.job("send")]),
            client.cancel("default", handle.id),
            client.remove("default", handle.id),
            client.find("default", handle.id),
            handle.result(timeout=1),
        ):
            with pytest.raises(StoreUnavailable, match="closed"):
                await call


async def test_enqueueing_on_a_connection_needs_a_store_that_can() -> None:
    client = Client(MemoryStore())

    with pytest.raises(Refused, match="MemoryStore cannot enqueue on your connection") as caught:
        await client.enqueue_on(None, [client.job("send")])

    assert caught.value.reason == "no_transactions"


async def test_jobs_on_the_callers_connection_are_enqueued_when_it_commits(tmp_path: Path) -> None:
    import psycopg

    from tests.support.servers import postgres_server

    async with STORES["postgres"](tmp_path) as store:
        client = Client(store)
        async with await psycopg.AsyncConnection.connect(postgres_server().url) as connection:
            [undone] = await client.enqueue_on(connection, [client.job("send", id="undone")])
            await connection.rollback()
            [done] = await client.enqueue_on(connection, [client.job("send", id="done")])

        assert (undone.status, done.status) == ("created", "created")
        assert [found is not None for found in await client.find("default", "undone", "done")] == [False, True]


async def test_the_repr_of_a_handle_has_id_queue_and_status() -> None:
    client = Client(MemoryStore())

    assert repr(await client.enqueue("send", id="a")) == "<Handle 'a' on 'default': created>"
    assert client.handle("mail", "b").status == "known"
