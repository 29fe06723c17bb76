"""Folds the idle shards of an offset into a few sums, so that it does not grow with their number."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from zlib import crc32

from msgspec import Struct

from headrace.model.times import instant_text
from headrace.pipeline.source.offsets import GO_ON
from headrace.pipeline.source.options import SourceOptions

IDLE_MS = 600_000
"""The least age of the last event of an idle shard: more than server clocks ever differ."""
LISTED_IDLE_MAX = 100
"""Up to this many idle shards are listed one by one, since marks describe a loss in more detail."""
_GROUPS = 32
"""If one shard of a group differs from its sums, the group tells which one, and how far it was read."""
_MODULUS = 2**64


class ShardGroup(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Sums over the shards of a group."""

    events: int
    """The sum of the last seqs."""
    digest: str
    """The sum of the hashes of name and last seq, in hexadecimal."""


class IdleShards(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shards that an offset does not list: each was read up to one instant."""

    at_ms: int
    epoch: int
    """The highest epoch of their last events."""
    tenant: str
    names: tuple[str, ...] = ()
    pattern: str | None = None
    """The queues of the stream, as in its options."""
    groups: tuple[ShardGroup, ...]

    @staticmethod
    def fold(seqs: Mapping[str, int], at_ms: int, epoch: int, options: SourceOptions) -> "IdleShards":
        """Fold shards that were read up to these seqs, and so up to `at_ms`."""
        return IdleShards(
            at_ms=at_ms,
            epoch=epoch,
            tenant=options.tenant,
            names=options.names,
            pattern=options.pattern,
            groups=tuple(_sums(group) for group in _grouped(seqs)),
        )

    def compare(self, seqs: Mapping[str, int]) -> "Comparison":
        """Compare with the seqs of the same shards at `at_ms`."""
        differing: dict[str, int] = {}
        unknown: list[tuple[int, int]] = []
        for folded, group in zip(self.groups, _grouped(seqs), strict=True):
            found = _sums(group)
            if found == folded:
                continue
            one = _differing(folded, found, group)
            if one is None:
                unknown.append((folded.events, found.events))
            else:
                differing |= one
        return Comparison(self.at_ms, differing, unknown)


class Comparison(Struct, frozen=True):
    """The differences between folded shards and their journals."""

    at_ms: int
    differing: dict[str, int]
    """The last read seq of shards with another seq."""
    unknown: Sequence[tuple[int, int]]
    """The read and the existing number of events of groups in which several shards differ, or one is gone."""

    def sentences(self) -> list[str]:
        """A sentence for each group with an unexplained difference."""
        return [
            f"the checkpoint has read {read:,} events of shards that were idle since {instant_text(self.at_ms)}, and"
            f" their journals count {found:,} up to then: a queue was deleted or created again, retention has dropped"
            f" events, or this is another store; use a new checkpoint, {GO_ON} with the remaining events"
            for read, found in self.unknown
        ]

    @property
    def skipped(self) -> int:
        """Events that were dropped before they were read."""
        return sum(max(found - read, 0) for read, found in self.unknown)

    @property
    def lost(self) -> int:
        """Events that were read and no longer exist."""
        return sum(max(read - found, 0) for read, found in self.unknown)


def _grouped(seqs: Mapping[str, int]) -> list[dict[str, int]]:
    groups: list[dict[str, int]] = [{} for _ in range(_GROUPS)]
    for name, seq in seqs.items():
        groups[crc32(name.encode()) % _GROUPS][name] = seq
    return groups


def _sums(seqs: Mapping[str, int]) -> ShardGroup:
    digest = sum(_hash(name, seq) for name, seq in seqs.items()) % _MODULUS
    return ShardGroup(sum(seqs.values()), f"{digest:x}")


def _hash(name: str, seq: int) -> int:
    # An unread shard adds nothing: new shards may appear at any time.
    return int.from_bytes(blake2b(b"%s %d" % (name.encode(), seq), digest_size=8).digest()) if seq else 0


def _differing(folded: ShardGroup, found: ShardGroup, seqs: Mapping[str, int]) -> dict[str, int] | None:
    """The one shard that explains the difference of the sums, with its folded seq."""
    missing = (int(folded.digest, 16) - int(found.digest, 16)) % _MODULUS
    for name, seq in seqs.items():
        read = seq + folded.events - found.events
        if read >= 0 and (_hash(name, read) - _hash(name, seq)) % _MODULUS == missing:
            return {name: read}
    return None
