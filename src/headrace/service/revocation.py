"""Revokes tokens before their end: a feed of each tenant lists them, which all services of a store read."""

from typing import Any

import msgspec
from msgspec import Struct

from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError, Refused
from headrace.model.feed import FeedCursor, FeedName, Publication
from headrace.model.limits import BEARER_LIFETIME_S_MAX, PAGE_MAX, SUBJECT_CHARS_MAX
from headrace.model.validate import check_int, check_text
from headrace.service.caller import RESERVED_PREFIX, Caller
from headrace.service.operation import Call, Operation, Reply, post, scopes
from headrace.service.problems import RequestProblem
from headrace.stores.contract.store import Store

FEED = f"{RESERVED_PREFIX}revoked"
BLIND_MS_MAX = 60_000
"""How long a service that cannot read the list trusts the one it has."""


class RevokeBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token by its `jti`, or all tokens of a subject, until an instant after which they have ended anyway."""

    jti: str | None = None
    sub: str | None = None
    until_ms: int


class RevokeAnswer(Struct, frozen=True):
    """What is revoked, and until when."""

    revoked: str
    until_ms: int


class _TenantList(Struct):
    until_ms: dict[str, int] = {}
    cursor: FeedCursor | None = None
    read_at_ms: int = 0


class Revocations:
    """The lists of revoked tokens, by tenant, at most a moment old."""

    def __init__(self, store: Store, fresh_ms: int | None) -> None:
        self._store = store
        self._fresh_ms = fresh_ms
        self._lists: dict[str, _TenantList] = {}

    async def check(self, caller: Caller, now_ms: int) -> None:
        """Refuse a caller whose token or subject was revoked. Without the list for a minute, a token with a `jti` is
        not let in: it may have been revoked meanwhile."""
        if self._fresh_ms is None:
            return
        known = self._lists.get(caller.home_tenant)
        if known is None or monotonic_ms() - known.read_at_ms > self._fresh_ms:
            try:
                known = await self._read(caller.home_tenant, known)
            except HeadraceError:
                if caller.token_id is not None and (known is None or monotonic_ms() - known.read_at_ms > BLIND_MS_MAX):
                    raise RequestProblem(
                        "store_unavailable", "the list of revoked tokens cannot be read; try again later"
                    ) from None
        if known is not None and any(known.until_ms.get(key, 0) > now_ms for key in _keys(caller)):
            raise RequestProblem(
                "unauthorized",
                "the token was not accepted; send Authorization: Bearer and a current token",
                ((b"www-authenticate", b'Bearer error="invalid_token"'),),
            )

    async def _read(self, tenant: str, known: _TenantList | None) -> _TenantList:
        feed = FeedName(FEED, tenant)
        state = await self._store.feeds.describe(feed)
        found = _TenantList(cursor=None if state is None else state.cursor, read_at_ms=monotonic_ms())
        if state is not None and known is not None and known.cursor == state.cursor:
            found.until_ms = known.until_ms
        elif state is not None:
            cursor: str | None = None
            while True:
                page = await self._store.items.list(feed, cursor=cursor, limit=PAGE_MAX)
                found.until_ms |= {item.id: msgspec.json.decode(item.item, type=int) for item in page.rows}
                cursor = page.cursor
                if cursor is None:
                    break
        self._lists[tenant] = found
        return found

    def forget(self, tenant: str) -> None:
        """Read the list of a tenant again at the next request."""
        self._lists.pop(tenant, None)


def _keys(caller: Caller) -> list[str]:
    return [f"sub:{caller.issued_to}"] + ([] if caller.token_id is None else [f"jti:{caller.token_id}"])


async def revoke(call: Call) -> Reply:
    """Revoke a token, or all tokens of a subject."""
    body: RevokeBody = call.body
    if (body.jti is None) == (body.sub is None):
        raise Refused("bad_token", "name a token by 'jti' or a subject by 'sub', and not both")
    name, value = ("jti", body.jti) if body.jti is not None else ("sub", body.sub)
    check_text("token", value, SUBJECT_CHARS_MAX)
    now_ms = call.service.clock.now_ms()
    check_int("until_ms", body.until_ms, now_ms, now_ms + BEARER_LIFETIME_S_MAX * 1_000)
    feed, key = FeedName(FEED, call.tenant), f"{name}:{value}"
    settings: dict[str, Any] = {"items_max": 100_000, "items_keep_ms": BEARER_LIFETIME_S_MAX * 1_000}
    try:
        await call.store.feeds.create(feed, "feed", settings, instance=call.caller.subject)
    except Refused as refused:
        if refused.reason != "feed_exists":
            raise
    publication = Publication(msgspec.json.encode(body.until_ms), key)
    await call.store.items.publish(feed, [publication], instance=call.caller.subject)
    call.service.revocations.forget(call.tenant)
    return Reply(200, RevokeAnswer(key, body.until_ms))


OPERATIONS: tuple[Operation, ...] = (
    post(
        "revoke",
        "/tokens/revoke",
        "Revoke a token, or all tokens of a subject.",
        scopes("admin"),
        revoke,
        RevokeBody,
        RevokeAnswer,
    ),
)
