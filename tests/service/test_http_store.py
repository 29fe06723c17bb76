"""The service as a store: the conformance suite for jobs and feeds, client and worker, and lost answers."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.app.app import App
from headrace.client.client import Client
from headrace.feeds.feeds import Feeds
from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.feed import FeedName
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.stores.http.store import HttpStore
from headrace.stores.http.url import HttpOptions
from headrace.stores.open import open_store
from tests.service.support import Running, issuer, running, token
from tests.support.service_store import http_store

ROOT = Path(__file__).resolve().parents[2]
SUITE = ("enqueue", "claim", "settle", "turn", "feeds", "feed_items")
OTHER_TENANTS = "tenant or another_queue or longest_names or invalid_feed"
"""Examples that need a second tenant, which a token does not have, or that a wire refuses before the model does."""


def test_the_conformance_examples_of_jobs_and_feeds_hold_over_http() -> None:
    files = [f"tests/conformance/test_{name}.py" for name in SUITE]
    words = ["-q", "-x", "--stores", "http", "-p", "no:cacheprovider", "-k", f"not ({OTHER_TENANTS}) and not 3-shards"]

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *files], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout[-3_000:]
    assert " passed" in ran.stdout


async def test_a_client_and_a_worker_run_on_a_service_unchanged(service: Running) -> None:
    async with http_store(service) as store:
        app = App()

        @app.job(queue="math")
        async def add(a: int, b: int) -> int:
            return a + b

        handle = await Client(store, tenant="acme", queue="math").enqueue("add", {"a": 1, "b": 2})
        async with app.build_worker(store=store, tenant="acme") as worker:
            await worker.run(until_idle=True)
        result = await handle.result(timeout=10)

    assert result == 3


async def test_a_subscription_to_a_feed_knows_its_own_changes(service: Running) -> None:
    async with http_store(service) as store:
        feeds = Feeds(store, tenant="acme")
        feed = await feeds.feed("news")
        await feed.publish("hello", id="a")
        state = await store.feeds.describe(FeedName("news", "acme"))
        changes = await store.feeds.changes(FeedName("news", "acme"))

    assert state is not None
    assert (state.items, [row.event for row in changes.rows][-1]) == (1, "published")
    assert not changes.rows[-1].instance.startswith("svc/")


async def test_another_tenant_is_refused_before_anything_is_sent(service: Running) -> None:
    async with http_store(service) as store:
        before = dict(service.service.metrics.requests)
        with pytest.raises(Refused, match="the token is for tenant 'acme'"):
            await store.jobs.enqueue([new_job(Queue("q", "beta"), "k", fresh_id="a")])

        assert dict(service.service.metrics.requests) == before


async def test_a_lost_answer_to_a_write_is_an_unknown_outcome_and_is_not_repeated() -> None:
    asked = 0

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /v1/me"):
            me = b'{"tenant":"acme","subject":"s","scopes":[],"queues":null,"operator":false,"expires_at_s":1}'
            import msgspec

            body = msgspec.msgpack.encode(msgspec.json.decode(me))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = await HttpStore.open(_options(port))
    with pytest.raises(OutcomeUnknown) as lost:
        await store.jobs.enqueue([new_job(Queue("q", "acme"), "k", fresh_id="a")])
    with pytest.raises(StoreUnavailable):
        await store.reads.find(Queue("q", "acme"), ["a"])
    await store.close()
    server.close()

    assert lost.value.unknown == ("a",)
    assert asked == 2


def _options(port: int, folder: Path | None = None) -> HttpOptions:
    file = (folder or Path(__file__).parent) / "token"
    return HttpOptions(base=f"http://127.0.0.1:{port}/v1", token_file=None if folder is None else str(file))


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", token())


async def test_a_service_that_cannot_be_reached_has_changed_nothing() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await HttpStore.open(_options(1))


async def test_a_renewed_token_is_read_from_its_file(service: Running, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token())
    store = await HttpStore.open(_options(service.port, tmp_path))
    service.service.auth.forget()
    service.service.auth._issuers = {"new": issuer(name="new")}
    with pytest.raises(StoreUnavailable, match="did not accept the token"):
        await store.now_ms()

    (tmp_path / "token").write_text(token(iss="new"))
    now_ms = await store.now_ms()
    await store.close()

    assert now_ms > 0


async def test_a_claim_over_http_is_repeated_by_its_nonce(service: Running) -> None:
    async with http_store(service) as store:
        await store.jobs.enqueue([new_job(Queue("q", "acme"), "k", fresh_id="a")])
        request = ClaimRequest(queues=[Queue("q", "acme")], worker="w", nonce="nonce-of-mine")
        first, again = await store.jobs.claim(request), await store.jobs.claim(request)

    assert [each.lease for each in first.items] == [each.lease for each in again.items] != []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://jobs.example.org", "shows the token"),
        ("https://user:hunter2@jobs.example.org", "wants no user"),
        ("https://", "names its host"),
        ("https://jobs.example.org?nonsense=1", "no option"),
        ("https://jobs.example.org?connections=0", "connections must be"),
    ],
)
async def test_a_bad_url_of_a_service_is_refused_without_its_secrets(url: str, why: str) -> None:
    with pytest.raises(BadConfig, match=why) as refused:
        await open_store(url)

    assert "hunter2" not in str(refused.value)


async def test_a_service_is_opened_by_its_url() -> None:
    behind = await open_store("memory://")
    async with running(behind) as service:
        store = await open_store(service.url)
        health = await store.health()
        await store.close()
    await behind.close()

    assert health.store == "memory"
