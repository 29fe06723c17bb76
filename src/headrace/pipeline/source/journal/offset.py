"""How far a stream has read each journal, as Spark keeps it in a checkpoint."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from headrace.model.event import Entry, Span
from headrace.model.names import Shard
from headrace.pipeline.source.checkpoint import VERSION, read_offset, unknown_form

_DIGEST_BYTES = 8


class Mark(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The last event that was read of a shard: its place, and what it was."""

    epoch: int
    seq: int
    digest: str
    """By which the event is known again; empty when there was none to look at."""
    at_ms: int
    """When it happened: what happened later is new, whatever became of the store. 0 when there was none."""

    @staticmethod
    def of(seq: int, entries: Sequence[Entry]) -> "Mark":
        """The mark of the event `seq`, which is all that `entries` hold; they hold nothing when it is not kept."""
        if not entries:
            return Mark(0, seq, "", 0)
        entry = entries[0]
        digest = blake2b(b"%d %d %s" % (entry.epoch, entry.at_ms, entry.lines), digest_size=_DIGEST_BYTES)
        return Mark(entry.epoch, seq, digest.hexdigest(), entry.at_ms)


NOTHING = Mark(0, 0, "", 0)
"""Of a journal of which nothing was read yet."""


class Offset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a batch ends, which is where the next one begins."""

    v: int = VERSION
    shards: dict[str, Mark]
    jumps: dict[str, int] = {}
    """After which seq this batch begins in a shard, where that is not where the last one ended: the shard is new, or
    something was lost. Kept, so that the batch reads the same when it is run again."""
    skipped: int = 0
    """Events that were dropped before they were read, since the beginning."""
    lost: int = 0
    """Events that were read and that the store no longer knows, since the beginning."""

    @staticmethod
    def parse(told: Mapping[str, Any]) -> "Offset":
        """The offset that Spark has kept; `BadConfig` when it is none of ours."""
        offset = read_offset(told, Offset)
        if any(name.count("/") != 2 for name in offset.shards):
            raise unknown_form()
        return offset

    def told(self) -> dict[str, Any]:
        """What Spark is to keep."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return told

    def begins(self, before: "Offset", name: str) -> int:
        """After which seq the batch that ends here begins in a shard, when the last one ended with `before`."""
        return self.jumps.get(name, before.shards.get(name, NOTHING).seq)

    def spans(self, before: "Offset", shards: Mapping[str, Shard]) -> list[Span]:
        """What the batch that ends here reads, of those shards that are known."""
        spans = [
            Span(shards[name], self.begins(before, name), mark.seq)
            for name, mark in self.shards.items()
            if name in shards
        ]
        return [span for span in spans if span.count > 0]
