"""Folds idle shards of an offset into a few sums, so that an offset does not grow with shards where nothing happens."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from zlib import crc32

from msgspec import Struct

from headrace.model.times import instant_text
from headrace.pipeline.source.offsets import GO_ON
from headrace.pipeline.source.options import SourceOptions

IDLE_MS = 600_000
"""How old the last event of an idle shard is: more than clocks of servers ever differ."""
LISTED_IDLE_MAX = 100
"""So many idle shards are listed one by one: with their marks, a loss is told in more detail."""
_GROUPS = 32
"""Where one shard of a group differs from what was folded, it is known which one, and how far it was read."""
_MODULUS = 2**64


class ShardGroup(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Sums over the shards of a group."""

    events: int
    """Of the last seq of each."""
    digest: str
    """Of the hashes of name and last seq, in hexadecimal."""


class IdleShards(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shards that an offset does not list: of each, everything up to one instant was read."""

    at_ms: int
    epoch: int
    """The highest epoch of their last events."""
    tenant: str
    names: tuple[str, ...] = ()
    pattern: str | None = None
    """Which queues the stream read, as in its options."""
    groups: tuple[ShardGroup, ...]

    @staticmethod
    def fold(seqs: Mapping[str, int], at_ms: int, epoch: int, options: SourceOptions) -> "IdleShards":
        """Fold shards that were read up to a seq each, whose events up to `at_ms` were all read."""
        return IdleShards(
            at_ms=at_ms,
            epoch=epoch,
            tenant=options.tenant,
            names=options.names,
            pattern=options.pattern,
            groups=tuple(_sums(group) for group in _grouped(seqs)),
        )

    def compare(self, seqs: Mapping[str, int]) -> "Comparison":
        """Compare with the seqs that the same shards have reached at `at_ms`."""
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
    """What differs between folded shards and their journals."""

    at_ms: int
    differing: dict[str, int]
    """How far shards were read that have reached another seq."""
    unknown: Sequence[tuple[int, int]]
    """Of groups where several shards differ, or one is gone: how many events were read, and how many there are."""

    def sentences(self) -> list[str]:
        """What was wanted, what was found, what to do: of each group that cannot be explained."""
        return [
            f"the checkpoint has read {read:,} events of shards that were idle since {instant_text(self.at_ms)}, and"
            f" their journals count {found:,} up to then: a queue is gone or was made anew, retention has dropped"
            f" events, or this is another store; use a new checkpoint, {GO_ON} from what is there"
            for read, found in self.unknown
        ]

    @property
    def skipped(self) -> int:
        """Events that were dropped before they were read."""
        return sum(max(found - read, 0) for read, found in self.unknown)

    @property
    def lost(self) -> int:
        """Events that were read and are not there any more."""
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
    # A shard of which nothing was read adds nothing: shards come at any time.
    return int.from_bytes(blake2b(b"%s %d" % (name.encode(), seq), digest_size=8).digest()) if seq else 0


def _differing(folded: ShardGroup, found: ShardGroup, seqs: Mapping[str, int]) -> dict[str, int] | None:
    """The one shard that explains the difference of the sums, and the seq that it was folded with."""
    missing = (int(folded.digest, 16) - int(found.digest, 16)) % _MODULUS
    for name, seq in seqs.items():
        read = seq + folded.events - found.events
        if read >= 0 and (_hash(name, read) - _hash(name, seq)) % _MODULUS == missing:
            return {name: read}
    return None
