"""Runs the service on a real socket beside the test, and makes tokens for it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx

from headrace.model.clock import SystemClock
from headrace.service.app import Service
from headrace.service.caller import SCOPES
from headrace.service.keys import AuthKey, new_key
from headrace.service.serve import ListenAddress, ServiceServer
from headrace.service.settings import ServiceSettings
from headrace.service.tokens import Issuer, StaticKeys, sign_token
from headrace.stores.contract.store import Store

LENIENT = ServiceSettings(auth_failures_per_minute=1_000_000, version="test")
"""Lets a test send many bad tokens."""
TENANT_SCOPES = [scope for scope in SCOPES if scope != "operator"]


@cache
def signing_key() -> AuthKey:
    """The key of all tokens of this process."""
    return new_key("test")


def issuer(**fields: Any) -> Issuer:
    """The issuer of the tests' tokens."""
    return Issuer(**{"name": "headrace", "keys": StaticKeys([signing_key()]), **fields})


def claims(tenant: str = "acme", scopes: Sequence[str] = TENANT_SCOPES, **more: object) -> dict[str, object]:
    """The claims of a good token."""
    now_s = SystemClock().now_ms() // 1_000
    return {
        "iss": "headrace",
        "aud": "headrace",
        "sub": "svc",
        "tid": tenant,
        "scope": " ".join(scopes),
        "iat": now_s - 5,
        "exp": now_s + 600,
        **more,
    }


def token(tenant: str = "acme", scopes: Sequence[str] = TENANT_SCOPES, **more: object) -> str:
    """A good token."""
    return sign_token(signing_key(), claims(tenant, scopes, **more))


class Running:
    """A service that listens on loopback."""

    def __init__(self, service: Service, port: int) -> None:
        self.service = service
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def client(self, bearer: str | None = None) -> httpx.AsyncClient:
        """A client with a token; a good one of tenant acme by default, none for an empty text."""
        text = token() if bearer is None else bearer
        headers = {"authorization": f"Bearer {text}"} if text else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30)

    async def raw(self, *parts: bytes, read_seconds: float = 5) -> bytes:
        """What the service answers to these bytes, until it closes the connection or falls silent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            found = b""
            while True:
                try:
                    more = await asyncio.wait_for(reader.read(65_536), read_seconds)
                except (TimeoutError, ConnectionResetError):
                    return found
                if not more:
                    return found
                found += more
        finally:
            writer.close()


@asynccontextmanager
async def running(
    store: Store, *issuers: Issuer, settings: ServiceSettings = LENIENT, **options: Any
) -> AsyncIterator[Running]:
    """The service over a store, on a free port."""
    service = Service(store, issuers or [issuer()], settings, **options)
    server = ServiceServer(service, ListenAddress(port=0), service.shutdown.begin)
    serving = asyncio.get_running_loop().create_task(server.serve_until_stopped())
    await server.ready.wait()
    try:
        yield Running(service, server.port)
    finally:
        server.stop()
        await serving


async def until(is_true: Callable[[], bool]) -> None:
    """Let the service work until something is true."""
    while not is_true():  # noqa: ASYNC110 - the service has no event for what only tests want to know
        await asyncio.sleep(0)


def problem(answer: httpx.Response) -> str:
    """The name of the problem that was answered."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = json.loads(answer.content)
    assert document["status"] == answer.status_code
    assert document["instance"] == answer.headers["x-request-id"]
    return str(document["type"]).removeprefix("urn:headrace:problem:")
