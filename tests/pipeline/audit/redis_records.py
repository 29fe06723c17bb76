"""Plants inconsistencies in the keys of a Redis store."""

from typing import Any

from headrace.model.names import Shard
from headrace.stores.redis.journal import lines_of
from headrace.stores.redis.keys import prefix_of
from headrace.stores.redis.packing import counters_of, pack_counters
from tests.pipeline.audit.sql_records import LONG_MS, MAIL, Expected, id_of, is_second, names
from tests.support.servers import redis_server


class RedisFaults:
    """Plants faults in the keys of Redis."""

    def __init__(self) -> None:
        self._server = redis_server()

    def run(self, command: str, suffix: str, *values: Any, shard: int = 0) -> Any:
        """Run a command on a key of a shard, without the store."""
        return self._server.ask(command, prefix_of(Shard(MAIL, shard)) + suffix, *values)

    def plant(self) -> Expected:
        """Plant all faults; return the findings that the audit must report, and no others."""
        self._in_jobs()
        self._in_finished_jobs_and_dead_letters()
        self._in_the_journal()
        counters = counters_of(self.run("HGET", "m", "head"))
        self.run("HSET", "m", "head", pack_counters({**counters, "done": counters["done"] + 3}))
        return {
            ("lost", "lost"),
            ("lost", "bodiless"),
            ("damage", "bodiless"),
            ("twice", "twice"),
            ("unknown", "unknown"),
            ("damage", "unknown"),
            ("stray", "stray"),
            ("damage", "due"),
            ("state", "state"),
            ("counts", "counts"),
            ("due", "counts"),
            ("blocked_job", "without_blocked_job"),
            ("finished_job", "finished_job"),
            ("lost_dead_letter", "lost_dead_letter"),
            ("stray_dead_letter", "stray_dead_letter"),
            ("impossible", "impossible"),
            ("gap", None),
            ("count", None),
        }

    def _in_jobs(self) -> None:
        template = self.run("HGET", "b", id_of("template"))
        self.run("HDEL", "b", id_of("lost"), id_of("bodiless"))
        self.run("ZREM", "l", id_of("lost"))
        for role in ("unknown", "stray"):
            self.run("HSET", "b", id_of(role), template)
        self.run("ZADD", "l", LONG_MS, id_of("stray"))
        self.run("HSET", "b", id_of("twice"), template, shard=1)
        self.run("ZADD", "l", LONG_MS, id_of("twice"), shard=1)
        self.run("ZADD", "r", 5, id_of("due"))
        self.run("HDEL", "a", id_of("state"))
        self.run("ZREM", "x", id_of("state"))
        self.run("ZADD", "r", 6, id_of("state"))
        self.run("HDEL", "t", id_of("without_blocked_job"))
        self.run("HSET", "b", id_of("counts"), self.run("HGET", "b", id_of("tried")))

    def _in_finished_jobs_and_dead_letters(self) -> None:
        self.run("HSET", "o", id_of("finished_job"), self.run("HGET", "o", id_of("cancelled")))
        numbers = {role: self._dead_letter_of(role) for role in ("lost_dead_letter", "dead")}
        self.run("HDEL", "d", numbers["lost_dead_letter"])
        self.run("ZREM", "dn", numbers["lost_dead_letter"])
        self.run("ZREM", "di", f"{id_of('lost_dead_letter')}\0{numbers['lost_dead_letter']:016}")
        dead_letter, old, new = (
            self.run("HGET", "d", numbers["dead"]),
            id_of("dead").encode(),
            id_of("stray_dead_letter").encode(),
        )
        # The id stands behind its length.
        at = dead_letter.index(old)
        dead_letter = (
            dead_letter[: at - 6] + len(new).to_bytes(2) + dead_letter[at - 4 : at] + new + dead_letter[at + len(old) :]
        )
        self.run("HSET", "d", 9_999, dead_letter)
        self.run("ZADD", "dn", 9_999, 9_999)
        self.run("ZADD", "di", 0, f"{id_of('stray_dead_letter')}\0{9_999:016}")

    def _dead_letter_of(self, role: str) -> int:
        members = self.run("ZRANGE", "di", 0, -1)
        [number] = [int(each.partition(b"\0")[2]) for each in members if each.startswith(id_of(role).encode() + b"\0")]
        return number

    def _in_the_journal(self) -> None:
        entries = [(seq, lines_of(fields)) for seq, fields in self.run("XRANGE", "j", "-", "+")]
        [configured] = [seq for seq, lines in entries if is_second(lines)]
        [claimed] = [seq for seq, lines in entries if b'"claimed"' in lines and names(lines, "impossible")]
        self.run("XDEL", "j", configured, claimed)
