"""The journal: events in order, and its registered readers."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model.event import Bounds, Consumer, Entry, Span
from headrace.model.names import Shard


class Journal(Protocol):
    """Events of a shard under a gap-free `seq`; `at_ms` never decreases. Written by the transitions themselves."""

    async def read(self, shard: Shard, after: int, upto: int, *, limit: int = 10_000) -> Sequence[Entry]:
        """Entries with the events of `after < seq <= upto`, cut to that range, oldest first; at most `limit` entries
        or 8 MiB of lines, at least one entry while there is one. The same range gives the same events again. Events
        that retention has dropped are missing at the front: compare with `bounds`."""

    async def bounds(self, shard: Shard) -> Bounds:
        """The range of readable events; an unknown shard is empty."""

    async def all_bounds(self, shards: Sequence[Shard]) -> Sequence[Bounds]:
        """The bounds of many shards, at most 1,000, in their order: for frequent reads of many journals. They are not
        of one instant."""

    async def reached(self, spans: Sequence[Span], at_ms: int) -> Sequence[int]:
        """The ends of the journals at an instant, for at most 1,000 spans: the last seq in each span
        (`after < seq <= upto`) whose event happened at or before `at_ms`; its `after` when there is none. The cost
        grows with the logarithm of a span. What retention has dropped counts as before any instant."""

    async def register(
        self, shard: Shard, consumer: str, *, seq: int = 0, hold: bool = False, now_ms: int | None = None
    ) -> Consumer:
        """Register a reader at the offset `seq`; a registered one keeps its offset and takes the new `hold`.

        With `hold`, retention by age and count waits for the reader while it is active; the byte limit does not wait.
        """

    async def advance(self, shard: Shard, consumer: str, seq: int, *, now_ms: int | None = None) -> Consumer:
        """Move a reader's offset to `seq`, never back; refuses an unknown reader and an offset beyond the end."""

    async def forget(self, shard: Shard, consumer: str) -> bool:
        """Remove a reader; returns whether it was registered."""

    async def consumers(self, shard: Shard) -> Sequence[Consumer]:
        """The registered readers, by name."""

    async def trim(self, shard: Shard, *, limit: int = 1_000, now_ms: int | None = None) -> int:
        """Drop entries beyond the queue's retention, oldest first, at most `limit`, and return how many."""
