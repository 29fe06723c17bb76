"""Makes ids: fresh ids that sort by time, and ids derived from an idempotency key."""

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache

from headrace.model.names import Queue
from headrace.model.validate import check_storable

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
