"""Whether a server keeps what it is given, and what it promises in words."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.stores.redis.errors import NotSent, ReplyLost, bad_start
from headrace.stores.redis.server import Server
from headrace.stores.redis.url import RedisOptions

VERSION_MIN = (7, 0)
"""The first Redis with functions and sharded pub/sub; every Valkey has them."""

SETTINGS = ("maxmemory-policy", "appendonly", "appendfsync", "min-replicas-to-write")

PROMISES = {
    "always": "every answered call survives the death of the server and a power cut (appendfsync always)",
    "everysec": "answered calls survive the death of the process; a power cut may lose the last second or so"
    " (appendfsync everysec), a failover what the replica had not received",
    "no": "answered calls survive the death of the process; a power cut may lose half a minute (appendfsync no), a"
    " failover what the replica had not received",
    "snapshots": "only what is in the last snapshot survives the death of the server (appendonly no)",
    "hidden": "answered calls survive the death of the process; what a power cut or a failover may lose is not known,"
    " as the server shows no settings (CONFIG is forbidden)",
}
REPLICATED = (
    "every answered call survives the death of the server, a power cut and a failover: it is on disk, and {replicas}"
    " replica(s) have acknowledged it; writes stop while fewer are there"
)


class Profile(Struct, frozen=True):
    """What a store on these servers promises."""

    name: str
    promise: str
    version: str
    replicas: int = 0
    """How many replicas have to acknowledge every change."""


class _Seen(Struct, frozen=True):
    """What one server says of itself."""

    where: str
    version: str
    replicas: int
    settings: dict[str, str]
    """Empty when CONFIG is forbidden."""
    aof: bool

    @property
    def fsync(self) -> str:
        """How its changes reach the disk: `always`, `everysec`, `no`, `snapshots`, or `hidden`."""
        if not self.settings:
            return "hidden" if self.aof else "snapshots"
        return self.settings["appendfsync"] if self.settings["appendonly"] == "yes" else "snapshots"


_SCHEMES = {"sentinel": "redis+sentinel://", "cluster": "redis+cluster://"}
ORDER = ("always", "everysec", "no", "hidden", "snapshots")
"""From the safest on; a store is as safe as its weakest server."""


async def check_servers(servers: Sequence[Server], options: RedisOptions) -> Profile:
    """Refuse servers that are too old, may evict jobs, or do not keep the profile that was asked for."""
    seen = [await _look(server, options) for server in servers]
    weakest = max(seen, key=lambda each: ORDER.index(each.fsync))
    version = min(each.version for each in seen)
    if options.profile == "replicated":
        replicas = min(_check_replicated(each, options) for each in seen)
        return Profile("replicated", REPLICATED.format(replicas=replicas), version, replicas)
    if options.profile == "durable":
        _check_durable(weakest)
    name = "durable" if weakest.fsync == "always" and options.profile != "fast" else "fast"
    return Profile(name, PROMISES[weakest.fsync], version)


async def _look(server: Server, options: RedisOptions) -> _Seen:
    where = str(server.address)
    info, config = await server.ask([["INFO"], ["CONFIG", "GET", *SETTINGS]])
    if isinstance(info, HeadraceError):
        raise info
    if isinstance(info, (NotSent, ReplyLost)):
        raise StoreUnavailable(f"redis at {where} dropped the connection ({info}); is it running?")
    if isinstance(info, Exception):
        raise bad_start(where, info)
    facts = facts_of(info)
    version = facts.get("redis_version", "0.0")
    if tuple(int(each) for each in version.split(".")[:2]) < VERSION_MIN:
        raise BadConfig(f"redis at {where} is version {version}; Headrace needs 7.0 or later, or Valkey")
    mode = facts.get("redis_mode") or facts.get("server_mode", "standalone")  # Valkey has its own word
    if mode != ("cluster" if options.kind == "cluster" else "standalone"):
        raise BadConfig(f"redis at {where} is in {mode} mode; write {_SCHEMES.get(mode, 'redis://')} in the URL")
    if facts.get("role", "master") != "master":
        raise BadConfig(f"redis at {where} is a replica; name its master, or Sentinel with redis+sentinel://")
    settings: dict[str, str] = {}
    if isinstance(config, list):
        words = [word.decode() for word in config]
        settings = dict(zip(words[::2], words[1::2], strict=True))
    policy = settings.get("maxmemory-policy") or facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise BadConfig(
            f"redis at {where} may evict keys (maxmemory-policy {policy}); set it to noeviction, jobs would vanish"
        )
    return _Seen(where, version, int(facts.get("connected_slaves", "0")), settings, facts.get("aof_enabled") == "1")


def facts_of(info: bytes) -> dict[str, str]:
    """What a server says of itself in answer to INFO."""
    return dict(line.split(":", 1) for line in info.decode("utf-8", "replace").splitlines() if ":" in line)


def _check_durable(seen: _Seen) -> None:
    if seen.fsync == "hidden":
        raise BadConfig(
            f"redis at {seen.where} forbids CONFIG, so profile=durable cannot be checked; let this user CONFIG GET, or"
            " leave the profile out"
        )
    if seen.fsync != "always":
        found = "appendonly no" if seen.fsync == "snapshots" else f"appendfsync {seen.fsync}"
        raise BadConfig(
            f"redis at {seen.where} does not keep profile=durable (found {found}); set appendonly yes and appendfsync"
            " always, or ask for profile=fast"
        )


def _check_replicated(seen: _Seen, options: RedisOptions) -> int:
    _check_durable(seen)
    wanted = options.replicas or max(seen.replicas, 1)
    if seen.replicas < wanted:
        raise BadConfig(
            f"redis at {seen.where} has {seen.replicas} replicas and profile=replicated needs {wanted}; add replicas,"
            " or ask for profile=durable"
        )
    if int(seen.settings.get("min-replicas-to-write", "0")) < 1:
        raise BadConfig(
            f"redis at {seen.where} takes writes without replicas (min-replicas-to-write 0); set it to {wanted} for"
            " profile=replicated"
        )
    return wanted


SENT = (
    "cluster|slots",
    "exists",
    "fcall",
    "fcall_ro",
    "function|list",
    "function|load",
    "hget",
    "info",
    "ping",
    "role",
    "select",
    "ssubscribe",
    "sunsubscribe",
    "time",
    "wait",
    "xrange",
    "zadd",
    "zcard",
    "zrange",
    "zrem",
)
"""What this process sends; the data itself is only touched by functions, but for the registry of queues and the reading
of journals."""

CALLED = (
    "exists",
    "hdel",
    "hexists",
    "hget",
    "hgetall",
    "hkeys",
    "hlen",
    "hmget",
    "hscan",
    "hset",
    "hvals",
    "info",
    "lpush",
    "lrange",
    "lset",
    "ltrim",
    "rpop",
    "spublish",
    "time",
    "unlink",
    "xadd",
    "xrange",
    "xtrim",
    "zadd",
    "zcard",
    "zmscore",
    "zrange",
    "zrem",
    "zscan",
    "zscore",
)
"""What the functions call: a server checks that too, command by command."""

OPTIONAL = ("config|get",)
"""Lets Headrace see how safe the server's settings are; without it the profile is `fast`."""


def rules() -> str:
    """The rules of the user, as `ACL SETUSER` takes them."""
    return " ".join(["~hr:*", "&hr:*", *(f"+{each}" for each in sorted({*SENT, *CALLED}))])
