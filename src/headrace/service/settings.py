"""The settings of a service, checked before it starts."""

import re

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.limits import AUTH_FAILURES_PER_MINUTE
from headrace.model.validate import bounded_repr
from headrace.service.rates import Rate

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")


class ServiceSettings(Struct, frozen=True, kw_only=True):
    """How a service behaves, apart from its store and its issuers."""

    rates: dict[str, Rate] | None = None
    """The rates of tenants by class; None does not limit them."""
    worker_names_as_given: bool = False
    """Whether workers keep their names, instead of names that begin with the subject of their token."""
    trust_now: bool = False
    """Whether callers may choose the time of a call, as tests of stores do; on loopback only."""
    auth_failures_per_minute: int = AUTH_FAILURES_PER_MINUTE
    """Refused tokens of one address before it has to wait."""
    revocation_ms: int | None = 1_000
    """How old the lists of revoked tokens may be; None does not read them."""
    cors_origins: tuple[str, ...] = ()
    version: str = "0"

    def __post_init__(self) -> None:
        for origin in self.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise BadConfig(
                    f"--cors-origin must be an origin such as https://app.example.org; found {bounded_repr(origin)}"
                )


def check_host(host: str, *, has_issuers: bool, trust_now: bool = False) -> None:
    """Refuse an address beyond loopback for a service that makes its own tokens or trusts the caller's clock."""
    if host in LOOPBACK:
        return
    if not has_issuers:
        raise BadConfig(
            f"without --key, --issuer or --auth anybody who reaches {bounded_repr(host)} could read and run jobs; give"
            " one of them, or leave --host at 127.0.0.1"
        )
    if trust_now:
        raise BadConfig("--trust-now is for tests on this machine; leave --host at 127.0.0.1")
