"""Hostile bytes on a socket: each ends in the documented answer or a cut connection, and harms nobody else."""

import asyncio
import gzip
import json
import zlib

import pytest

from headrace.service import guard
from tests.service.support import Running, token

BODY = b'{"kind":"k"}'


def head(*lines: str, path: str = "/v1/jobs", method: str = "POST") -> bytes:
    """The head of a request with a good token."""
    every = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token()}", *lines, "", ""]
    return "\r\n".join(every).encode("latin-1")


def post(body: bytes, *lines: str, path: str = "/v1/jobs", kind: str = "application/json") -> bytes:
    """A whole request that closes its connection."""
    length = f"Content-Length: {len(body)}"
    return head(f"Content-Type: {kind}", length, "Connection: close", *lines, path=path) + body


def statuses(answer: bytes) -> list[int]:
    """The statuses of the answers on a connection."""
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def name_of(answer: bytes) -> str:
    """The name of the one problem."""
    document = json.loads(answer.rpartition(b"\r\n\r\n")[2])
    return str(document["type"]).removeprefix("urn:headrace:problem:")


BODIES = {
    "not JSON": (b"{", 400, "malformed"),
    "empty": (b"", 400, "malformed"),
    "a list": (b"[]", 422, "invalid"),
    "null": (b"null", 422, "invalid"),
    "a BOM": (b"\xef\xbb\xbf" + BODY, 400, "malformed"),
    "invalid UTF-8": (b'{"kind":"\xff"}', 400, "malformed"),
    "invalid UTF-8 in a payload": (b'{"kind":"k","payload":"\xff"}', 400, "malformed"),
    "overlong UTF-8": (b'{"kind":"\xc0\xaf"}', 400, "malformed"),
    "half a character": (b'{"kind":"\\ud800"}', 400, "malformed"),
    "half a character in a payload": (b'{"kind":"k","payload":"\\ud800"}', 400, "malformed"),
    "65 levels": (b'{"kind":"k","payload":' + b"[" * 64 + b"]" * 64 + b"}", 400, "too_deep"),
    "far too deep": (b"[" * 500_000, 400, "too_deep"),
    "a number of 10,000 digits": (b'{"kind":"k","priority":' + b"1" * 10_000 + b"}", 422, "invalid"),
    "1e999": (b'{"kind":"k","payload":1e999}', 422, "bad_payload"),
    "NaN": (b'{"kind":"k","payload":NaN}', 400, "malformed"),
    "trailing text": (BODY + b"x", 400, "malformed"),
    "two documents": (BODY + BODY, 400, "malformed"),
    "an unknown member": (b'{"kind":"k","tenant":"beta"}', 422, "unknown_field"),
    "a wrong type": (b'{"kind":7}', 422, "invalid"),
    "a float": (b'{"kind":"k","priority":1.5}', 422, "invalid"),
    "true for a number": (b'{"kind":"k","priority":true}', 422, "invalid"),
    "a NUL in an id": (b'{"kind":"k","id":"a\\u0000"}', 422, "bad_id"),
    "a line break in an id": (b'{"kind":"k","id":"a\\r\\nx: y"}', 422, "bad_id"),
    "a long id": (b'{"kind":"k","id":"' + b"x" * 257 + b'"}', 422, "bad_id"),
    "a bad queue": (b'{"kind":"k","queue":"a/b"}', 422, "bad_queue"),
    "both payloads": (b'{"kind":"k","payload":1,"payload_base64":"AA=="}', 422, "bad_payload"),
    "no base64": (b'{"kind":"k","payload_base64":"%"}', 422, "invalid"),
    "a large payload": (b'{"kind":"k","payload":"' + b"x" * 262_144 + b'"}', 422, "payload_too_large"),
    "two times": (b'{"kind":"k","run_at_ms":1,"delay_ms":1}', 422, "bad_time"),
    "1 MiB and more": (b'{"kind":"' + b"x" * 1_048_576 + b'"}', 413, "body_too_large"),
}


@pytest.mark.parametrize("case", BODIES)
async def test_a_bad_body_has_its_problem(service: Running, case: str) -> None:
    body, status, name = BODIES[case]

    answer = await service.raw(post(body))

    assert (statuses(answer), name_of(answer)) == ([status], name)


HEADS = {
    "no content type": (head("Content-Length: 12", "Connection: close") + BODY, 415),
    "a form": (post(BODY, kind="application/x-www-form-urlencoded"), 415),
    "another charset": (post(BODY, kind="application/json; charset=utf-16"), 415),
    "another encoding": (post(BODY, "Content-Encoding: br"), 415),
    "gzip that is none": (post(BODY, "Content-Encoding: gzip"), 400),
    "gzip cut": (post(gzip.compress(BODY)[:-4], "Content-Encoding: gzip"), 400),
    "gzip of gigabytes": (post(gzip.compress(bytes(50_000_000)), "Content-Encoding: gzip"), 413),
    "an Accept of nothing that is here": (post(BODY, "Accept: text/html"), 406),
    "the length given twice": (post(BODY, "Content-Length: 3"), 400),
    "length and chunks": (post(BODY, "Transfer-Encoding: chunked"), 400),
    "a folded header": (post(BODY, "X-A: b\r\n c: d"), 400),
    "a header without a name": (post(BODY, ": x"), 400),
    "a space before the colon": (post(BODY, "X-A : b"), 400),
    "a NUL in a header": (post(BODY, "X-A: b\0c"), 400),
    "a negative length": (head("Content-Length: -1", "Content-Type: application/json"), 400),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "a bad method": (b"B{D / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "an unknown method": (head("Connection: close", method="PURGE"), 405),
    "a query that is none": (head("Connection: close", path="/v1/queues/q/jobs/a?wait", method="GET"), 400),
    "an unknown parameter": (head("Connection: close", path="/v1/queues/q/jobs/a?x=1", method="GET"), 400),
    "a parameter given twice": (
        head("Connection: close", path="/v1/queues/q/jobs/a?content=1&content=0", method="GET"),
        400,
    ),
    "a long query": (head("Connection: close", path="/v1/me?" + "x" * 9_000, method="GET"), 400),
    "a path that is not UTF-8": (head("Connection: close", path="/v1/queues/%ff/jobs/a", method="GET"), 400),
    "dots in the path": (head("Connection: close", path="/v1/queues/../../etc/passwd", method="GET"), 404),
    "a NUL in the path": (head("Connection: close", path="/v1/queues/q/jobs/a%00", method="GET"), 422),
    "a head of 17 KB": (head("X-A: " + "x" * 17_000, "Connection: close"), 431),
    "10,000 headers": (head(*["X-A: b"] * 10_000, "Connection: close"), 431),
    "a body for GET": (head("Content-Length: 5", "Connection: close", path="/v1/me", method="GET") + b"12345", 200),
}


@pytest.mark.parametrize("case", HEADS)
async def test_a_bad_head_has_its_status(service: Running, case: str) -> None:
    request, status = HEADS[case]

    answer = await service.raw(request, read_seconds=2)

    assert statuses(answer) == [status]


async def test_nothing_is_smuggled_behind_a_bad_length(service: Running) -> None:
    inner = head(path="/v1/me", method="GET")
    body = b"0\r\n\r\n" + inner
    lines = (f"Content-Length: {len(body)}", "Transfer-Encoding: chunked", "Content-Type: application/json")

    answer = await service.raw(head(*lines) + body)

    assert b'"subject"' not in answer


async def test_requests_on_one_connection_are_answered_in_order(service: Running) -> None:
    first = head(f"Content-Length: {len(BODY)}", "Content-Type: application/json", "X-Request-Id: first") + BODY
    second = head("X-Request-Id: second", "Connection: close", path="/v1/me", method="GET")

    answer = await service.raw(first + second)

    assert statuses(answer) == [202, 200]
    assert answer.index(b"x-request-id: first") < answer.index(b"x-request-id: second")


async def test_a_head_that_never_ends_is_cut(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUEST_RECEIVE_S", 0.2)

    answer = await service.raw(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n")

    assert statuses(answer) == [408]


async def test_a_body_that_never_ends_is_cut(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUEST_RECEIVE_S", 0.2)

    answer = await service.raw(head("Content-Length: 100", "Content-Type: application/json") + b"{")

    assert statuses(answer) == [408]


async def test_bytes_in_a_trickle_do_not_move_the_deadline(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUEST_RECEIVE_S", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(b"GET / HTTP/1.1\r\nX-A: ")
    answer = asyncio.create_task(reader.read())
    for _ in range(100):
        writer.write(b"x")
        await asyncio.wait({answer}, timeout=0.05)
        if answer.done():
            break
    writer.close()

    assert statuses(await answer) == [408]


@pytest.mark.parametrize("given", [b"a\tb", b"x" * 65, b"", b"\xff", b"a b", b"<script>"])
async def test_only_a_plain_request_id_is_echoed(service: Running, given: bytes) -> None:
    request = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: " + given + b"\r\n\r\n"

    answer = await service.raw(request)

    assert statuses(answer) == [200]
    assert not given or b"x-request-id: " + given not in answer


async def test_every_answer_has_its_headers(service: Running) -> None:
    async with service.client() as client:
        answers = [
            await client.get("/v1/me"),
            await client.get("/nothing"),
            await client.delete("/v1/jobs"),
            await client.post("/v1/jobs", content=b"{"),
            await client.get("/v1/me", headers={"authorization": "x"}),
            await client.options("/v1/jobs"),
            await client.head("/v1/me"),
        ]

    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["headrace-version"] == "test"
        assert answer.headers["x-request-id"]
        assert "server" not in answer.headers
    assert [each.status_code for each in answers] == [200, 404, 405, 415, 401, 204, 200]
    assert answers[-1].content == b""
    assert answers[-1].headers["content-length"] == answers[0].headers["content-length"]


async def test_bodies_and_answers_may_be_gzip(service: Running) -> None:
    jobs = json.dumps({"jobs": [{"kind": "k", "id": f"{n}"} for n in range(200)]}).encode()

    answer = await service.raw(
        post(gzip.compress(jobs), "Content-Encoding: gzip", "Accept-Encoding: gzip", path="/v1/jobs/batch")
    )

    start, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in start
    assert len(json.loads(zlib.decompress(body, 31))["results"]) == 200


async def test_a_fault_tells_nothing_and_is_logged(
    service: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*_: object) -> None:
        raise KeyError("secret-detail")

    monkeypatch.setattr(service.service.queues, "find", explode)
    answer = await service.raw(post(BODY))

    assert (statuses(answer), name_of(answer)) == ([500], "fault")
    assert b"secret-detail" not in answer
    assert b"Traceback" not in answer
    assert "secret-detail" in caplog.text
