"""Turns a token into a caller. The checks go from cheap to dear; for the client all failures are the same."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.limits import (
    BEARER_BYTES_MAX,
    BEARER_CLAIMS_BYTES_MAX,
    BEARER_DEPTH_MAX,
    BEARER_HEADER_BYTES_MAX,
    BEARER_LIFETIME_S,
    BEARER_SKEW_S,
    QUEUE_PATTERNS_MAX,
    SUBJECT_CHARS_MAX,
)
from headrace.model.names import check_tenant
from headrace.service.caller import SCOPES, Caller
from headrace.service.keys import KID_CHARS_MAX, AuthKey

AUDIENCE: Final = "headrace"
ISSUER: Final = "headrace"
TENANT_CLAIMS: Final = ("tid", "tenant", "tenant_id", "tenantId", "organization_id", "organizationId")
_FORM = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_HEADERS_REFUSED = frozenset(("crit", "jku", "x5u", "jwk", "x5c", "x5t", "x5t#S256", "b64", "zip", "enc"))
_TYPES = frozenset(("jwt", "at+jwt", "application/at+jwt"))
_PATTERN = re.compile(r"(?=.)[A-Za-z0-9._-]{0,125}\*?")
_INSTANT_MAX = 2**53
_AUDIENCES_MAX = 16


class BadToken(Exception):
    """A token was not accepted; the cause is for our log only."""


class KeySource(Protocol):
    """Knows the keys of an issuer."""

    def keys(self) -> Sequence[AuthKey]:
        """Its present keys."""


class StaticKeys:
    """Keys from files."""

    def __init__(self, keys: Sequence[AuthKey]) -> None:
        self._keys = keys

    def keys(self) -> Sequence[AuthKey]:
        return self._keys


class Issuer(Struct, frozen=True, kw_only=True):
    """An issuer of tokens: its keys, and what its tokens may say."""

    name: str
    keys: KeySource
    audience: str = AUDIENCE
    tenants: tuple[str, ...] | None = None
    """Tenants that it may speak for, names or beginnings with `*`; None is all."""
    tenant_claims: tuple[str, ...] = TENANT_CLAIMS
    scope_prefix: str = ""
    lifetime_s_max: int = BEARER_LIFETIME_S
    operators: tuple[str, ...] = ()
    """Subjects that may be operators; their token needs the scope as well."""


class UnknownKey(BadToken):
    """The token names a key that its issuer does not have, or not yet."""

    def __init__(self, issuer: Issuer) -> None:
        super().__init__("unknown key")
        self.issuer = issuer


def read_token(token: bytes, issuers: Mapping[str, Issuer], now_s: float) -> Caller:
    """The caller of a token; raises `BadToken`."""
    if len(token) > BEARER_BYTES_MAX or (form := _FORM.fullmatch(token)) is None:
        raise BadToken("form")
    header, claims = _object(form[1], BEARER_HEADER_BYTES_MAX), _object(form[2], BEARER_CLAIMS_BYTES_MAX)
    algorithm = _check_header(header)
    name = claims.get("iss")
    issuer = issuers.get(name) if isinstance(name, str) else None
    if issuer is None:
        raise BadToken("issuer")
    key = _key(issuer, header, algorithm)
    try:
        # The key's own algorithm is the only one allowed; the header was compared with it.
        jws.deserialize_compact(token, key.jwk, algorithms=[algorithm], registry=_Registry(algorithms=[algorithm]))
    except (JoseError, ValueError, TypeError) as error:
        raise BadToken(f"signature: {type(error).__name__}") from None
    expires_at_s = _check_times(claims, issuer, now_s)
    _check_audience(claims.get("aud"), issuer.audience)
    subject = _text(claims, "sub", SUBJECT_CHARS_MAX)
    token_id = _text(claims, "jti", SUBJECT_CHARS_MAX) if "jti" in claims else None
    scopes = _scopes(claims, issuer.scope_prefix)
    return Caller(
        tenant=_tenant(claims, issuer),
        subject=subject,
        scopes=scopes,
        expires_at_s=expires_at_s,
        issuer=issuer.name,
        queues=_queues(claims),
        token_id=token_id,
        is_operator="operator" in scopes and subject in issuer.operators,
    )


def sign_token(key: AuthKey, claims: Mapping[str, object]) -> str:
    """A token with these claims, signed by a private key."""
    header = {"alg": key.algorithm, "typ": "at+jwt"} | ({} if key.kid is None else {"kid": key.kid})
    payload = json.dumps(claims, separators=(",", ":")).encode()
    return jws.serialize_compact(header, payload, key.jwk, algorithms=[key.algorithm])


class _Registry(jws.JWSRegistry):
    """Gives the one algorithm of a key. Without the library's warning about the name EdDSA, which issuers still use;
    and without its check of header members, which is made before."""

    def get_alg(self, name: str) -> Any:
        if self.allowed is None or name not in self.allowed:
            raise UnsupportedAlgorithmError("another algorithm than the key's")
        return self.algorithms[name]

    def check_header(self, _: object) -> None:
        pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadToken("a member is given twice")
    return members


def _no_constant(text: str) -> Any:
    raise BadToken(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def _object(part: bytes, bytes_max: int) -> dict[str, Any]:
    """The JSON object of a part."""
    try:
        data = base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
        # Two spellings of one part would be two tokens with one signature to a careless reader.
        if len(data) > bytes_max or base64.urlsafe_b64encode(data).rstrip(b"=") != part:
            raise BadToken("a part is too long or spelt oddly")
        found = _DECODER.decode(data.decode())
    except (ValueError, RecursionError):
        raise BadToken("a part is not JSON in base64url") from None
    if type(found) is not dict or _depth(found) > BEARER_DEPTH_MAX:
        raise BadToken("a part is no object, or too deep")
    return found


def _depth(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(_depth, children), default=0)


def _check_header(header: dict[str, Any]) -> str:
    if not _HEADERS_REFUSED.isdisjoint(header):
        raise BadToken("a header member that is refused")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise BadToken("typ")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        raise BadToken("alg")
    return algorithm


def _key(issuer: Issuer, header: dict[str, Any], algorithm: str) -> AuthKey:
    """The one key of the issuer that the header means; its algorithm must be the header's."""
    keys = issuer.keys.keys()
    if "kid" in header:
        kid = header["kid"]
        if not isinstance(kid, str) or len(kid) > KID_CHARS_MAX:
            raise BadToken("kid")
        matches = [key for key in keys if key.kid == kid]
        if not matches:
            raise UnknownKey(issuer)
    else:
        matches = [key for key in keys if algorithm in key.algorithms]
    if len(matches) != 1 or algorithm not in matches[0].algorithms:
        raise BadToken("no single key for this algorithm")
    return matches[0]


def _instant(claims: dict[str, Any], name: str) -> int:
    value = claims.get(name)
    if type(value) is not int or not 0 <= value <= _INSTANT_MAX:
        raise BadToken(f"{name} is not an instant")
    return value


def _check_times(claims: dict[str, Any], issuer: Issuer, now_s: float) -> int:
    expires_at_s, issued_at_s = _instant(claims, "exp"), _instant(claims, "iat")
    starts_at_s = _instant(claims, "nbf") if "nbf" in claims else issued_at_s
    if now_s >= expires_at_s + BEARER_SKEW_S:
        raise BadToken("expired")
    if max(issued_at_s, starts_at_s) > now_s + BEARER_SKEW_S:
        raise BadToken("not valid yet")
    if not 0 < expires_at_s - issued_at_s <= issuer.lifetime_s_max:
        raise BadToken("lifetime")
    return expires_at_s


def _check_audience(found: object, audience: str) -> None:
    named = [found] if isinstance(found, str) else found
    if (
        not isinstance(named, list)
        or len(named) > _AUDIENCES_MAX
        or not all(isinstance(each, str) for each in named)
        or audience not in named
    ):
        raise BadToken("audience")


def _text(claims: dict[str, Any], name: str, chars_max: int) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= chars_max or not value.isprintable():
        raise BadToken(name)
    return value


def _tenant(claims: dict[str, Any], issuer: Issuer) -> str:
    """The tenant on which all claims for it agree: never the subject, and no default."""
    named = [claims[name] for name in issuer.tenant_claims if name in claims]
    if not named or any(each != named[0] or type(each) is not str for each in named):
        raise BadToken("tenant")
    tenant = str(named[0])
    try:
        check_tenant(tenant)
    except Refused:
        raise BadToken("tenant") from None
    if issuer.tenants is not None and not any(_matches(pattern, tenant) for pattern in issuer.tenants):
        raise BadToken("a tenant of another issuer")
    return tenant


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _scopes(claims: dict[str, Any], prefix: str) -> frozenset[str]:
    text, listed = claims.get("scope"), claims.get("scp")
    if ("scope" in claims and not isinstance(text, str)) or (
        "scp" in claims and (not isinstance(listed, list) or not all(isinstance(each, str) for each in listed))
    ):
        raise BadToken("scopes")
    found = None if text is None else frozenset(text.split(" "))
    others = None if listed is None else frozenset(listed)
    if found is not None and others is not None and found != others:
        raise BadToken("scope and scp differ")
    named = found or others or frozenset()
    return frozenset(scope for each in named if (scope := each.removeprefix(prefix)) in SCOPES)


def _queues(claims: dict[str, Any]) -> tuple[str, ...] | None:
    if "queues" not in claims:
        return None
    found = claims["queues"]
    if (
        not isinstance(found, list)
        or not 0 < len(found) <= QUEUE_PATTERNS_MAX
        or not all(isinstance(each, str) and _PATTERN.fullmatch(each) for each in found)
    ):
        raise BadToken("queues")
    return tuple(found)
