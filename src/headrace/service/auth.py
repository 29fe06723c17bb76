"""Authenticates requests: one bearer token, checked once and remembered for a minute."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from headrace.model.clock import Clock
from headrace.model.limits import BEARER_CACHE_MAX, BEARER_CACHE_MS, BEARER_SKEW_S
from headrace.service.caller import Caller
from headrace.service.problems import RequestProblem
from headrace.service.rates import FailureCounts
from headrace.service.tokens import BadToken, Issuer, UnknownKey, read_token

log = logging.getLogger("headrace.service")
_CHALLENGE = ((b"www-authenticate", b'Bearer error="invalid_token"'),)


@runtime_checkable
class RefreshingKeys(Protocol):
    """Keys that are fetched, and may be fetched again."""

    async def refresh(self, *, forced: bool) -> bool:
        """Fetch the keys if they are due, or if `forced` and the last fetch is not too recent; whether they changed."""


class Authenticator:
    """Knows the issuers, and the tokens that it accepted within the last minute."""

    def __init__(self, issuers: Iterable[Issuer], clock: Clock, failures_per_minute: int) -> None:
        self._issuers: Mapping[str, Issuer] = {each.name: each for each in issuers}
        self._clock = clock
        self._accepted: OrderedDict[bytes, tuple[Caller, int]] = OrderedDict()
        self._failures = FailureCounts(failures_per_minute)
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        self.cache_hits = 0
        self.cache_misses = 0

    def caller(self, authorizations: Sequence[bytes], address: str) -> Caller:
        """The caller of a request with these Authorization headers; raises `RequestProblem`."""
        now_ms = self._clock.now_ms()
        token = _bearer(authorizations)
        digest = hashlib.sha256(token).digest()
        known = self._accepted.get(digest)
        if known is not None and now_ms < known[1]:
            self.cache_hits += 1
            self._accepted.move_to_end(digest)
            return known[0]
        self._failures.check(address, now_ms)
        try:
            caller = read_token(token, self._issuers, now_ms / 1_000)
        except BadToken as bad:
            self.refused += 1
            self._failures.add(address, now_ms)
            log.info("a token was refused (%s)", bad, extra={"address": address})
            if isinstance(bad, UnknownKey):
                self._refresh(bad.issuer)
            raise _unauthorized() from None
        self.cache_misses += 1
        until_ms = min((caller.expires_at_s + BEARER_SKEW_S) * 1_000, now_ms + BEARER_CACHE_MS)
        self._accepted[digest] = caller, until_ms
        if len(self._accepted) > BEARER_CACHE_MAX:
            self._accepted.popitem(last=False)
        return caller

    def is_current(self, caller: Caller) -> bool:
        """Whether the token of a caller has not ended meanwhile."""
        return self._clock.now_ms() < (caller.expires_at_s + BEARER_SKEW_S) * 1_000

    def forget(self) -> None:
        """Check all tokens again: keys were changed."""
        self._accepted.clear()

    def _refresh(self, issuer: Issuer) -> None:
        """Fetch the keys of an issuer in the background; the token is accepted when it is sent again."""
        keys = issuer.keys
        if isinstance(keys, RefreshingKeys):
            task = asyncio.get_running_loop().create_task(self._fetch(keys, forced=True))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def refresh_all(self) -> None:
        """Fetch keys that are due."""
        for issuer in self._issuers.values():
            if isinstance(issuer.keys, RefreshingKeys):
                await self._fetch(issuer.keys, forced=False)

    async def _fetch(self, keys: RefreshingKeys, *, forced: bool) -> None:
        if await keys.refresh(forced=forced):
            self.forget()


def _bearer(authorizations: Sequence[bytes]) -> bytes:
    """The one bearer token; empty, which no token is, for anything else."""
    if len(authorizations) != 1:
        return b""
    scheme, _, token = authorizations[0].partition(b" ")
    return token if scheme.lower() == b"bearer" else b""


def _unauthorized() -> RequestProblem:
    return RequestProblem(
        "unauthorized", "the token was not accepted; send Authorization: Bearer and a current token", _CHALLENGE
    )
