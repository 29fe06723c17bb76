"""The servers shared by all tests of one process: each is started at its first use.

Tests that stop or kill a server start one of their own from redis_servers and postgres_servers.
"""

from functools import cache

from headrace.stores.redis.durability import rules
from tests.support.postgres_servers import PostgresServer
from tests.support.redis_servers import RedisCluster, RedisServer

USER, PASSWORD = "headrace", "not-a-secret"

_BORROWED: dict[str, int] = {}
"""Ports of servers that another process has started, by the name of the store."""


def users() -> list[str]:
    """The ACL user with the least rights that the driver can live on."""
    return [f"user {USER} on >{PASSWORD} resetchannels {rules()}"]


@cache
def redis_server() -> RedisServer:
    """The one Redis of this process."""
    if port := _BORROWED.get("redis"):
        return RedisServer.of_another(port)
    return RedisServer(users=users()).launch()


@cache
def redis_cluster() -> RedisCluster:
    """The one cluster of this process, of three masters."""
    return RedisCluster(users=users()).launch()


@cache
def postgres_server() -> PostgresServer:
    """The one PostgreSQL of this process; a kill of its processes it would survive, a power cut it would not."""
    if port := _BORROWED.get("postgres"):
        return PostgresServer.of_another(port)
    return PostgresServer(settings={"max_connections": 300}).launch()


def lend(store: str) -> dict[str, int]:
    """The port of this process's server for a store, if the store has one: for a process that borrows it."""
    started = {"redis": redis_server, "postgres": postgres_server}
    return {store: started[store]().port} if store in started else {}


def borrow(lent: dict[str, int]) -> None:
    """Use the servers of the process that has started this one, instead of servers of its own."""
    _BORROWED.update(lent)
