"""Answers browsers of other origins: off, unless the operator lists the origins."""

from collections.abc import Sequence

from headrace.service.operation import Header, Reply

_ALLOWED = b"authorization, content-type, idempotency-key, if-match, last-event-id, x-request-id"
_EXPOSED = b"etag, location, link, retry-after, ratelimit, ratelimit-policy, x-request-id, headrace-now-ms"


class Cors:
    """The headers for the listed origins; never `*`, never credentials."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def headers(self, origin: bytes | None) -> tuple[Header, ...]:
        """The headers of an answer to a request of that origin."""
        if not self._origins:
            return ()
        vary = (b"vary", b"Origin")
        if origin not in self._origins or origin is None:
            return (vary,)
        return (
            vary,
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-headers", _ALLOWED),
            (b"access-control-expose-headers", _EXPOSED),
            (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
            (b"access-control-max-age", b"600"),
        )

    def preflight(self, methods: Sequence[str]) -> Reply:
        """The answer to OPTIONS on a path with these methods."""
        allowed = sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})
        return Reply(204, headers=((b"allow", ", ".join(allowed).encode()),))
