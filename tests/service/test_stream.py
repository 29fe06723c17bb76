"""Server-sent events over a socket: what happens, in order, and from where a client left off."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from headrace.model.clock import ManualClock, SystemClock
from headrace.stores.open import open_store
from tests.service.support import Running, problem, running, token, until


async def events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream, each with its id, name and data."""
    found: dict[str, Any] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name in ("id", "event"):
            found[name] = value
        elif name == "data":
            found["data"] = json.loads(value)
        elif not line and "event" in found:
            yield found
            found = {}


async def take(stream: AsyncIterator[dict[str, Any]], last: str) -> list[dict[str, Any]]:
    """The events up to one of that name."""
    taken = []
    async for each in stream:
        taken.append(each)
        if each["event"] == last:
            return taken
    raise AssertionError(f"the stream ended before {last}: {taken}")


async def test_a_feed_is_followed_and_continues_after_the_last_event(service: Running) -> None:
    async with service.client() as client:
        await client.put("/v1/feeds/news", json={})
        await client.post("/v1/feeds/news/items", json={"items": [{"id": "a", "item": {"n": 1}}]})
        async with client.stream("GET", "/v1/stream?topic=feed:news") as answer:
            stream = events(answer)
            begin = await take(stream, "live")
            await client.post("/v1/feeds/news/items", json={"items": [{"id": "b", "item": "line\nbreak"}]})
            [published] = await take(stream, "published")
        await client.post("/v1/feeds/news/items", json={"items": [{"id": "c", "item": 3}]})
        headers = {"last-event-id": published["id"]}
        async with client.stream("GET", "/v1/stream?topic=feed:news", headers=headers) as answer:
            rest = await take(events(answer), "published")

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [each["event"] for each in begin] == ["hello", "present", "live"]
    assert begin[1]["data"]["item"] == {"n": 1}
    assert (published["data"]["id"], published["data"]["item"]) == ("b", "line\nbreak")
    assert [(each["event"], each["data"].get("id")) for each in rest] == [("hello", None), ("published", "c")]


async def test_events_of_a_queue_and_of_one_job_come_without_payloads(service: Running) -> None:
    async with service.client() as client:
        await client.patch("/v1/queues/mail", json={"journal_payloads": True})
        path = "/v1/stream?topic=queue:mail&topic=job:mail/b"
        async with client.stream("GET", path) as answer:
            stream = events(answer)
            lives = [await take(stream, "live"), await take(stream, "live")]
            for id in ("a", "b"):
                job = {"kind": "k", "queue": "mail", "id": id, "payload": "canary"}
                await client.post("/v1/jobs", json=job)
            seen = [await anext(stream) for _ in range(3)]

    assert {each[-1]["data"]["topic"] for each in lives} == {"queue:mail", "job:mail/b"}
    pairs = sorted((each["data"]["topic"], each["data"]["id"]) for each in seen)
    assert pairs == [("job:mail/b", "b"), ("queue:mail", "a"), ("queue:mail", "b")]
    assert "canary" not in json.dumps(seen)


async def test_a_stream_ends_with_its_token() -> None:
    store = await open_store("memory://")
    clock = ManualClock(SystemClock().now_ms())
    async with running(store, clock=clock) as service, service.client() as client:
        await client.put("/v1/feeds/news", json={})
        async with client.stream("GET", "/v1/stream?topic=feed:news") as answer:
            stream = events(answer)
            await take(stream, "live")
            clock.advance(3_600_000)
            last = await take(stream, "expired")
            rest = [each async for each in stream]
    await store.close()

    assert [each["event"] for each in last] == ["expired"]
    assert rest == []


async def test_a_stream_is_told_when_the_service_stops(service: Running) -> None:
    async with service.client() as client:
        await client.put("/v1/feeds/news", json={})
        async with client.stream("GET", "/v1/stream?topic=feed:news") as answer:
            stream = events(answer)
            await take(stream, "live")
            service.service.shutdown.begin()
            last = await take(stream, "draining")

    assert [each["event"] for each in last] == ["draining"]


async def test_a_client_that_leaves_frees_its_place(service: Running) -> None:
    async with service.client() as client:
        await client.put("/v1/feeds/news", json={})
        async with client.stream("GET", "/v1/stream?topic=feed:news") as answer:
            await take(events(answer), "live")
            assert service.service.admission.streams.of("acme") == 1
    await until(lambda: not service.service.admission.streams.total)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "bad_query"),
        ("topic=nonsense", "bad_query"),
        ("topic=feed:*", "bad_query"),
        ("topic=feed:none", "unknown_feed"),
        ("topic=feed:headrace.revoked", "reserved_name"),
        ("topic=queue:a/b", "bad_queue"),
        ("topic=job:mail/", "bad_id"),
        ("topic=queue:mail&last_event_id=x", "bad_cursor"),
        ("topic=queue:mail&last_event_id=WyJhIl0", "bad_cursor"),
        ("&".join(f"topic=queue:q{number}" for number in range(9)), "bad_query"),
    ],
)
async def test_a_bad_stream_is_refused_before_it_begins(service: Running, query: str, name: str) -> None:
    async with service.client() as client:
        answer = await client.get(f"/v1/stream?{query}")

    assert problem(answer) == name


async def test_a_stream_shows_only_what_the_token_covers(service: Running) -> None:
    async with service.client() as whole, service.client(token(queues=["news"])) as some:
        for feed in ("news", "other"):
            await whole.put(f"/v1/feeds/{feed}", json={})
        refused = await some.get("/v1/stream?topic=feed:other")
        async with some.stream("GET", "/v1/stream?topic=feeds") as answer:
            listed = await take(events(answer), "live")
        async with service.client(token("beta")) as other:
            unknown = await other.get("/v1/stream?topic=feed:news")

    assert problem(refused) == "foreign_queue"
    assert [each["data"]["id"] for each in listed if each["event"] == "present"] == ["news"]
    assert problem(unknown) == "unknown_feed"
