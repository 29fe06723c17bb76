"""Feeds over HTTP: items, positions, item queues, and the log of changes."""

import asyncio

from tests.service.support import Running, problem, token, until


async def test_a_feed_is_opened_filled_listed_and_deleted(service: Running) -> None:
    async with service.client() as client:
        created = await client.put("/v1/feeds/news", json={"items_max": 100})
        same = await client.put("/v1/feeds/news", json={"items_max": 100})
        other = await client.put("/v1/feeds/news", json={"items_max": 50})
        exists = await client.put("/v1/feeds/news", json={}, headers={"if-none-match": "*"})
        items = [{"id": "a", "item": {"n": 1}}, {"item": "no id"}]
        published = await client.post("/v1/feeds/news/items", json={"items": items})
        listed = (await client.get("/v1/feeds/news/items")).json()
        shown = await client.get("/v1/feeds/news")
        deleted = await client.delete("/v1/feeds/news")
        gone = await client.get("/v1/feeds/news")

    assert [created.status_code, same.status_code, other.status_code] == [201, 200, 200]
    assert [each.headers["etag"] for each in (created, same, other)] == ['"v0"', '"v0"', '"v1"']
    assert (exists.status_code, problem(exists)) == (409, "feed_exists")
    assert [each["status"] for each in published.json()["results"]] == ["published", "published"]
    assert [row["item"] for row in listed["rows"]] == [{"n": 1}, "no id"]
    assert shown.json()["items"] == 2
    assert (deleted.status_code, problem(gone)) == (204, "unknown_feed")


async def test_items_of_a_sorted_feed_are_moved_and_retracted(service: Running) -> None:
    async with service.client() as client:
        await client.put("/v1/feeds/board", json={"type": "sorted"})
        await client.post("/v1/feeds/board/items", json={"items": [{"id": id, "item": id} for id in "abc"]})
        moves = [{"id": "c", "position": {"where": "before", "id": "a"}}]
        moved = await client.post("/v1/feeds/board/items/move", json={"moves": moves})
        retracted = await client.post("/v1/feeds/board/items/retract", json={"ids": ["b", "zz"]})
        listed = (await client.get("/v1/feeds/board/items")).json()
        found = (await client.post("/v1/feeds/board/items/find", json={"ids": ["zz", "a"]})).json()

    assert moved.json()["results"][0]["status"] == "moved"
    assert [each["status"] for each in retracted.json()["results"]] == ["retracted", "not_found"]
    assert [row["id"] for row in listed["rows"]] == ["c", "a"]
    assert [row and row["item"] for row in found["rows"]] == [None, "a"]


async def test_a_take_waits_for_the_first_item_of_an_item_queue(service: Running) -> None:
    async with service.client() as client:
        await client.put("/v1/feeds/inbox", json={"type": "queue"})
        waiting = asyncio.create_task(client.post("/v1/feeds/inbox/items/take", json={"wait_ms": 20_000}))
        await until(lambda: bool(service.service.admission.polls.total))
        await client.post("/v1/feeds/inbox/items", json={"items": [{"id": "a", "item": 1}]})
        taken = (await waiting).json()
        empty = (await client.post("/v1/feeds/inbox/items/take")).json()

    assert [each["id"] for each in taken["items"]] == ["a"]
    assert empty == {"items": []}


async def test_changes_are_read_after_a_cursor_with_the_name_behind_them(service: Running) -> None:
    async with service.client() as client:
        await client.put("/v1/feeds/news", json={})
        cursor = (await client.get("/v1/feeds/news")).json()["cursor"]
        headers = {"headrace-instance": "web-1"}
        await client.post("/v1/feeds/news/items", json={"items": [{"id": "a", "item": 1}]}, headers=headers)
        changes = (await client.get(f"/v1/feeds/news/changes?after={cursor}")).json()
        changed = (await client.post("/v1/feeds/news/changed", json={"after": cursor, "timeout_ms": 1_000})).json()
        bad = await client.get("/v1/feeds/news/changes?after=x")

    assert [(row["event"], row["id"], row["instance"]) for row in changes["rows"]] == [("published", "a", "svc/web-1")]
    assert changed == {"changed": True}
    assert problem(bad) == "bad_cursor"


async def test_reserved_feeds_are_neither_shown_nor_touched(service: Running) -> None:
    async with service.client() as client:
        refused = [
            await client.put("/v1/feeds/headrace.revoked", json={}),
            await client.get("/v1/feeds/headrace.revoked"),
            await client.get("/v1/feeds/headrace.revoked/items"),
            await client.delete("/v1/feeds/headrace.tickets"),
        ]

    assert [problem(each) for each in refused] == ["reserved_name"] * 4


async def test_feeds_of_one_tenant_are_unknown_to_another(service: Running) -> None:
    async with service.client() as ours, service.client(token("beta")) as theirs:
        await ours.put("/v1/feeds/news", json={})
        await ours.post("/v1/feeds/news/items", json={"items": [{"id": "a", "item": "secret"}]})
        listed = (await theirs.get("/v1/feeds")).json()
        shown = await theirs.get("/v1/feeds/news")
        published = await theirs.post("/v1/feeds/news/items", json={"items": [{"id": "a", "item": 1}]})

    assert listed["rows"] == []
    assert [problem(shown), problem(published)] == ["unknown_feed", "unknown_feed"]


async def test_a_page_of_feeds_shows_those_the_token_covers(service: Running) -> None:
    async with service.client() as whole, service.client(token(queues=["news"])) as some:
        for name in ("news", "other"):
            await whole.put(f"/v1/feeds/{name}", json={})
        listed = (await some.get("/v1/feeds")).json()
        foreign = await some.get("/v1/feeds/other")

    assert [row["feed"] for row in listed["rows"]] == ["news"]
    assert problem(foreign) == "foreign_queue"
