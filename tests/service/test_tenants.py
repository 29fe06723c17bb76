"""Tenants see nothing of each other, whatever they send."""

import json
import random
from typing import Any

import httpx

from headrace.model.names import Queue
from headrace.service.table import OPERATIONS
from tests.service.support import Running, problem, token
from tests.service.test_tokens import target

TENANTS = [f"tenant-{number}" for number in range(8)]


def mark(tenant: str) -> str:
    return f"secret-of-{tenant}-"


async def _steps(client: httpx.AsyncClient, tenant: str, rng: random.Random) -> list[httpx.Response]:
    """Work of one tenant with marks of its own everywhere, under ids and queues that all tenants share."""
    id, queue = f"job-{rng.randrange(3)}", rng.choice(["mail", "default"])
    job = {"kind": "k", "queue": queue, "id": id, "payload": mark(tenant), "tag": mark(tenant)}
    answers = [await client.post("/v1/jobs", json=job, headers={"idempotency-key": f"key-{rng.randrange(3)}"})]
    claimed = await client.post("/v1/claims", json={"queues": [queue], "worker": mark(tenant)})
    answers.append(claimed)
    for each in claimed.json()["claims"]:
        outcome = rng.choice(["done", "fail", "release", "retry"])
        body: dict[str, Any] = {"token": each["token"]}
        body |= {"result": mark(tenant)} if outcome == "done" else {}
        body |= {"error": {"class": "E", "message": mark(tenant)}} if outcome in ("fail", "retry") else {}
        answers.append(await client.post(f"/v1/queues/{queue}/jobs/{each['id']}/{outcome}", json=body))
    paths = [target(each) for each in OPERATIONS if each.method == "GET" and not (each.is_public or each.is_stream)]
    answers += [await client.get(path.replace("/jobs/a", f"/jobs/{id}")) for path in paths]
    answers.append(await client.post(f"/v1/queues/{queue}/jobs/find", json={"ids": [f"job-{n}" for n in range(3)]}))
    return answers


async def test_no_answer_holds_a_mark_of_another_tenant(service: Running) -> None:
    rng = random.Random(7)
    clients = {tenant: service.client(token(tenant)) for tenant in TENANTS}
    leaks, seen_own = [], 0
    for _ in range(6):
        for tenant in rng.sample(TENANTS, len(TENANTS)):
            for answer in await _steps(clients[tenant], tenant, rng):
                assert answer.status_code < 500, answer.text
                text = answer.text + json.dumps(dict(answer.headers))
                seen_own += mark(tenant) in text
                leaks += [(tenant, str(answer.url)) for other in TENANTS if other != tenant and mark(other) in text]
    for client in clients.values():
        await client.aclose()

    assert leaks == []
    assert seen_own > 100  # the marks are in what is answered


async def test_a_lease_of_one_tenant_is_nothing_to_another(service: Running) -> None:
    async with service.client() as ours, service.client(token("beta")) as theirs:
        for client in (ours, theirs):
            await client.post("/v1/jobs", json={"kind": "k", "id": "a"})
        [job] = (await ours.post("/v1/claims", json={"queues": ["default"]})).json()["claims"]
        settled = await theirs.post("/v1/queues/default/jobs/a/done", json={"token": job["token"]})
        extended = await theirs.post(
            "/v1/leases/extend", json={"leases": [{"queue": "default", "id": "a", "token": job["token"]}]}
        )
        cancelled = await theirs.post("/v1/queues/default/jobs/cancel", json={"ids": ["a"], "running": True})
        found = (await ours.get("/v1/queues/default/jobs/a")).json()

    assert (settled.status_code, problem(settled)) == (409, "not_active")
    assert extended.json()["results"][0]["status"] == "not_active"
    assert cancelled.json()["results"][0]["status"] == "cancelled"  # their own job of that id
    assert (found["state"], found["cancel_asked"]) == ("active", False)


async def test_an_id_of_another_tenant_answers_as_an_unknown_one(service: Running) -> None:
    """CB12: reading, waiting and settling know only the caller's tenant."""
    async with service.client() as ours, service.client(token("beta")) as theirs:
        await ours.post("/v1/jobs", json={"kind": "k", "id": "job-1"})
        for path in ("", "/result"):
            answers = []
            for id in ("job-1", "job-2"):
                answer = await theirs.get(f"/v1/queues/default/jobs/{id}{path}", headers={"x-request-id": "same"})
                answers.append((answer.status_code, answer.text.replace(id, "ID")))
            assert answers[0] == answers[1]
            assert answers[0][0] == 404


async def test_a_subject_with_a_slash_is_told_apart_from_a_worker_with_one(service: Running) -> None:
    names = []
    for subject, worker in (("a", "b/w"), ("a/b", "w")):
        async with service.client(token(sub=subject)) as client:
            await client.post("/v1/jobs", json={"kind": "work"})
            claims = (await client.post("/v1/claims", json={"queues": ["default"], "worker": worker})).json()["claims"]
            names.append(claims[0]["worker"])

    assert names == ["a/b/w", "a%2Fb/w"]


async def test_a_worker_appears_in_the_journal_under_its_own_subject(service: Running) -> None:
    """CB11: no claim and no settlement can be made in the name of another worker."""
    async with service.client(token(sub="mallory")) as client:
        await client.post("/v1/jobs", json={"kind": "k", "id": "a"})
        [job] = (await client.post("/v1/claims", json={"queues": ["default"], "worker": "alice/w"})).json()["claims"]
        facts = {"kind": "k", "priority": 5, "worker": "alice/w", "enqueued_at_ms": 0, "wait_ms": 0, "payload_bytes": 1}
        settlement = {"queue": "default", "id": "a", "token": job["token"], "outcome": "done", "facts": facts}
        await client.post("/v1/leases/settle", json={"settlements": [settlement]})

    [shard] = Queue("default", "acme").all_shards()
    entries = await service.service.store.journal.read(shard, 0, 100)
    workers = {event.line.worker for entry in entries for event in entry.events(shard)} | {e.worker for e in entries}
    assert job["worker"] == "mallory/alice/w"
    assert workers - {None} == {"mallory/alice/w"}


async def test_a_request_has_no_place_for_a_tenant(service: Running) -> None:
    async with service.client() as client:
        in_body = await client.post("/v1/jobs", json={"kind": "k", "tenant": "beta"})
        in_queue = await client.post("/v1/jobs", json={"kind": "k", "queue": {"name": "q", "tenant": "beta"}})
        in_query = await client.get("/v1/queues/q/jobs/a?tenant=beta")
        in_header = await client.get("/v1/me", headers={"headrace-tenant": "beta"})

    assert [problem(each) for each in (in_body, in_queue, in_query)] == ["unknown_field", "unknown_field", "bad_query"]
    assert in_header.json()["tenant"] == "acme"
