"""Jobs that have ended: finished jobs (done or cancelled) and dead letters."""

import re
from typing import Literal

from msgspec import Struct

from headrace.model.decision import Reason
from headrace.model.job import Record
from headrace.model.outcome import JobError

_KEY = re.compile(r"([0-9]{1,3}):([0-9]{1,18})")


class FinishedJob(Struct, frozen=True, gc=False):
    """A done or cancelled job; kept while `now < until_ms`."""

    id: str
    state: Literal["done", "cancelled"]
    kind: str
    tag: str | None
    enqueued_at_ms: int
    ended_at_ms: int
    until_ms: int
    pinned: bool
    """Kept for its own `result_ttl_ms`, whatever the queue's count."""
    attempts: int
    stalls: int
    result: bytes | None = None


class DeadLetterKey(Struct, frozen=True, gc=False, order=True):
    """Names one dead letter: the shard's index and the dead letter's number there; as text `0:17`."""

    shard: int
    number: int

    def __str__(self) -> str:
        return f"{self.shard}:{self.number}"

    @staticmethod
    def parse(text: str) -> "DeadLetterKey | None":
        """The key that a text is, if it is one."""
        match = _KEY.fullmatch(text)
        return None if match is None else DeadLetterKey(int(match[1]), int(match[2]))


class DeadLetter(Struct, frozen=True, gc=False):
    """A dead job with its complete record and the cause; kept while `now < until_ms`."""

    key: DeadLetterKey
    record: Record
    reason: Reason
    error: JobError
    died_at_ms: int
    until_ms: int
