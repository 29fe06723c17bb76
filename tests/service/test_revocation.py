"""A revoked token ends at once, in every service of the store, and for its tenant only."""

import msgspec

from headrace.model.clock import SystemClock
from headrace.stores.open import open_store
from tests.service.support import LENIENT, problem, running, token

AT_ONCE = msgspec.structs.replace(LENIENT, revocation_ms=0)


async def test_a_revoked_token_is_refused_by_every_service_of_the_store() -> None:
    until_ms = SystemClock().now_ms() + 600_000
    stolen, other = token(jti="stolen"), token(jti="other")
    store = await open_store("memory://")
    async with running(store, settings=AT_ONCE) as first, running(store, settings=AT_ONCE) as second:
        async with first.client() as admin, second.client(stolen) as thief, second.client(other) as honest:
            before = await thief.get("/v1/me")
            revoked = await admin.post("/v1/tokens/revoke", json={"jti": "stolen", "until_ms": until_ms})
            after, still = await thief.get("/v1/me"), await honest.get("/v1/me")
        async with second.client(token("beta", jti="stolen")) as namesake:
            elsewhere = await namesake.get("/v1/me")
    await store.close()

    assert (before.status_code, revoked.status_code) == (200, 200)
    assert (after.status_code, problem(after)) == (401, "unauthorized")
    assert (still.status_code, elsewhere.status_code) == (200, 200)


async def test_all_tokens_of_a_subject_are_revoked_and_the_list_is_not_shown() -> None:
    until_ms = SystemClock().now_ms() + 600_000
    store = await open_store("memory://")
    async with (
        running(store, settings=AT_ONCE) as service,
        service.client() as admin,
        service.client(token(sub="gone")) as gone,
    ):
        await admin.post("/v1/tokens/revoke", json={"sub": "gone", "until_ms": until_ms})
        refused = await gone.get("/v1/me")
        listed = await admin.get("/v1/feeds")
        directory = await admin.get("/v1/feeds/*/items")
        both = await admin.post("/v1/tokens/revoke", json={"sub": "a", "jti": "b", "until_ms": until_ms})
        never = await admin.post("/v1/tokens/revoke", json={"sub": "a", "until_ms": until_ms + 10**12})
    await store.close()

    assert problem(refused) == "unauthorized"
    assert (listed.json()["rows"], directory.json()["rows"]) == ([], [])
    assert (both.status_code, never.status_code) == (422, 422)
