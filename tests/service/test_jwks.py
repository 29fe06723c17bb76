"""Published keys: rotation, floods of unknown keys, issuers that are away, and sets that are hostile."""

import asyncio
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig
from headrace.service.auth import Authenticator
from headrace.service.jwks import PublishedKeys, check_issuer_url, fetch_json
from headrace.service.keys import AuthKey, new_key
from headrace.service.problems import RequestProblem
from headrace.service.tokens import Issuer, sign_token
from tests.service.support import claims

ISSUER = "https://idp.example"


class Provider:
    """An identity provider whose keys and clock a test sets."""

    def __init__(self, *keys: AuthKey) -> None:
        self.keys: list[Any] = [key.jwk.as_dict(private=False) for key in keys]
        self.fetched = 0
        self.now_ms = 0
        self.is_away = False
        self.published = PublishedKeys(ISSUER, f"{ISSUER}/jwks.json", fetch=self.fetch, now_ms=lambda: self.now_ms)
        self.auth = Authenticator([Issuer(name=ISSUER, keys=self.published)], SystemClock(), 1_000_000)

    def fetch(self, _: str) -> Any:
        self.fetched += 1
        if self.is_away:
            raise OSError("away")
        return {"keys": self.keys}

    def is_accepted(self, key: AuthKey) -> bool:
        """Whether a token of that key is let in."""
        token = sign_token(key, claims(iss=ISSUER))
        try:
            return self.auth.caller([f"Bearer {token}".encode()], "test").tenant == "acme"
        except RequestProblem:
            return False


async def test_keys_rotate_and_a_removed_key_is_refused_after_the_next_fetch() -> None:
    old, new = new_key("old"), new_key("new")
    provider = Provider(old)
    await provider.auth.refresh_all()
    assert provider.is_accepted(old)

    provider.keys = [new.jwk.as_dict(private=False)]
    provider.now_ms += 601_000
    await provider.auth.refresh_all()

    assert provider.is_accepted(new)
    assert not provider.is_accepted(old)  # although it was in the cache of accepted tokens


async def test_a_flood_of_unknown_keys_fetches_once_a_minute() -> None:
    provider = Provider(new_key("known"))
    await provider.auth.refresh_all()
    unknown = [new_key(f"unknown-{number}") for number in range(200)]

    for key in unknown:
        assert not provider.is_accepted(key)
        await asyncio.gather(*provider.auth._tasks)
    assert provider.fetched == 1  # the first fetch was less than a minute ago

    provider.now_ms += 61_000
    for key in unknown:
        provider.is_accepted(key)
        await asyncio.gather(*provider.auth._tasks)
    assert provider.fetched == 2


async def test_known_keys_outlive_their_issuer_for_a_day_and_no_longer() -> None:
    key = new_key("k")
    provider = Provider(key)
    await provider.auth.refresh_all()
    provider.is_away = True

    provider.now_ms += 23 * 3_600_000
    await provider.auth.refresh_all()
    assert provider.is_accepted(key)

    provider.now_ms += 2 * 3_600_000
    provider.auth.forget()
    assert not provider.is_accepted(key)


async def test_keys_that_cannot_be_used_are_left_out_of_a_set() -> None:
    good = new_key("good")
    secret = {"kty": "oct", "k": "A" * 64, "kid": "secret"}
    private = new_key("private").jwk.as_dict(private=True)
    provider = Provider(good)
    provider.keys += [secret, private, {"kty": "unknown"}, "text", {"kty": "OKP", "crv": "X25519", "x": "AAAA"}]

    await provider.auth.refresh_all()

    assert [key.kid for key in provider.published.keys()] == ["good"]  # noqa: SIM118 - no dictionary


@pytest.mark.parametrize("document", [[], {}, {"keys": {}}, {"keys": [{}] * 101}, "text", None])
async def test_a_document_that_is_no_set_changes_nothing(document: Any) -> None:
    key = new_key("k")
    provider = Provider(key)
    await provider.auth.refresh_all()
    provider.fetch = lambda _: document  # type: ignore[method-assign]  # what the provider answers now
    provider.published._fetch = provider.fetch
    provider.now_ms += 601_000

    await provider.auth.refresh_all()

    assert provider.is_accepted(key)


@pytest.mark.parametrize("url", ["http://idp.example", "https://", "ftp://x", "file:///etc/passwd", "https://u:p@x"])
def test_an_issuer_is_reached_over_https_only(url: str) -> None:
    with pytest.raises(BadConfig, match="https URL"):
        check_issuer_url(url)


def test_a_fetch_follows_no_redirect_and_reads_no_endless_document() -> None:
    class Hostile(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/redirect":
                self.send_response(302)
                self.send_header("location", "/good")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": []}).encode() if self.path == "/good" else b" " * 300_000)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hostile)
    thread = Thread(target=server.serve_forever)
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        assert fetch_json(f"{base}/good") == {"keys": []}
        with pytest.raises(OSError, match="302"):
            fetch_json(f"{base}/redirect")
        with pytest.raises(ValueError, match="more than"):
            fetch_json(f"{base}/huge")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
