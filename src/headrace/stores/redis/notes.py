"""What endangers jobs on a Redis server, in sentences."""

from collections.abc import Mapping

from headrace.model.limits import NEARLY_FULL_PERCENT


def server_name(facts: Mapping[str, str]) -> str:
    """What a server is, with its version; a Valkey also says which Redis it is like."""
    if facts.get("server_name") == "valkey":
        return f"Valkey {facts.get('valkey_version', '?')}"
    return f"Redis {facts.get('redis_version', '?')}"


def notes_on(where: str, facts: Mapping[str, str], replicas: int) -> list[str]:
    """What a person should know of a server by what it says of itself; `replicas` is how many have to acknowledge."""
    notes: list[str] = []
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        notes.append(
            f"redis at {where} may evict keys (maxmemory-policy {policy}); set it to noeviction, jobs would vanish"
        )
    if facts.get("aof_enabled") == "0":
        notes.append(
            f"redis at {where} keeps no append-only file, so its next crash or restart loses all since the last"
            " snapshot; set appendonly yes"
        )
    failed = [name for name in ("aof_last_write_status", "rdb_last_bgsave_status") if facts.get(name) == "err"]
    if failed:
        notes.append(f"redis at {where} could not write to its disk ({', '.join(failed)}: err); make room, see its log")
    used, room = int(facts.get("used_memory", "0")), int(facts.get("maxmemory", "0"))
    if room and used * 100 >= room * NEARLY_FULL_PERCENT:
        notes.append(
            f"redis at {where} has used {used * 100 // room} % of its maxmemory, and takes no jobs when that is full;"
            " raise it, or let workers catch up"
        )
    connected = int(facts.get("connected_slaves", "0"))
    if connected < replicas:
        notes.append(
            f"redis at {where} has {connected} of the {replicas} replicas that profile=replicated waits for, so every"
            " change is OutcomeUnknown; start the others"
        )
    return notes


def away(where: str, why: object) -> str:
    """The note on a server of a cluster that does not answer."""
    return f"redis at {where} of the cluster does not answer ({why}); start it: the queues it holds stand still"
