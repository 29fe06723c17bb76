"""Names of tenants, queues, shards and jobs: fresh ids, ids from a key, and the shard of an id."""

import hashlib
import os
import re
import zlib
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.limits import QUEUE_CHARS_MAX, SHARDS_MAX, TENANT_CHARS_MAX
from headrace.model.validate import bounded_repr, check_int, check_storable

DEFAULT_TENANT = "default"
DEFAULT_QUEUE = "default"
FAIL_QUEUE_SUFFIX = ".fail"
FAIL_KIND = "headrace.fail"
"""The kind of the jobs on a fail queue, one for each dead letter."""
_TENANT = re.compile(r"[a-z][a-z0-9-]{0,62}")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


def check_tenant(tenant: object) -> None:
    """Refuse a value that is not a tenant's name."""
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise Refused(
            "bad_tenant",
            f"tenant {bounded_repr(tenant)} is not a name; start with a small letter, go on with small letters, digits"
            f" and '-' ({TENANT_CHARS_MAX} at most)",
        )


def check_queue_name(name: object) -> None:
    """Refuse a value that is not a queue's name, `….fail` of fail queues included."""
    if not isinstance(name, str) or not _QUEUE.fullmatch(name):
        raise Refused(
            "bad_queue",
            f"queue name {bounded_repr(name)} is not a name; start with a letter or digit, go on with letters, digits,"
            f" '.', '-' and '_' ({QUEUE_CHARS_MAX} at most)",
        )
    if name.endswith(FAIL_QUEUE_SUFFIX):
        raise Refused(
            "bad_queue",
            f"queue name {bounded_repr(name)} ends in '.fail', which is reserved for fail queues; choose another name,"
            " or use Queue.fail_queue",
        )


def check_queue(queue: object) -> None:
    """Refuse a value other than a queue."""
    if type(queue) is not Queue:
        raise Refused("bad_queue", f"queue must be a Queue; found {type(queue).__name__} {bounded_repr(queue)}")


class Queue(Struct, frozen=True, gc=False, order=True):
    """A queue of a tenant, with its number of shards. Every store call carries this value whole.

    The number of shards is fixed when the queue is first used; a store that knows another number refuses
    `wrong_shards`. `fail_queue` is the queue of its fail handler's jobs.
    """

    name: str
    tenant: str = DEFAULT_TENANT
    shards: int = 1
    is_fail_queue: bool = False

    def __post_init__(self) -> None:
        check_queue_name(self.name)
        check_tenant(self.tenant)
        check_int("shards", self.shards, 1, SHARDS_MAX)

    @property
    def fail_queue(self) -> "Queue":
        """The queue of the jobs for this queue's fail handler."""
        if self.is_fail_queue:
            raise Refused("bad_queue", f"queue {self.full_name!r} is a fail queue and has no fail queue of its own")
        return Queue(self.name, self.tenant, self.shards, True)

    @property
    def main_queue(self) -> "Queue":
        """The queue whose dead jobs this fail queue gets; for any other queue, the queue itself."""
        return Queue(self.name, self.tenant, self.shards) if self.is_fail_queue else self

    @property
    def paired_queue(self) -> "Queue":
        """The fail queue of a main queue, or the main queue of a fail queue; both have the same number of shards."""
        return self.main_queue if self.is_fail_queue else self.fail_queue

    @property
    def full_name(self) -> str:
        """The name as it is stored and shown: with `.fail` for a fail queue."""
        return self.name + FAIL_QUEUE_SUFFIX if self.is_fail_queue else self.name

    def shard_of(self, id: str) -> "Shard":
        """The shard of the job `id`, for ever."""
        return Shard(self, self.index_of(id))

    def index_of(self, id: str) -> int:
        """The index of the shard of `id`; a fail queue's ids are routed as the job that died."""
        if self.shards == 1:
            return 0
        if self.is_fail_queue:
            id = id.rpartition("#")[0] or id
        return zlib.crc32(id.encode()) % self.shards

    def all_shards(self) -> list["Shard"]:
        """All shards, by index."""
        return [Shard(self, index) for index in range(self.shards)]

    @staticmethod
    def parse(full_name: str, tenant: str, shards: int) -> "Queue":
        """Parse a stored name."""
        name = full_name.removesuffix(FAIL_QUEUE_SUFFIX)
        return Queue(name, tenant, shards, name != full_name)


class Shard(Struct, frozen=True, gc=False, order=True):
    """One shard of a queue: the unit of atomicity, order, numbering and journal."""

    queue: Queue
    index: int = 0

    def __post_init__(self) -> None:
        check_queue(self.queue)
        check_int("shard", self.index, 0, self.queue.shards - 1)

    def __str__(self) -> str:
        return f"{self.queue.tenant}/{self.queue.full_name}/{self.index}"


RANDOM_BYTES = 10


def uuid7(now_ms: int, random: bytes) -> str:
    """A UUID of version 7: text that sorts by `now_ms`, made unique by ten `random` bytes."""
    tail = random[:RANDOM_BYTES].hex().zfill(2 * RANDOM_BYTES)
    return f"{_start_of(now_ms)}{tail[1:4]}-{_VARIANT[tail[4]]}{tail[5:8]}-{tail[8:]}"


_VARIANT = {f"{digit:x}": f"{8 | digit & 3:x}" for digit in range(16)}


@lru_cache(16)
def _start_of(now_ms: int) -> str:
    """The time and the version, shared by all ids of a millisecond."""
    text = f"{now_ms & 0xFFFFFFFFFFFF:012x}"
    return f"{text[:8]}-{text[8:]}-7"


def derived_id(queue: Queue, key: str) -> str:
    """The id of a job with idempotency key `key` and no explicit id, so that key and job share a shard.

    Refuses a key that cannot be hashed; `Job` checks the rest.
    """
    return "key-" + hashlib.blake2b(_encoded(f"{queue.tenant}\0{queue.full_name}\0{key}"), digest_size=16).hexdigest()


def id_deriver(queue: Queue, start: str) -> Callable[[str], str]:
    """A function that returns `derived_id` of `start` plus a rest, for many keys of a queue with the same prefix: the
    prefix is hashed once."""
    shared = hashlib.blake2b(_encoded(f"{queue.tenant}\0{queue.full_name}\0{start}"), digest_size=16)

    def derive(rest: str) -> str:
        digest = shared.copy()
        digest.update(_encoded(rest))
        return "key-" + digest.hexdigest()

    return derive


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        check_storable("idempotency_key", text)
        raise


def fingerprint(kind: str, payload: bytes, explicit_id: str) -> str:
    """The fingerprint of the work behind an idempotency key; without headers, times and policy."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (kind.encode(), explicit_id.encode(), payload):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


_PIECES = 400
_pieces: list[bytes] = []


def random_bytes(size: int) -> bytes:
    """Like `os.urandom`, but drawn in advance: a system call per id would cost more than the id."""
    if size != RANDOM_BYTES:
        return os.urandom(size)
    try:
        return _pieces.pop()  # atomic: two threads never take the same piece
    except IndexError:
        drawn = os.urandom(_PIECES * RANDOM_BYTES)
        piece, *more = [drawn[at : at + RANDOM_BYTES] for at in range(0, len(drawn), RANDOM_BYTES)]
        _pieces.extend(more)
        return piece


# A forked process must not draw its parent's ids.
os.register_at_fork(after_in_child=_pieces.clear)
