"""Tokens: what is accepted, what is refused, and that every refusal looks the same."""

import asyncio
import json
import logging
from itertools import islice
from pathlib import Path

import httpx
import pytest

from headrace.model.clock import ManualClock, SystemClock
from headrace.model.errors import BadConfig
from headrace.service.caller import SCOPES
from headrace.service.keys import load_keys, new_key, write_key
from headrace.service.operation import Operation
from headrace.service.settings import ServiceSettings
from headrace.service.table import OPERATIONS
from headrace.service.tokens import BadToken, Issuer, StaticKeys, read_token, sign_token
from headrace.stores.open import open_store
from tests.service.bad_tokens import b64, bad_tokens, good_tokens, issuers
from tests.service.support import Running, claims, issuer, problem, running, signing_key, token

PROTECTED = [each for each in OPERATIONS if not each.is_public]


def target(operation: Operation) -> str:
    """The path of an operation, with something in the place of each parameter."""
    path = operation.route
    for name, value in (
        ("queue", "mail"),
        ("id", "a"),
        ("shard", "0"),
        ("feed", "f"),
        ("consumer", "c"),
        ("key", "0:1"),
    ):
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path
    return path


def test_the_corpus_is_refused_and_good_tokens_are_accepted() -> None:
    """C2."""
    known = {each.name: each for each in issuers()}
    now_s = SystemClock().now_ms() / 1_000
    accepted = []
    for name, bad in bad_tokens().items():
        try:
            read_token(bad, known, now_s)
            accepted.append(name)
        except BadToken:
            pass

    assert accepted == []
    assert len(bad_tokens()) >= 60
    assert {name: read_token(good, known, now_s).subject for name, good in good_tokens().items()} == dict.fromkeys(
        good_tokens(), "svc"
    )


async def test_no_operation_accepts_a_bad_token() -> None:
    """C2."""
    store = await open_store("memory://")
    tokens = {name: each for name, each in bad_tokens().items() if each.strip()}  # an empty header has its own test
    answers: set[tuple[int, bytes]] = set()
    async with running(store, *issuers()) as service, service.client("") as client:
        for number, operation in enumerate(PROTECTED):
            for name, bad in islice(tokens.items(), number % 4, None, 4):  # a quarter, in turns: all take long
                headers = [(b"authorization", b"Bearer " + bad), (b"x-request-id", b"same")]
                answer = await client.request(operation.method, target(operation), headers=headers)
                assert answer.status_code == 401, (operation.name, name)
                answers.add((answer.status_code, answer.content))
    await store.close()

    assert len(answers) == 1  # a refusal does not say why


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", "Basic dXNlcjpwYXNz")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer {good}"), ("authorization", "Bearer {good}")],
        [("authorization", "Bearer {good}, Bearer {good}")],
        [("authorization", "bearer  {good}")],
        [("cookie", "token={good}")],
        [("x-authorization", "Bearer {good}")],
    ],
)
async def test_only_one_bearer_header_carries_a_token(service: Running, headers: list[tuple[str, str]]) -> None:
    good = token()
    async with service.client("") as client:
        answer = await client.get("/v1/me", headers=[(name, value.format(good=good)) for name, value in headers])
        in_query = await client.get(f"/v1/me?access_token={good}")

    assert (answer.status_code, in_query.status_code) == (401, 401)
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_each_operation_takes_exactly_its_scopes(service: Running) -> None:
    """C32."""
    wrong = []
    for scope in SCOPES:
        async with service.client(token(scopes=[scope])) as client:
            for operation in PROTECTED:
                if operation.is_operators:
                    continue
                answer = await client.request(operation.method, target(operation), content=b"")
                is_let_in = not (answer.status_code == 403 and problem(answer) == "missing_scope")
                if is_let_in != (scope in operation.scopes or not operation.scopes):
                    wrong.append((operation.name, scope, answer.status_code))

    assert wrong == []


def test_an_operation_without_a_scope_cannot_be_listed() -> None:
    with pytest.raises(ValueError, match="needs scopes"):
        Operation(
            name="open",
            method="GET",
            path="/open",
            summary="",
            scopes=frozenset(),
            handler=PROTECTED[0].handler,
            answers={},
        )


async def test_an_operator_needs_the_scope_and_the_listing() -> None:
    store = await open_store("memory://")
    crossing = {"headrace-tenant": "beta"}
    async with running(store, issuer(operators=("boss",))) as service:
        async with service.client(token(scopes=["operator", "read"], sub="boss")) as boss:
            crossed = await boss.get("/v1/me", headers=crossing)
            own = await boss.get("/v1/me")
            listed = await boss.get("/v1/tenants")
        async with service.client(token(scopes=["operator", "read"], sub="svc")) as unlisted:
            stayed = await unlisted.get("/v1/me", headers=crossing)
            refused = await unlisted.get("/v1/tenants")
        async with service.client(token(scopes=["read"], sub="boss")) as unscoped:
            also_stayed = await unscoped.get("/v1/me", headers=crossing)
    await store.close()

    assert [each.json()["tenant"] for each in (crossed, own, stayed, also_stayed)] == ["beta", "acme", "acme", "acme"]
    assert listed.status_code == 200
    assert (refused.status_code, problem(refused)) == (403, "not_operator")


async def test_a_token_names_only_the_queues_of_its_claim(service: Running) -> None:
    async with service.client(token(queues=["mail", "img-*"])) as client:
        statuses = {}
        for queue in ("mail", "img-1", "other", "mail2", "mail.fail"):
            answer = await client.post("/v1/jobs", json={"kind": "k", "queue": queue})
            statuses[queue] = answer.status_code if answer.status_code == 202 else problem(answer)
        claimed = await client.post("/v1/claims", json={"queues": ["mail", "other"]})
        found = await client.post("/v1/queues/other/jobs/find", json={"ids": ["a"]})

    foreign = "foreign_queue"
    assert statuses == {"mail": 202, "img-1": 202, "other": foreign, "mail2": foreign, "mail.fail": foreign}
    assert (problem(claimed), problem(found)) == (foreign, foreign)


async def test_many_refused_tokens_of_an_address_have_to_wait_and_good_ones_are_known() -> None:
    store = await open_store("memory://")
    async with running(store, settings=ServiceSettings()) as service, service.client() as known:
        assert (await known.get("/v1/me")).status_code == 200
        async with service.client("bad") as bad:
            statuses = [(await bad.get("/v1/me")).status_code for _ in range(25)]
        assert (await known.get("/v1/me")).status_code == 200  # it is in the cache
    await store.close()

    assert statuses[:20] == [401] * 20
    assert statuses[-1] == 429


async def test_a_token_ends_with_its_expiry_and_not_with_the_cache() -> None:
    store = await open_store("memory://")
    clock = ManualClock(SystemClock().now_ms())
    async with running(store, clock=clock) as service, service.client() as client:
        statuses = []
        for ms in (0, 600_000, 40_000):
            clock.advance(ms)
            statuses.append((await client.get("/v1/me")).status_code)
    await store.close()

    assert statuses == [200, 200, 401]  # 30 s of skew, then no longer


async def test_no_log_line_and_no_answer_holds_a_token(caplog: pytest.LogCaptureFixture, service: Running) -> None:
    caplog.set_level(logging.DEBUG)
    canary = token(sub="canary-subject")
    async with service.client("") as client:
        answers: list[httpx.Response] = [
            await client.get("/v1/me", headers={"authorization": f"Bearer {canary}"}),
            await client.get("/v1/me", headers={"authorization": f"Bearer {canary[:-2]}"}),
            await client.get(f"/v1/me?access_token={canary}", headers={"authorization": f"Bearer {canary}"}),
        ]

    signature = canary.rpartition(".")[2][:20]
    assert not any(signature in record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert not any(signature in answer.text + str(answer.headers) for answer in answers)


def test_a_secret_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = f"{tmp_path}/key.jwk"
    write_key(new_key("k"), path)
    assert load_keys(path)[0].is_secret
    Path(path).chmod(0o640)

    with pytest.raises(BadConfig, match="chmod 600"):
        load_keys(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"short", "fewer than 32 bytes"),
        (b'{"kty":"oct","k":"c2hvcnQ"}', "fewer than 32 bytes"),
        (
            json.dumps({"kty": "RSA", "e": "AQAB", "n": b64((2**1023 + 1).to_bytes(128)).decode()}).encode(),
            "2,048 bits",
        ),
        (b'{"keys":[]}', "no keys"),
        (b'{"kty":"OKP","crv":"X25519","x":"AAAA"}', "not a JWK|is for"),
        (b"{", "not JSON"),
        (b"-----BEGIN NOTHING-----", "no RSA"),
    ],
)
def test_a_weak_or_unknown_key_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = f"{tmp_path}/key"
    Path(path).write_bytes(content)
    Path(path).chmod(0o600)

    with pytest.raises(BadConfig, match=why):
        load_keys(path)


def test_a_key_of_another_type_never_verifies_hmac() -> None:
    known = {"headrace": Issuer(name="headrace", keys=StaticKeys([signing_key()]))}
    good = sign_token(signing_key(), claims()).encode()

    assert read_token(good, known, SystemClock().now_ms() / 1_000).tenant == "acme"
    assert signing_key().algorithms == {"Ed25519", "EdDSA"}


async def test_requests_with_a_remembered_token_are_cheap(service: Running) -> None:
    async with service.client() as client:
        await asyncio.gather(*(client.get("/v1/me") for _ in range(50)))

    assert service.service.auth.cache_misses == 1
    assert service.service.auth.cache_hits == 49
