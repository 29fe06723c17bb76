"""Jobs over HTTP: enqueue, claim, extend, settle, find, cancel and wait, on a real socket."""

import asyncio
import base64
import json
from typing import Any

import httpx
import msgspec
import pytest

from headrace.model.claim import ClaimRequest, Claims
from headrace.model.names import Queue
from tests.service.support import Running, problem, token, until


async def post(client: httpx.AsyncClient, path: str, body: object) -> httpx.Response:
    return await client.post(f"/v1{path}", json=body)


async def claim_one(client: httpx.AsyncClient, queue: str = "default", **more: object) -> dict[str, Any]:
    answer = await post(client, "/claims", {"queues": [queue], "worker": "w1", **more})
    assert answer.status_code == 200, answer.text
    [job] = answer.json()["claims"]
    return dict(job)


async def test_a_job_goes_from_enqueue_to_its_result(service: Running) -> None:
    """C20."""
    async with service.client() as client:
        created = await post(client, "/jobs", {"kind": "add", "queue": "math", "payload": {"a": 1}, "id": "sum/1"})
        job = await claim_one(client, "math")
        done = await post(client, "/queues/math/jobs/sum%2F1/done", {"token": job["token"], "result": {"sum": 3}})
        result = await client.get("/v1/queues/math/jobs/sum%2F1/result?wait_ms=1000")

    assert created.status_code == 202
    assert created.headers["location"] == "/v1/queues/math/jobs/sum%2F1"
    assert created.json() == {"id": "sum/1", "queue": "math", "status": "created"}
    assert (job["id"], job["kind"], job["payload"], job["worker"]) == ("sum/1", "add", {"a": 1}, "svc/w1")
    assert (done.status_code, done.json()["status"]) == (200, "done")
    assert result.json()["result"] == {"sum": 3}


@pytest.mark.parametrize("payload", [b'{"big":12345678901234567890123,  "b":1,"a":[1.0,2e3]}', b'"\xc3\xa9"', b"null"])
async def test_a_json_payload_is_kept_byte_for_byte(service: Running, payload: bytes) -> None:
    async with service.client() as client:
        body = b'{"kind":"k","payload":' + payload + b"}"
        await client.post("/v1/jobs", content=body, headers={"content-type": "application/json"})
        claimed = await post(client, "/claims", {"queues": ["default"]})

    assert b'"payload":' + payload + b"," in claimed.content


async def test_bytes_that_are_no_json_travel_as_base64(service: Running) -> None:
    data = base64.b64encode(b"\xff\x00raw").decode()
    async with service.client() as client:
        await post(client, "/jobs", {"kind": "k", "payload_base64": data})
        job = await claim_one(client)

    assert "payload" not in job
    assert job["payload_base64"] == data


async def test_message_pack_carries_payloads_as_bytes(service: Running) -> None:
    kind = "application/msgpack"
    body = msgspec.msgpack.encode({"kind": "k", "payload_base64": b"\xff\x00"})
    async with service.client() as client:
        await client.post("/v1/jobs", content=body, headers={"content-type": kind})
        asked = msgspec.msgpack.encode({"queues": ["default"]})
        answer = await client.post("/v1/claims", content=asked, headers={"content-type": kind, "accept": kind})

    assert answer.headers["content-type"] == kind
    [job] = msgspec.msgpack.decode(answer.content)["claims"]
    assert job["payload_base64"] == b"\xff\x00"


async def test_the_same_idempotency_key_gives_the_first_job_again(service: Running) -> None:
    key = {"idempotency-key": '"order-7"'}
    async with service.client() as client:
        first = await client.post("/v1/jobs", json={"kind": "k", "payload": 1}, headers=key)
        again = await client.post("/v1/jobs", json={"kind": "k", "payload": 1}, headers=key)
        other = await client.post("/v1/jobs", json={"kind": "k", "payload": 2}, headers=key)

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    assert (other.status_code, problem(other)) == (422, "idempotency_conflict")


async def test_an_idempotency_key_belongs_to_its_tenant(service: Running) -> None:
    """CB5: with the key of another tenant, nothing of its job is answered."""
    key = {"idempotency-key": "shared"}
    async with service.client() as ours, service.client(token("beta")) as theirs:
        mine = await ours.post("/v1/jobs", json={"kind": "k", "payload": "mine"}, headers=key)
        other = await theirs.post("/v1/jobs", json={"kind": "k", "payload": "other"}, headers=key)

    assert (mine.status_code, other.status_code) == (202, 202)
    assert mine.json()["id"] != other.json()["id"]


async def test_a_batch_answers_each_job_and_an_invalid_one_spoils_no_other(service: Running) -> None:
    """C9."""
    jobs = [{"kind": "k", "id": "a"}, {"kind": ""}, {"kind": "k", "nonsense": 1}, {"kind": "k", "id": "b"}]
    async with service.client() as client:
        answer = await post(client, "/jobs/batch", {"jobs": jobs})
        keyed = await client.post("/v1/jobs/batch", json={"jobs": jobs}, headers={"idempotency-key": "k"})
        many = await post(client, "/jobs/batch", {"jobs": [{"kind": "k"}] * 1_001})

    results = answer.json()["results"]
    assert [each["status"] for each in results] == ["created", "invalid", "invalid", "created"]
    assert [each["problem"]["type"] for each in results[1:3]] == ["bad_kind", "unknown_field"]
    assert problem(keyed) == "key_on_batch"
    assert (many.status_code, problem(many)) == (413, "batch_too_large")


@pytest.mark.parametrize("member", [{"priority": 10}, {"priority": -1}])
async def test_a_priority_out_of_range_is_refused_and_not_clamped(service: Running, member: dict[str, int]) -> None:
    async with service.client() as client:
        answer = await post(client, "/jobs", {"kind": "k", **member})

    assert (answer.status_code, problem(answer)) == (422, "bad_priority")


async def test_a_waiting_claim_gets_a_job_as_soon_as_there_is_one(service: Running) -> None:
    """C13."""
    async with service.client() as client:
        waiting = asyncio.create_task(claim_one(client, wait_ms=20_000))
        await until(lambda: bool(service.service.admission.polls.total))
        await post(client, "/jobs", {"kind": "k", "id": "late"})
        job = await waiting

    assert job["id"] == "late"


async def test_claims_that_wait_stand_in_line_so_that_one_job_wakes_one(service: Running) -> None:
    """C13."""
    jobs, calls = service.service.store.jobs, 0
    claim = jobs.claim

    async def counted(request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        nonlocal calls
        calls += 1
        return await claim(request, now_ms=now_ms)

    jobs.claim = counted  # type: ignore[method-assign]  # counts the calls that reach the real one
    async with service.client() as client:
        body = {"queues": ["default"], "wait_ms": 20_000}
        waiting = [asyncio.create_task(post(client, "/claims", body)) for _ in range(40)]
        await until(lambda: service.service.admission.polls.of("acme") == calls == 40)
        calls = 0
        await post(client, "/jobs", {"kind": "k"})
        done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        service.service.shutdown.begin()
        rest = [each.result().json()["claims"] for each in (await asyncio.wait(still))[0]]

    assert [len(each.result().json()["claims"]) for each in done] == [1]
    assert calls <= 2
    assert rest == [[]] * 39


async def test_jobs_claimed_for_a_client_that_has_left_are_given_back(service: Running) -> None:
    store = service.service.store
    async with service.client() as client:
        body = json.dumps({"queues": ["default"], "wait_ms": 20_000}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)
        head = f"POST /v1/claims HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await until(lambda: bool(service.service.admission.polls.total))
        writer.close()
        await until(lambda: not service.service.admission.polls.total)
        await post(client, "/jobs", {"kind": "k", "id": "kept"})

    [found] = await store.reads.find(Queue("default", "acme"), ["kept"])
    assert found is not None
    assert (found.state, found.worker) == ("waiting", None)


async def test_a_lease_is_settled_only_with_its_own_token(service: Running) -> None:
    async with service.client() as client:
        await post(client, "/jobs", {"kind": "k", "id": "a"})
        job = await claim_one(client)
        path = "/queues/default/jobs/a"
        forged = await post(client, f"{path}/done", {"token": "guessed-nonce.1"})
        unknown = await post(client, "/queues/default/jobs/zz/done", {"token": job["token"]})
        extended = await post(client, f"{path}/extend", {"token": job["token"], "lease_ms": 60_000})
        done = await post(client, f"{path}/done", {"token": job["token"]})
        again = await post(client, f"{path}/release", {"token": job["token"]})

    assert (forged.status_code, problem(forged)) == (409, "lease_mismatch")
    assert (unknown.status_code, problem(unknown)) == (404, "unknown_job")
    assert (extended.status_code, done.status_code) == (200, 200)
    assert (again.status_code, problem(again)) == (409, "not_active")  # CB7: a finished job does not wait again


async def test_a_heartbeat_on_a_lost_lease_says_so(service: Running) -> None:
    """C15, CB6: a lease that is not held is never extended."""
    async with service.client() as client:
        await post(client, "/jobs", {"kind": "k", "id": "a"})
        first = await claim_one(client)
        await post(client, "/leases/settle", {"settlements": [_settlement(first, "release")]})
        second = await claim_one(client)
        leases = [{"queue": "default", "id": "a", "token": each["token"]} for each in (first, second)]
        answer = await post(client, "/leases/extend", {"leases": leases, "lease_ms": 60_000})

    assert [each["status"] for each in answer.json()["results"]] == ["lease_mismatch", "extended"]


def _settlement(job: dict[str, Any], outcome: str, **more: object) -> dict[str, object]:
    return {"queue": job["queue"], "id": job["id"], "token": job["token"], "outcome": outcome, **more}


async def test_a_turn_settles_then_claims(service: Running) -> None:
    """C14."""
    async with service.client() as client:
        await post(client, "/jobs/batch", {"jobs": [{"kind": "k", "id": "a"}, {"kind": "k", "id": "b"}]})
        first = await claim_one(client)
        body = {"settlements": [_settlement(first, "done", result=[1])], "claim": {"queues": ["default"]}}
        answer = (await post(client, "/leases/turn", body)).json()

    assert [each["status"] for each in answer["settled"]] == ["done"]
    assert [each["id"] for each in answer["claims"]] == ["b"]


async def test_a_retry_waits_no_longer_than_the_longest_backoff_of_the_job(service: Running) -> None:
    async with service.client() as client:
        await post(client, "/jobs", {"kind": "k", "id": "a", "backoff_ms_max": 5_000})
        job = await claim_one(client)
        body = {"token": job["token"], "error": {"class": "Late"}, "delay_ms": 3_600_000}
        answer = (await post(client, "/queues/default/jobs/a/retry", body)).json()

    assert answer["status"] == "retried"
    assert answer["run_at_ms"] - job["claimed_at_ms"] < 60_000


async def test_a_failed_job_shows_its_error_and_no_token(service: Running) -> None:
    """C20."""
    error = {"class": "Boom", "message": "postgres://user:hunter2@db/x"}
    async with service.client() as client:
        await post(client, "/jobs", {"kind": "k", "id": "a"})
        job = await claim_one(client)
        active = await client.get("/v1/queues/default/jobs/a")
        await post(client, "/queues/default/jobs/a/fail", {"token": job["token"], "error": error})
        dead = await client.get("/v1/queues/default/jobs/a")
        result = await client.get("/v1/queues/default/jobs/a/result")

    assert active.json()["state"] == "active"
    assert job["token"] not in active.text
    assert job["token"].split(".")[0] not in active.text
    [dead_letter] = dead.json()["dead_letters"]
    assert dead_letter["error"] == {"class": "Boom", "message": "postgres://…@db/x"}
    assert "hunter2" not in dead.text + result.text
    assert (result.json()["state"], result.json()["reason"]) == ("dead", "failed")


async def test_a_result_that_is_not_there_yet_is_a_202(service: Running) -> None:
    """C23."""
    async with service.client() as client:
        await post(client, "/jobs", {"kind": "k", "id": "a"})
        waiting = await client.get("/v1/queues/default/jobs/a/result?wait_ms=1")
        unknown = await client.get("/v1/queues/default/jobs/b/result")

    assert (waiting.status_code, waiting.json()["state"]) == (202, "waiting")
    assert (unknown.status_code, problem(unknown)) == (404, "unknown_job")


async def test_jobs_are_cancelled_and_removed_in_the_order_of_their_ids(service: Running) -> None:
    async with service.client() as client:
        await post(client, "/jobs/batch", {"jobs": [{"kind": "k", "id": "a"}, {"kind": "k", "id": "b"}]})
        cancelled = await post(client, "/queues/default/jobs/cancel", {"ids": ["zz", "a"]})
        one = await client.post("/v1/queues/default/jobs/b/cancel")
        removed = await post(client, "/queues/default/jobs/remove", {"ids": ["a", "zz"]})
        found = await post(client, "/queues/default/jobs/find", {"ids": ["a", "b"], "content": False})

    assert [each["status"] for each in cancelled.json()["results"]] == ["not_found", "cancelled"]
    assert one.json()["status"] == "cancelled"
    assert [each["status"] for each in removed.json()["results"]] == ["removed", "not_found"]
    assert [row and row["state"] for row in found.json()["rows"]] == [None, "cancelled"]
