"""Real Redis servers for tests: one alone, a replica, a cluster, and a master watched by sentinels."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

import redis

from tests.support.process import NotReady, Server, free_port, wait_until
from tools.servers import redis_program

SLOTS = 16_384


class RedisServer(Server):
    """One redis-server.

    Without `aof` nothing is kept when it ends; with "always" or "everysec" it restarts with its data. `users` are
    lines of an ACL file, as in "user worker on >secret ~hr:* +@all"; the admin is always there, without a password.
    `arguments` are given to the server as they are, as in ["--maxmemory", "10mb"].
    """

    name = "redis"

    def __init__(
        self,
        *,
        aof: str | None = None,
        replica_of: "RedisServer | None" = None,
        users: Sequence[str] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.aof = aof
        self.replica_of = replica_of
        self.users = list(users)
        self.arguments = list(arguments)

    @property
    def url(self) -> str:
        """The URL for the admin."""
        return f"redis://127.0.0.1:{self.port}"

    def url_of(self, user: str, password: str) -> str:
        """The URL for a user of `users`."""
        return f"redis://{user}:{password}@127.0.0.1:{self.port}"

    def admin(self) -> "redis.Redis":
        """A plain client of the admin; close it."""
        return redis.Redis(port=self.port, socket_timeout=10)

    def ask(self, *command: Any) -> Any:
        """Run one command as the admin."""
        with self.admin() as client:
            return client.execute_command(*command)

    def command(self) -> list[str]:
        """The command line of the server."""
        (self.folder / "users.acl").write_text("\n".join(["user default on nopass ~* &* +@all", *self.users]) + "\n")
        program = redis_program()
        if program is None:
            raise NotReady("there is no redis-server; type: make servers")
        words = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        words += ["--aclfile", str(self.folder / "users.acl"), "--appendonly", "yes" if self.aof else "no"]
        words += ["--appendfsync", self.aof or "no"]
        if self.replica_of is not None:
            words += ["--replicaof", "127.0.0.1", str(self.replica_of.port), "--repl-diskless-sync-delay", "0"]
        return [*words, *self.arguments]

    def is_ready(self) -> bool:
        """Whether this very process answers, has loaded its data and, as a replica, has what its master has."""
        try:
            with self.admin() as client:
                client.ping()
                info: dict[str, Any] = client.info()
        except redis.RedisError:
            return False
        linked = self.replica_of is None or info.get("role") == "master" or info.get("master_link_status") == "up"
        return info["process_id"] == self.pid and not info["loading"] and linked


class RedisCluster:
    """Masters that share the slots between them, without replicas."""

    def __init__(
        self,
        masters: int = 3,
        *,
        aof: str | None = None,
        users: Sequence[str] = (),
        arguments: Sequence[str] = (),
        node_timeout_ms: int = 15_000,
    ) -> None:
        self.servers = []
        for _ in range(masters):
            clustered = ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
            clustered += ["--cluster-node-timeout", str(node_timeout_ms)]
            self.servers.append(RedisServer(aof=aof, users=users, arguments=[*clustered, *arguments]))

    @property
    def url(self) -> str:
        """The URL of the first member, for the admin."""
        return self.servers[0].url.replace("redis://", "redis+cluster://")

    def url_of(self, user: str, password: str) -> str:
        """The URL of the first member, for a user of `users`."""
        return self.servers[0].url_of(user, password).replace("redis://", "redis+cluster://")

    def launch(self) -> Self:
        """Start the members, share the slots and wait until all of them agree."""
        for server in self.servers:
            server.launch()
        bounds = [number * SLOTS // len(self.servers) for number in range(len(self.servers) + 1)]
        for number, server in enumerate(self.servers):
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            server.ask("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        for server in self.servers[1:]:
            bus = server.arguments[server.arguments.index("--cluster-port") + 1]
            self.servers[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until every member sees every slot served."""
        wait_until(self.is_ready, f"a cluster of {len(self.servers)}")

    def is_ready(self) -> bool:
        """Whether every member knows the others and reports the state ok."""
        for server in self.servers:
            try:
                with server.admin() as client:
                    info: dict[str, str] = client.cluster("INFO")
            except redis.RedisError:
                return False
            if info["cluster_state"] != "ok" or int(info["cluster_size"]) != len(self.servers):
                return False
        return True

    def close(self) -> None:
        """Stop all members and remove their folders."""
        for server in self.servers:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sentinel(RedisServer):
    """One sentinel: it watches a master and, with the others, chooses the next one."""

    name = "sentinel"

    def __init__(self, master: RedisServer, quorum: int, down_after_ms: int) -> None:
        super().__init__()
        self._settings = [
            f"sentinel monitor {SENTINEL_NAME} 127.0.0.1 {master.port} {quorum}",
            f"sentinel down-after-milliseconds {SENTINEL_NAME} {down_after_ms}",
            f"sentinel failover-timeout {SENTINEL_NAME} 5000",
        ]

    def command(self) -> list[str]:
        """The command line; the sentinel writes into its configuration, so that a second start continues with it."""
        program = redis_program()
        if program is None:
            raise NotReady("there is no redis-server; type: make servers")
        settings = self.folder / "sentinel.conf"
        if not settings.exists():
            settings.write_text("\n".join([f"port {self.port}", "bind 127.0.0.1", *self._settings]) + "\n")
        return [program, str(settings), "--sentinel"]

    def is_ready(self) -> bool:
        """Whether this very process answers."""
        try:
            with self.admin() as client:
                return bool(client.info("server")["process_id"] == self.pid)
        except redis.RedisError:
            return False


SENTINEL_NAME = "headrace"


class RedisSentinel:
    """A master, its replicas and the sentinels that make one of these the master when it dies."""

    def __init__(
        self, *, replicas: int = 1, sentinels: int = 3, down_after_ms: int = 500, users: Sequence[str] = ()
    ) -> None:
        self.name = SENTINEL_NAME
        self._counts = replicas, sentinels
        self._down_after_ms = down_after_ms
        self.master = RedisServer(users=users)
        self.replicas: list[RedisServer] = []
        self.sentinels: list[Sentinel] = []

    @property
    def url(self) -> str:
        """The URL of the sentinels, with the name of their master."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.name}"

    def launch(self) -> Self:
        """Start all of them and wait until every sentinel knows the replicas and the other sentinels."""
        replicas, sentinels = self._counts
        self.master.launch()
        for _ in range(replicas):
            self.replicas.append(RedisServer(replica_of=self.master, users=self.master.users).launch())
        for _ in range(sentinels):
            self.sentinels.append(Sentinel(self.master, sentinels // 2 + 1, self._down_after_ms).launch())
        wait_until(self.is_ready, "a master with its sentinels")
        return self

    def is_ready(self) -> bool:
        """Whether every sentinel knows the replicas and the other sentinels."""
        for sentinel in self.sentinels:
            with sentinel.admin() as client:
                known: dict[str, Any] = client.sentinel_master(self.name)
            if known["num-slaves"] != self._counts[0] or known["num-other-sentinels"] != self._counts[1] - 1:
                return False
        return True

    def master_port(self) -> int:
        """The port of the master, by the first sentinel."""
        answer: list[bytes] = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        return int(answer[1])

    def wait_failover(self, old: int) -> None:
        """Wait until another server than the one on the old port is master, and takes writes."""

        def done() -> bool:
            with suppress(redis.RedisError):
                port = self.master_port()
                if port != old:
                    with redis.Redis(port=port, socket_timeout=10) as client:
                        return bool(client.info("replication")["role"] == "master")
            return False

        wait_until(done, "the failover")

    def close(self) -> None:
        """Stop all of them and remove their folders."""
        for server in [*self.sentinels, *self.replicas, self.master]:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
