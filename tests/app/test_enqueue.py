"""Sending jobs by their functions: typed, with options, many at once."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from headrace import App, Client, Handle, Job, Queue, Refused, UpdateRunAt
from headrace.client.codec import RAW
from headrace.model.errors import BadConfig
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.results import Found


class Address(Struct):
    """A place to send to."""

    street: str
    town: str


async def found(handle: Handle[Any]) -> Found:
    """What the store knows of a job."""
    known = await handle.find()
    assert known is not None
    return known


async def test_a_call_becomes_a_job_with_the_arguments_by_name(any_app: App) -> None:
    @any_app.job(queue="mail")
    async def welcome(user_id: int, *, to: Address) -> None: ...

    handle = await welcome.enqueue(42, to=Address("Mill Lane", "Ely"))

    record = (await found(handle)).record
    assert record is not None
    assert (handle.status, handle.ok, handle.queue) == ("created", True, Queue("mail", any_app.maker.tenant))
    assert (record.kind, record.payload) == ("welcome", b'{"user_id":42,"to":{"street":"Mill Lane","town":"Ely"}}')
    await any_app.close()


async def test_options_of_the_function_hold_for_its_jobs_and_those_of_a_job_are_on_top(app: App) -> None:
    @app.job(queue="mail", kind="mail.welcome", max_attempts=5, timeout="30s", backoff="1s", priority=7, tag="new")
    async def welcome(user_id: int) -> None: ...

    plain = welcome.job(1)
    urgent = welcome.options(id="u-42", priority=9, delay="5m", tag="vip").options(max_attempts=1).job(user_id=42)

    assert (plain.kind, plain.queue, plain.tag, plain.id != "") == ("mail.welcome", Queue("mail"), "new", True)
    policy = plain.policy
    assert (policy.max_attempts, policy.timeout_ms, policy.backoff_ms, policy.priority) == (5, 30_000, 1_000, 7)
    assert (urgent.id, urgent.delay_ms, urgent.tag) == ("u-42", 300_000, "vip")
    assert (urgent.policy.priority, urgent.policy.max_attempts, urgent.policy.timeout_ms) == (9, 1, 30_000)


async def test_the_apps_tenant_and_queue_hold_where_a_function_says_nothing(url: str) -> None:
    """TB15: the default queue is used."""
    app = App(url, tenant="acme", queue="errands")

    @app.job
    async def errand() -> None: ...

    @app.job(queue=Queue("other", "globex", 2))
    async def other() -> None: ...

    assert errand.job().queue == errand.queue == Queue("errands", "acme")
    assert other.job().queue == Queue("other", "globex", 2)
    assert other.options(queue="third", tenant="initech").queue == Queue("third", "initech")


async def test_an_idempotency_key_sends_once_and_conflicts_with_other_work(app: App) -> None:
    @app.job
    async def charge(order: int) -> None: ...

    once = charge.options(idempotency_key="order-7")
    first, second = await once.enqueue(7), await once.enqueue(7)

    assert (first.status, second.status, first.id == second.id) == ("created", "duplicate", True)
    with pytest.raises(Refused, match="was used for other work") as refused:
        await once.enqueue(8)
    assert refused.value.reason == "conflict"


async def test_instants_and_flags_go_with_one_job(app: App) -> None:
    @app.job
    async def remind() -> None: ...

    at = datetime(2030, 1, 1, tzinfo=UTC)
    job = remind.options(run_at=at, expires_at=at, update_run_at="if_later", headers={"trace": "1"}).job()

    assert (job.run_at_ms, job.policy.expires_at_ms) == (1_893_456_000_000, 1_893_456_000_000)
    assert (job.update_run_at, job.headers) == (UpdateRunAt.IF_LATER, {"trace": "1"})


async def test_many_jobs_are_sent_in_order_from_jobs_and_from_arguments(any_app: App) -> None:
    @any_app.job(queue="mail")
    async def welcome(user_id: int) -> int:
        return user_id

    received: list[int] = []
    items: list[Job | dict[str, Any]] = [{"user_id": number} for number in range(1_500)]
    items[7] = welcome.options(id="seven").job(user_id=7)
    handles = await welcome.enqueue_many(items, progress=received.append)

    assert ([handle.status for handle in handles], received[-1]) == (["created"] * 1_500, 1_500)
    assert handles[7].id == "seven"
    record = (await found(handles[1_499])).record
    assert record is not None
    assert record.payload == b'{"user_id":1499}'
    await any_app.close()


async def test_every_job_of_a_function_has_an_id_and_a_payload_of_its_own_and_all_else_in_common(app: App) -> None:
    @app.job(tag="spring", priority=3, delay="1h", max_attempts=2)
    async def welcome(text: str) -> None: ...

    first, second = welcome.job("a"), welcome.job("b")

    assert first.id != second.id
    assert (first.payload, second.payload) == (b'{"text":"a"}', b'{"text":"b"}')
    assert replace(second, id=first.id, payload=first.payload) == first


async def test_a_payload_that_is_too_large_is_refused_for_the_second_job_as_for_the_first(app: App) -> None:
    @app.job
    async def welcome(text: str) -> None: ...

    for _ in range(2):
        with pytest.raises(Refused, match="payload"):
            welcome.job("x" * PAYLOAD_BYTES_MAX)
        assert welcome.job("x").payload == b'{"text":"x"}'


async def test_nothing_of_many_is_sent_when_one_does_not_fit(app: App) -> None:
    @app.job
    async def welcome(user_id: int) -> None: ...

    @app.job
    async def other() -> None: ...

    for wrong in ({"user_id": "x"}, {"user": 1}, other.job(), "user_id"):
        with pytest.raises(Refused) as refused:
            await welcome.enqueue_many([*[{"user_id": 1}] * 6_000, wrong])  # type: ignore[list-item]
        assert refused.value.reason == "bad_arguments"

    counts = await (await app.client()).store.queues.counts(welcome.queue)
    assert counts.waiting == 0


WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "missing a required argument: 'user_id'"),
    ((1, 2), {}, "too many positional arguments"),
    ((), {"user": 1}, "missing a required argument: 'user_id'"),
    ((1,), {"user": 1}, "unexpected keyword argument 'user'"),
    (("one",), {}, "Expected `int`, got `str`"),
    (({1},), {}, "Expected `int`, got `array`"),
]


@pytest.mark.parametrize(("args", "kwargs", "message"), WRONG)
async def test_wrong_arguments_are_refused_before_anything_is_sent(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    @app.job
    async def welcome(user_id: int) -> None: ...

    for send in (welcome.enqueue, welcome.options(id="a").enqueue):
        with pytest.raises(Refused, match=r"wrong arguments for .*welcome\(user_id: int\): ") as refused:
            await send(*args, **kwargs)
        assert (refused.value.reason, message in str(refused.value)) == ("bad_arguments", True)
    with pytest.raises(Refused):
        welcome.blocking.enqueue(*args, **kwargs)


async def test_calling_the_function_still_calls_it(app: App) -> None:
    @app.job
    async def slow(number: int) -> int:
        """Doubles."""
        return number * 2

    @app.job(queue="x")
    def quick(number: int = 3) -> int:
        return number + 1

    assert (await slow(4), await slow(number=5), quick(), quick(5)) == (8, 10, 4, 6)
    assert (slow.__name__, slow.__doc__, slow.__module__) == ("slow", "Doubles.", __name__)
    assert (slow.kind, slow.handler.mode, quick.handler.mode) == ("slow", "async", "thread")
    assert repr(quick) == "<job 'quick' on queue 'x'>"


async def test_a_codec_of_its_own_carries_bytes_there_and_back(app: App) -> None:
    @app.job(codec=RAW, style="whole")
    async def flip(data: bytes) -> bytes:
        return data[::-1]

    handle = await flip.enqueue(b"\x00\xff")
    await app.work(until_idle=True)

    assert flip.job(b"\x00\xff").payload == b"\x00\xff"
    assert await handle.result() == b"\xff\x00"


async def test_tasks_that_send_at_once_share_one_client_which_is_opened_once(app: App) -> None:
    @app.job
    async def note(number: int) -> None: ...

    handles = await asyncio.gather(*(note.enqueue(number) for number in range(200)))
    clients = await asyncio.gather(*(app.client() for _ in range(10)))

    assert {handle.status for handle in handles} == {"created"}
    assert len(set(map(id, clients))) == 1
    assert isinstance(clients[0], Client)


async def test_an_earlier_job_is_looked_at_by_its_id(app: App) -> None:
    @app.job
    def double(number: int) -> int:
        return number * 2

    await double.options(id="d-1").enqueue(21)
    await app.work(until_idle=True)

    assert await (await double.handle("d-1")).result("1s") == 42


@pytest.mark.parametrize("name", ["run_at", "expires_at", "idempotency_key"])
def test_what_belongs_to_one_job_is_refused_for_all_of_a_function(app: App, name: str) -> None:
    with pytest.raises(BadConfig, match=f"{name} is for one job"):
        app.job(**{name: 5})(named)  # type: ignore[call-overload]


def named() -> None:
    """A function with a name."""
