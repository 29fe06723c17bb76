"""Reads the issuers of tokens from options, or from a TOML file with one table for each."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.limits import BEARER_LIFETIME_S, BEARER_LIFETIME_S_MAX
from headrace.model.times import duration_ms
from headrace.model.validate import shown_path
from headrace.service.jwks import PublishedKeys, check_issuer_url
from headrace.service.keys import AuthKey, load_keys
from headrace.service.tokens import AUDIENCE, ISSUER, TENANT_CLAIMS, Issuer, KeySource, StaticKeys


class IssuerTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An issuer as the file describes it."""

    name: str = ISSUER
    keys: list[str] = []
    jwks: str | None = None
    is_published: bool = msgspec.field(name="published", default=False)
    audience: str = AUDIENCE
    tenants: list[str] | None = None
    tenant_claims: list[str] | None = None
    scope_prefix: str = ""
    lifetime_max: str | None = None
    operators: list[str] = []


class AuthFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file: issuers in order."""

    issuer: list[IssuerTable]


class MergedKeys:
    """Keys from files and published ones, of one issuer."""

    def __init__(self, keys: Sequence[AuthKey], published: PublishedKeys) -> None:
        self._keys = keys
        self._published = published

    def keys(self) -> Sequence[AuthKey]:
        """Those of the files first."""
        return [*self._keys, *self._published.keys()]

    async def refresh(self, *, forced: bool) -> bool:
        """Fetch the published ones."""
        return await self._published.refresh(forced=forced)


def read_auth_file(path: str) -> list[Issuer]:
    """The issuers of a file; raises `BadConfig`."""
    try:
        document: dict[str, Any] = tomllib.loads(Path(path).read_text("utf-8"))
        tables = msgspec.convert(document, AuthFile).issuer
    except (OSError, ValueError) as error:
        raise BadConfig(f"--auth {shown_path(path)} cannot be read: {error}") from error
    return checked_issuers([issuer_of(table) for table in tables])


def checked_issuers(issuers: list[Issuer]) -> list[Issuer]:
    """The issuers, each of another name; raises `BadConfig`."""
    names = [each.name for each in issuers]
    if len(set(names)) < len(names):
        raise BadConfig("two issuers have the same name; put their keys into one")
    return issuers


def issuer_of(table: IssuerTable) -> Issuer:
    """The issuer that a table describes; loads its keys."""
    static = [key for path in table.keys for key in load_keys(path)]
    is_published = table.is_published or table.jwks is not None
    if is_published:
        check_issuer_url(table.name)
    if not static and not is_published:
        raise BadConfig(f"issuer {table.name!r} has no keys; give it keys, jwks or published = true")
    kids = [key.kid for key in static if key.kid is not None]
    if len(set(kids)) < len(kids):
        raise BadConfig(f"two keys of issuer {table.name!r} have the same kid; give each its own")
    keys: KeySource = StaticKeys(static)
    if is_published:
        published = PublishedKeys(table.name, table.jwks)
        keys = MergedKeys(static, published) if static else published
    return Issuer(
        name=table.name,
        keys=keys,
        audience=table.audience,
        tenants=None if table.tenants is None else tuple(table.tenants),
        tenant_claims=TENANT_CLAIMS if not table.tenant_claims else tuple(table.tenant_claims),
        scope_prefix=table.scope_prefix,
        lifetime_s_max=_lifetime_s(table.lifetime_max),
        operators=tuple(table.operators),
    )


def _lifetime_s(text: str | None) -> int:
    if text is None:
        return BEARER_LIFETIME_S
    seconds = duration_ms("lifetime_max", text) // 1_000
    if not 0 < seconds <= BEARER_LIFETIME_S_MAX:
        raise BadConfig(f"the longest life of a token may be 31 days; found {text}")
    return seconds
