"""Fetches the published keys of an issuer, keeps them for ten minutes, and does without the issuer for a day."""

import asyncio
import json
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig
from headrace.model.limits import (
    JWKS_BYTES_MAX,
    JWKS_KEYS_MAX,
    JWKS_PAUSE_S,
    JWKS_REFRESH_S,
    JWKS_STALE_S,
    JWKS_TIMEOUT_S,
)
from headrace.model.redact import redact_url
from headrace.service.keys import AuthKey, known_keys
from headrace.service.settings import LOOPBACK

log = logging.getLogger("headrace.service")
_DISCOVERY = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it could lead to a host that nobody has configured."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch_json(url: str) -> Any:
    """The JSON document at a URL, within the bounds on size and time; raises OSError or ValueError."""
    context = ssl.create_default_context()
    opener = urllib.request.build_opener(
        _NoRedirects, urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    request = urllib.request.Request(url, headers={"accept": "application/json"})  # noqa: S310 - the scheme is checked
    with opener.open(request, timeout=JWKS_TIMEOUT_S) as answer:
        data = answer.read(JWKS_BYTES_MAX + 1)
    if len(data) > JWKS_BYTES_MAX:
        raise ValueError(f"the document has more than {JWKS_BYTES_MAX:,} bytes")
    return json.loads(data)


class PublishedKeys:
    """The keys that an issuer publishes as a JWK set. A key that left the set is refused from the next fetch on."""

    def __init__(
        self,
        issuer: str,
        url: str | None,
        *,
        fetch: Callable[[str], Any] = fetch_json,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        for each in (issuer, url):
            if each is not None:
                check_issuer_url(each)
        self._issuer = issuer
        self._url = url
        self._fetch = fetch
        self._now_ms = now_ms
        self._keys: list[AuthKey] = []
        self._fetched_at_ms: int | None = None
        self._tried_at_ms: int | None = None
        self._flight: asyncio.Task[bool] | None = None

    @property
    def age_s(self) -> float | None:
        """How long ago the keys were fetched; None if they never were."""
        return None if self._fetched_at_ms is None else (self._now_ms() - self._fetched_at_ms) / 1_000

    def keys(self) -> Sequence[AuthKey]:
        """The keys of the last fetch; none after a day without one."""
        age_s = self.age_s
        return self._keys if age_s is not None and age_s < JWKS_STALE_S else []

    async def refresh(self, *, forced: bool) -> bool:
        """Fetch the keys if they are ten minutes old, or if `forced` and a minute has passed since the last try."""
        if self._flight is not None:
            return await self._flight
        pause_s = JWKS_PAUSE_S if forced or self._fetched_at_ms is None else JWKS_REFRESH_S
        if self._tried_at_ms is not None and self._now_ms() - self._tried_at_ms < pause_s * 1_000:
            return False
        self._tried_at_ms = self._now_ms()
        self._flight = asyncio.get_running_loop().create_task(self._load())
        try:
            return await self._flight
        finally:
            self._flight = None

    async def _load(self) -> bool:
        """Whether other keys were found than before."""
        try:
            document = await asyncio.to_thread(self._fetch, self._url or await self._discover())
            members = document["keys"]
            if not isinstance(members, list) or len(members) > JWKS_KEYS_MAX:
                raise ValueError(f"keys is no list of at most {JWKS_KEYS_MAX} keys")  # noqa: TRY301 - logged below
        except (OSError, ValueError, TypeError, KeyError, urllib.error.URLError) as error:
            log.warning("keys of %s cannot be fetched (%s)", redact_url(self._issuer), error)
            return False
        keys, skipped = known_keys(members, redact_url(self._issuer))
        for why in skipped:
            log.info("%s; it is left out", why)
        before = [key.jwk.as_dict(private=False) for key in self._keys]
        self._keys, self._fetched_at_ms = keys, self._now_ms()
        return before != [key.jwk.as_dict(private=False) for key in keys]

    async def _discover(self) -> str:
        for path in _DISCOVERY:
            try:
                document = await asyncio.to_thread(self._fetch, self._issuer.rstrip("/") + path)
            except (OSError, ValueError):
                continue
            url = document.get("jwks_uri") if isinstance(document, dict) else None
            if isinstance(url, str) and document.get("issuer") == self._issuer:
                try:
                    check_issuer_url(url)
                except BadConfig as error:
                    raise ValueError(str(error)) from error
                self._url = url
                return url
        raise ValueError("its metadata names no jwks_uri for this issuer")


def check_issuer_url(url: str) -> None:
    """Refuse a URL of an issuer that is not https; on loopback, http will do."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    is_local = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not parts.hostname or parts.username or not (parts.scheme == "https" or is_local):
        raise BadConfig(f"the issuer {redact_url(url)} must be an https URL without user and password")
