"""Reads a Redis URL: servers, user, durability profile, time limits."""

from collections.abc import Mapping
from typing import Literal
from urllib.parse import SplitResult, unquote

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.validate import bounded_repr

Kind = Literal["single", "sentinel", "cluster"]
KINDS: dict[str, Kind] = {
    "redis": "single",
    "rediss": "single",
    "redis+sentinel": "sentinel",
    "redis+cluster": "cluster",
}
PORTS: dict[Kind, int] = {"single": 6379, "sentinel": 26379, "cluster": 6379}
PROFILES = ("durable", "replicated", "fast")
COMMON = ("profile", "replicas", "connect_ms", "reply_ms", "wait_ms", "connections", "tls_ca")
KNOWN: dict[Kind, tuple[str, ...]] = {
    "single": COMMON,
    "sentinel": (*COMMON, "tls", "db", "sentinel_user", "sentinel_password"),
    "cluster": (*COMMON, "tls"),
}
CONNECT_MS = 2_000
"""Enough for a server on the same network to accept a connection."""
REPLY_MS = 10_000
"""Longer than any call of ours takes, `fsync` on a slow disk included."""
WAIT_MS = 1_000
"""How long the profile `replicated` waits for its replicas."""
CONNECTIONS = 8
"""Connections to one server, at most; each carries many calls at once."""


class Credentials(Struct, frozen=True):
    """A user and a password, hidden in every text."""

    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return "Credentials(…)"


class Address(Struct, frozen=True, order=True):
    """The host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RedisOptions(Struct, frozen=True, kw_only=True):
    """The options of a URL."""

    kind: Kind
    addresses: tuple[Address, ...]
    service: str = ""
    credentials: Credentials = Credentials()
    sentinel_credentials: Credentials = Credentials()
    db: int = 0
    tls: bool = False
    tls_ca: str | None = None
    profile: str | None = None
    replicas: int | None = None
    connect_ms: int = CONNECT_MS
    reply_ms: int = REPLY_MS
    wait_ms: int = WAIT_MS
    connections: int = CONNECTIONS


def options_of(parts: SplitResult, query: Mapping[str, str]) -> RedisOptions:
    """The options of a URL and its query; refuses invalid ones without showing a password."""
    kind = KINDS[parts.scheme]
    if "@" in parts.path + parts.query:
        raise BadConfig("a password with one of / ? # @ : % in a Redis URL is written with %2F %3F %23 %40 %3A %25")
    _check_known(parts.scheme, kind, query)
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    addresses = (
        tuple(_address(each, kind) for each in hosts.split(",")) if hosts else (Address("localhost", PORTS[kind]),)
    )
    if kind == "single" and len(addresses) > 1:
        raise BadConfig("redis:// names one server; write redis+sentinel:// or redis+cluster:// for several")
    path = unquote(parts.path.strip("/"))
    return RedisOptions(
        kind=kind,
        addresses=addresses,
        service=_service(path) if kind == "sentinel" else "",
        credentials=Credentials(unquote(name), unquote(password)) if at else Credentials(),
        sentinel_credentials=Credentials(query.get("sentinel_user", ""), query.get("sentinel_password", "")),
        db=_db(kind, path, query),
        tls=parts.scheme == "rediss" or _yes(query, "tls"),
        tls_ca=query.get("tls_ca"),
        profile=_profile(query.get("profile")),
        replicas=_int(query, "replicas", None, 1, 100),
        connect_ms=_int(query, "connect_ms", CONNECT_MS, 1, DURATION_MS_MAX),
        reply_ms=_int(query, "reply_ms", REPLY_MS, 1, DURATION_MS_MAX),
        wait_ms=_int(query, "wait_ms", WAIT_MS, 1, DURATION_MS_MAX),
        connections=_int(query, "connections", CONNECTIONS, 1, 1_000),
    )


def _check_known(scheme: str, kind: Kind, query: Mapping[str, str]) -> None:
    for option in query:
        if option not in KNOWN[kind]:
            raise BadConfig(
                f"{scheme}:// has no option {bounded_repr(option)}; known options: {', '.join(KNOWN[kind])}"
            )


def _address(text: str, kind: Kind) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, str(PORTS[kind])
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        # The text may be half of a password: it is not shown.
        raise BadConfig(f"a Redis URL names its servers as host:port, as in localhost:{PORTS[kind]}")
    return Address(host, int(port))


def _service(path: str) -> str:
    if not path or "/" in path:
        raise BadConfig("a Sentinel URL names the service behind the hosts, as in redis+sentinel://host:26379/mymaster")
    return path


def _db(kind: Kind, path: str, query: Mapping[str, str]) -> int:
    text = query.get("db", "0") if kind == "sentinel" else path or "0"
    if kind == "cluster" and text != "0":
        raise BadConfig("a Redis Cluster has no databases; leave the path empty")
    if not text.isascii() or not text.isdigit():
        raise BadConfig("a Redis database is a number behind the host; write redis://host:6379/0")
    return int(text)


def _profile(text: str | None) -> str | None:
    if text is not None and text not in PROFILES:
        raise BadConfig(f"Redis has no durability profile {bounded_repr(text)}; known profiles: {', '.join(PROFILES)}")
    return text


def _yes(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "no")
    if text not in {"yes", "no"}:
        raise BadConfig(f"{name} is yes or no, found {bounded_repr(text)}")
    return text == "yes"


def _int(query: Mapping[str, str], name: str, default: int | None, low: int, high: int) -> int:
    text = query.get(name)
    if text is None:
        return default  # type: ignore[return-value]  # None only where the field takes it
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise BadConfig(f"{name} is a whole number from {low} to {high}, found {bounded_repr(text)}")
    return int(text)
