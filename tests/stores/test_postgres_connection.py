"""PostgreSQL: its URL, what a server must be, and what a lost connection leaves known."""

from collections.abc import Iterator

import pytest

from headrace.model.errors import BadConfig, OutcomeUnknown, StoreUnavailable
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.stores.open import open_store
from headrace.stores.postgres.connection import settings_of
from headrace.stores.postgres.store import PostgresStore
from tests.support.postgres_servers import PostgresServer
from tests.support.proxy import Proxy
from tests.support.schemas import new_schema
from tests.support.servers import postgres_server

QUEUE = Queue("mail")
SECRET = "pssst"  # noqa: S105 - it must not show up anywhere


@pytest.fixture
def url() -> Iterator[str]:
    """A schema of the test's own."""
    with new_schema() as url:
        yield url


def job(id: str) -> Job:
    """A job with this id."""
    return new_job(QUEUE, "send", fresh_id=id)


def test_a_url_says_where_the_store_is_and_libpq_gets_its_own_options() -> None:
    settings = settings_of(
        f"postgresql://me:{SECRET}@db.example:6432/work?schema=jobs&profile=fast&connections=3&sslmode=require"
    )

    assert (settings.address, settings.schema, settings.profile, settings.connections) == (
        "db.example:6432/work",
        "jobs",
        "fast",
        3,
    )
    assert "sslmode=require" in settings.conninfo
    assert SECRET in settings.conninfo


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("?schema=Jobs", "small letters"),
        ("?schema=pg_jobs", "pg_"),
        ("?schema=", "small letters"),
        ("?profile=reckless", "durable, replicated, fast"),
        ("?connections=0", "1 to 256"),
        ("?connections=many", "1 to 256"),
        ("?colour=red", "schema, profile, connections"),
        ("?sslmode=", "sslmode"),
        ("#part", "%23"),
    ],
)
async def test_a_wrong_url_is_refused_without_showing_the_password(query: str, hint: str) -> None:
    with pytest.raises(BadConfig) as refused:
        await open_store(f"postgres://me:{SECRET}@127.0.0.1/work{query}")

    assert hint in str(refused.value)
    assert SECRET not in repr([refused.value, refused.value.__cause__])


def test_settings_do_not_show_the_password() -> None:
    settings = settings_of(f"postgres://me:{SECRET}@127.0.0.1/work")

    assert SECRET not in repr(settings)


async def test_a_database_that_is_not_there_is_a_wrong_url() -> None:
    with pytest.raises(BadConfig) as refused:
        await open_store(postgres_server().url.replace("/headrace", "/nowhere"))

    assert "nowhere" in str(refused.value)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable) as refused:
        await open_store("postgres://me@127.0.0.1:1/work")

    assert "127.0.0.1:1/work" in str(refused.value)


@pytest.mark.parametrize(("profile", "hint"), [("durable", "fsync"), ("replicated", "fsync")])
async def test_a_server_that_cannot_keep_a_promise_is_refused(profile: str, hint: str) -> None:
    with pytest.raises(BadConfig) as refused:
        await open_store(f"{postgres_server().url}?profile={profile}")

    assert hint in str(refused.value)


async def test_durable_wants_a_server_that_syncs_and_replicated_one_with_standbys() -> None:
    with PostgresServer(fsync=True).launch() as server:
        store = await open_store(server.url)
        health = await store.health()
        await store.close()

        with pytest.raises(BadConfig) as refused:
            await open_store(f"{server.url}?profile=replicated")

    assert (health.store, health.profile) == ("postgres", "durable")
    assert "power cut" in health.promise
    assert "synchronous_standby_names" in str(refused.value)


async def test_a_lost_answer_leaves_open_whether_the_jobs_are_there(url: str) -> None:
    server = postgres_server()
    async with Proxy(server.port) as proxy:
        # On one connection, where the statement is prepared already: preparing it is a request of its own.
        url = f"{url.replace(f':{server.port}/', f':{proxy.port}/')}&connections=1"
        store = await PostgresStore.open(settings_of(url))
        await store.queues.configure(QUEUE, {"paused": True})
        await store.jobs.enqueue([job("first")])
        while store.signals._sending is not None:
            await store.reads.find(QUEUE, ["nobody"])
        proxy.cuts_on_reply = True

        with pytest.raises(OutcomeUnknown) as lost:
            await store.jobs.enqueue([job("third")])
        proxy.cuts_on_reply = False
        [found] = await store.reads.find(QUEUE, ["third"])
        await store.close()

    assert lost.value.unknown == ("third",)
    assert found is not None, "the request had arrived"


async def test_connections_that_were_cut_while_idle_are_replaced_silently(url: str) -> None:
    store = await open_store(url)
    await store.jobs.enqueue([job("a")])
    postgres_server().ask(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'headrace'"
    )

    answers = await store.jobs.enqueue([job("b")])
    await store.close()

    assert [answer.status for answer in answers] == ["created"]


async def test_a_server_that_stops_is_unavailable_and_one_that_comes_back_is_used_again() -> None:
    with PostgresServer().launch() as server:
        store = await open_store(f"{server.url}?profile=fast")
        await store.jobs.enqueue([job("a")])
        server.stop()

        with pytest.raises(StoreUnavailable):
            await store.jobs.enqueue([job("b")])
        server.start()
        answers = await store.jobs.enqueue([job("b")])
        await store.close()

    assert [answer.status for answer in answers] == ["created"]
