"""The least that a server must let an application's user do."""

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
