"""Requests that replay and purge dead letters, and their answers."""

from typing import Literal

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.finished import DeadLetterKey
from headrace.model.results import Replayed
from headrace.model.validate import bounded_repr


class ReplayBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dead letters to replay: by key, as `0:17`, or by the id of a job, whose newest one is meant. `picks` mixes both
    in one order, a key being its two numbers."""

    dead_letters: list[str] = []
    ids: list[str] = []
    picks: list[str | list[int]] = []
    keep_counts: bool = False
    delay_ms: int = 0
    spread_ms: int = 0
    shards: int | None = None

    def all_picks(self) -> list[DeadLetterKey | str]:
        """The picks: keys first, then ids, then those in mixed order; raises `Refused` for one that is no key."""
        found: list[DeadLetterKey | str] = [*map(read_key, self.dead_letters), *self.ids]
        for pick in self.picks:
            if isinstance(pick, str):
                found.append(pick)
            else:
                found.append(read_key(":".join(map(str, pick))))
        return found


def read_key(text: str) -> DeadLetterKey:
    """The key that a text is; raises `Refused` for any other."""
    key = DeadLetterKey.parse(text)
    if key is None:
        raise Refused("bad_dead_letter", f"{bounded_repr(text)} is not the key of a dead letter; write it as 0:17")
    return key


class ReplayedAnswer(Struct, frozen=True):
    """The answer to one dead letter."""

    key: str | None
    id: str | None
    status: Literal["replayed", "not_found", "id_in_use"]

    @staticmethod
    def of(replayed: Replayed) -> "ReplayedAnswer":
        """The answer of the store."""
        return ReplayedAnswer(None if replayed.key is None else str(replayed.key), replayed.id, replayed.status)

    def model(self) -> Replayed:
        """The answer as the store gave it."""
        return Replayed(None if self.key is None else DeadLetterKey.parse(self.key), self.id, self.status)


class ReplayAnswer(Struct, frozen=True):
    """The answers, in the order of the picks."""

    results: list[ReplayedAnswer]


class PurgeDeadBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters to drop, by key."""

    dead_letters: list[str]
    shards: int | None = None


class PurgedAnswer(Struct, frozen=True):
    """How many there were."""

    purged: int
