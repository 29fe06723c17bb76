"""Checks that servers keep their data as the durability profile promises, and names the rights of their user."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.stores.redis.connections.server import Server
from headrace.stores.redis.errors import startup_error
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
    """The durability that a store on these servers promises."""

    name: str
    promise: str
    version: str
    replicas: int = 0
    """The number of replicas that acknowledge every change."""


class _ServerSettings(Struct, frozen=True):
    """The version, replicas and settings of one server."""

    where: str
    version: str
    replicas: int
    settings: dict[str, str]
    """Empty when CONFIG is forbidden."""
    aof: bool

    @property
    def fsync(self) -> str:
        """How changes reach the disk: `always`, `everysec`, `no`, `snapshots`, or `hidden`."""
        if not self.settings:
            return "hidden" if self.aof else "snapshots"
        return self.settings["appendfsync"] if self.settings["appendonly"] == "yes" else "snapshots"


_SCHEMES = {"sentinel": "redis+sentinel://", "cluster": "redis+cluster://"}
ORDER = ("always", "everysec", "no", "hidden", "snapshots")
"""From the safest to the weakest; a store is as safe as its weakest server."""


async def check_servers(servers: Sequence[Server], options: RedisOptions) -> Profile:
    """Refuse servers that are too old, may evict jobs, or do not keep the profile of the URL."""
    found = [await _read_settings(server, options) for server in servers]
    weakest = max(found, key=lambda each: ORDER.index(each.fsync))
    version = min(each.version for each in found)
    if options.profile == "replicated":
        replicas = min(_check_replicated(each, options) for each in found)
        return Profile("replicated", REPLICATED.format(replicas=replicas), version, replicas)
    if options.profile == "durable":
        _check_durable(weakest)
    name = "durable" if weakest.fsync == "always" and options.profile != "fast" else "fast"
    return Profile(name, PROMISES[weakest.fsync], version)


async def _read_settings(server: Server, options: RedisOptions) -> _ServerSettings:
    where = str(server.address)
    info, config = await server.send([["INFO"], ["CONFIG", "GET", *SETTINGS]])
    if isinstance(info, Exception):
        raise startup_error(where, info)
    facts = facts_of(info)
    version = facts.get("redis_version", "0.0")
    if tuple(int(each) for each in version.split(".")[:2]) < VERSION_MIN:
        raise BadConfig(f"redis at {where} is version {version}; Headrace needs 7.0 or later, or Valkey")
    mode = facts.get("redis_mode") or facts.get("server_mode", "standalone")  # the key of Valkey
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
    return _ServerSettings(
        where, version, int(facts.get("connected_slaves", "0")), settings, facts.get("aof_enabled") == "1"
    )


def facts_of(info: bytes) -> dict[str, str]:
    """The fields of an answer to INFO."""
    return dict(line.split(":", 1) for line in info.decode("utf-8", "replace").splitlines() if ":" in line)


def _check_durable(server: _ServerSettings) -> None:
    if server.fsync == "hidden":
        raise BadConfig(
            f"redis at {server.where} forbids CONFIG, so profile=durable cannot be checked; let this user CONFIG GET,"
            " or leave the profile out"
        )
    if server.fsync != "always":
        found = "appendonly no" if server.fsync == "snapshots" else f"appendfsync {server.fsync}"
        raise BadConfig(
            f"redis at {server.where} does not keep profile=durable (found {found}); set appendonly yes and appendfsync"
            " always, or use profile=fast"
        )


def _check_replicated(server: _ServerSettings, options: RedisOptions) -> int:
    _check_durable(server)
    wanted = options.replicas or max(server.replicas, 1)
    if server.replicas < wanted:
        raise BadConfig(
            f"redis at {server.where} has {server.replicas} replicas and profile=replicated needs {wanted}; add"
            " replicas, or use profile=durable"
        )
    if int(server.settings.get("min-replicas-to-write", "0")) < 1:
        raise BadConfig(
            f"redis at {server.where} takes writes without replicas (min-replicas-to-write 0); set it to {wanted} for"
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
"""The commands of this process; only functions touch data, except the registry of queues and reads of journals."""

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
    "zcount",
    "zmscore",
    "zrange",
    "zrem",
    "zscan",
    "zscore",
)
"""The commands of the functions: a server checks their rights as well."""

OPTIONAL = ("config|get",)
"""Shows Headrace the durability settings of the server; without it the profile is `fast`."""


def rules() -> str:
    """The rights of the user, as `ACL SETUSER` takes them."""
    return " ".join(["~hr:*", "&hr:*", *(f"+{each}" for each in sorted({*SENT, *CALLED}))])
