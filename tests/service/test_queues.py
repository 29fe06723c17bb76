"""Queues, dead letters and journals over HTTP."""

from typing import Any

import httpx

from tests.service.support import Running, problem, token


async def dead_job(client: httpx.AsyncClient, id: str, queue: str = "mail") -> None:
    """Let a job die."""
    await client.post("/v1/jobs", json={"kind": "k", "queue": queue, "id": id, "payload": {"n": id}})
    [job] = (await client.post("/v1/claims", json={"queues": [queue]})).json()["claims"]
    error = {"class": "Boom", "message": "it broke"}
    await client.post(f"/v1/queues/{queue}/jobs/{job['id']}/fail", json={"token": job["token"], "error": error})


async def test_queues_are_listed_with_their_counts(service: Running) -> None:
    """C29, CB8: the queues of the token's tenant, whatever their names."""
    async with service.client() as client, service.client(token("beta")) as other:
        for queue in ("a", "b", "c"):
            await client.post("/v1/jobs", json={"kind": "k", "queue": queue})
        await other.post("/v1/jobs", json={"kind": "k", "queue": "hidden"})
        first = (await client.get("/v1/queues?limit=2")).json()
        second = (await client.get(f"/v1/queues?limit=2&cursor={first['cursor']}")).json()
        foreign = await other.get(f"/v1/queues?limit=2&cursor={first['cursor']}")

    assert [row["queue"] for row in first["rows"] + second["rows"]] == ["a", "b", "c"]
    assert [row["counts"]["waiting"] for row in first["rows"]] == [1, 1]
    assert second["cursor"] is None
    assert (foreign.status_code, problem(foreign)) == (422, "bad_cursor")


async def test_a_configuration_is_changed_only_as_it_was_read(service: Running) -> None:
    async with service.client() as client:
        created = await client.patch("/v1/queues/mail", json={"max_attempts": 3})
        shown = await client.get("/v1/queues/mail")
        same = await client.get("/v1/queues/mail", headers={"if-none-match": shown.headers["etag"]})
        paused = await client.post("/v1/queues/mail/pause")
        late = await client.patch(
            "/v1/queues/mail", json={"max_attempts": 4}, headers={"if-match": shown.headers["etag"]}
        )
        wrong = await client.patch("/v1/queues/mail", json={"max_attempts": 0})
        unknown = await client.patch("/v1/queues/mail", json={"nonsense": 1})

    assert (created.status_code, created.headers["etag"]) == (200, '"v1"')
    assert shown.json()["config"]["max_attempts"] == 3
    assert (same.status_code, same.content) == (304, b"")
    assert paused.json()["paused"] is True
    assert (late.status_code, problem(late)) == (412, "version_changed")
    assert (wrong.status_code, problem(wrong)) == (422, "bad_max_attempts")
    assert (unknown.status_code, problem(unknown)) == (422, "bad_config")


async def test_a_queue_is_deleted_only_with_its_name_said_twice_and_when_it_is_empty(service: Running) -> None:
    async with service.client() as client:
        await client.post("/v1/jobs", json={"kind": "k", "queue": "mail"})
        unsaid = await client.delete("/v1/queues/mail")
        full = await client.delete("/v1/queues/mail?confirm=mail")
        purged = await client.post("/v1/queues/mail/purge")
        gone = await client.delete("/v1/queues/mail?confirm=mail")
        shown = await client.get("/v1/queues/mail")

    assert [problem(unsaid), problem(full), problem(shown)] == ["unconfirmed", "not_empty", "unknown_queue"]
    assert purged.json() == {"purged": 1, "more": False}
    assert gone.status_code == 204


async def test_a_backlog_counts_jobs_that_are_ready_and_jobs_that_run(service: Running) -> None:
    async with service.client() as client:
        jobs = [{"kind": "k", "queue": "mail"}, {"kind": "k", "queue": "mail"}]
        later = [{"kind": "k", "queue": "mail", "delay_ms": 60_000}]
        await client.post("/v1/jobs/batch", json={"jobs": jobs + later})
        await client.post("/v1/claims", json={"queues": ["mail"]})
        answer = (await client.get("/v1/queues/mail/backlog")).json()
        await client.post("/v1/jobs", json={"kind": "k", "queue": "mail"})
        again = (await client.get("/v1/queues/mail/backlog")).json()

    assert {name: answer[name] for name in ("value", "ready", "active", "later")} == {
        "value": 2,
        "ready": 1,
        "active": 1,
        "later": 1,
    }
    assert again == answer  # remembered for a second


async def test_dead_letters_are_listed_replayed_and_purged(service: Running) -> None:
    """C29."""
    async with service.client() as client:
        for id in ("a", "b", "c"):
            await dead_job(client, id)
        listed = (await client.get("/v1/queues/mail/dead?limit=2")).json()
        rest = (await client.get(f"/v1/queues/mail/dead?limit=2&cursor={listed['cursor']}")).json()
        filtered = (await client.get("/v1/queues/mail/dead?id=b")).json()
        moved = await client.get(f"/v1/queues/mail/dead?id=b&cursor={listed['cursor']}")
        keys = [row["key"] for row in listed["rows"]]
        shown = (await client.get(f"/v1/queues/mail/dead/{keys[0]}")).json()
        missing = await client.get("/v1/queues/mail/dead/0:999")
        malformed = await client.get("/v1/queues/mail/dead/x")
        replayed = await client.post("/v1/queues/mail/dead/replay", json={"dead_letters": [keys[0]], "ids": ["zz"]})
        purged = await client.post("/v1/queues/mail/dead/purge", json={"dead_letters": keys})

    assert [row["record"]["id"] for row in listed["rows"] + rest["rows"]] == ["a", "b", "c"]
    assert "payload" not in listed["rows"][0]["record"]
    assert [row["record"]["id"] for row in filtered["rows"]] == ["b"]
    assert problem(moved) == "bad_cursor"
    assert shown["record"]["payload"] == {"n": "a"}
    assert [problem(missing), problem(malformed)] == ["unknown_dead_letter", "bad_dead_letter"]
    assert [each["status"] for each in replayed.json()["results"]] == ["replayed", "not_found"]
    assert purged.json() == {"purged": 1}


async def test_jobs_are_listed_searched_and_located(service: Running) -> None:
    async with service.client() as client:
        jobs = [{"kind": "k", "queue": "mail", "id": f"id-{n}", "tag": f"t{n}"} for n in range(3)]
        await client.post("/v1/jobs/batch", json={"jobs": jobs})
        listed = (await client.get("/v1/queues/mail/jobs?state=waiting&limit=2")).json()
        rest = (await client.get(f"/v1/queues/mail/jobs?limit=2&cursor={listed['cursor']}")).json()
        found = (await client.post("/v1/jobs/search", json={"text": "T1"})).json()
        located = (await client.get("/v1/jobs?id=id-2")).json()
        life = (await client.get("/v1/queues/mail/jobs/id-2/life")).json()
        unknown = await client.get("/v1/queues/mail/jobs/zz/life")

    assert [row["id"] for row in listed["rows"] + rest["rows"]] == ["id-0", "id-1", "id-2"]
    assert [row["id"] for row in found["rows"]] == ["id-1"]
    assert [(row["queue"], row["job"]["id"]) for row in located["rows"]] == [("mail", "id-2")]
    assert [event["event"] for event in life["events"]] == ["enqueued"]
    assert problem(unknown) == "unknown_job"


async def test_a_token_for_some_queues_sees_only_those(service: Running) -> None:
    async with service.client() as whole, service.client(token(queues=["mail"])) as some:
        for queue in ("mail", "other"):
            await whole.post("/v1/jobs", json={"kind": "k", "queue": queue, "id": "same"})
        listed = (await some.get("/v1/queues")).json()
        located = (await some.get("/v1/jobs?id=same")).json()
        everywhere = await some.post("/v1/jobs/search", json={"text": "same"})

    assert [row["queue"] for row in listed["rows"]] == ["mail"]
    assert [row["queue"] for row in located["rows"]] == ["mail"]
    assert problem(everywhere) == "foreign_queue"


async def test_a_journal_is_read_and_its_readers_are_registered(service: Running) -> None:
    shard = "/v1/queues/mail/shards/0"
    async with service.client() as client:
        await client.post("/v1/jobs", json={"kind": "k", "queue": "mail", "id": "a"})
        entries = (await client.get(f"{shard}/journal")).json()["entries"]
        bounds: dict[str, Any] = (await client.get(f"{shard}/bounds")).json()
        several = (await client.post("/v1/journal/bounds", json={"shards": [{"queue": "mail"}]})).json()
        registered = await client.put(f"{shard}/consumers/reader", json={"seq": 0})
        advanced = await client.patch(f"{shard}/consumers/reader", json={"seq": 1})
        beyond = await client.patch(f"{shard}/consumers/reader", json={"seq": 99})
        forgotten = await client.delete(f"{shard}/consumers/reader")
        scanned = (await client.get(f"{shard}/scan")).json()
        checked = (await client.post(f"{shard}/integrity/check")).json()
        outside = await client.get("/v1/queues/mail/shards/7/journal")

    assert '"event":"enqueued"' in entries[0]["lines"]
    assert (bounds["last_seq"], several["bounds"]) == (1, [bounds])
    assert (registered.json()["seq"], advanced.json()["seq"]) == (0, 1)
    assert problem(beyond) == "beyond_journal"
    assert forgotten.json() == {"forgotten": True}
    assert [row["id"] for row in scanned["rows"]] == ["a"]
    assert checked["problems"] == []
    assert problem(outside) == "bad_shard"
