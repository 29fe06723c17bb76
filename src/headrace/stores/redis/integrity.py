"""The integrity protocol: checks and repairs bodies, indexes, dead letters and counts of a shard, part by part."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from headrace.model.integrity import CountMismatch, Findings, Problem, Quarantined, RepairResult
from headrace.model.limits import BATCH_MAX, INSPECT_JOURNAL_BYTES
from headrace.model.names import Shard
from headrace.model.validate import check_int
from headrace.stores.engine.integrity import CheckCursor, read_repair_cursor
from headrace.stores.redis.client import Argument, RedisClient
from headrace.stores.redis.fanout import call_shards, now_argument
from headrace.stores.redis.journal import EntryReader, RedisJournal, bounds_of
from headrace.stores.shared.cursors import bad_cursor, write_cursor

PHASES = 9
"""The scans of the functions that check and repair."""
LAST_PHASE = f"{PHASES} 0"
NO_RECORDS: tuple[Any, ...] = ([], [], 0, b"", b"")
"""In the stead of the answer of the last scan, which is repeated while only the journal is left to check."""
_MISSED: dict[bytes, Literal["body", "delivery", "dead_letter"]] = {b"b": "body", b"a": "delivery", b"d": "dead_letter"}


class RedisIntegrity:
    """A cursor is the phase and how far its scan is; a record that moves meanwhile is seen or is new."""

    def __init__(self, client: RedisClient, journal: RedisJournal) -> None:
        self._client = client
        self._journal = journal

    async def check(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Findings:
        position = CheckCursor.read(shard, cursor)
        records = LAST_PHASE if position.records is None else position.records
        args = _check_args(records, limit, now_ms)
        [answer] = await call_shards(self._client, "integrity_check", [shard], args, reads=True)
        if answer is None:
            return Findings()
        journal, leases_over, quarantine, checked = answer
        problems, count_mismatches, _, *scan = checked if position.records is not None else NO_RECORDS
        bounds = bounds_of(journal)
        after, upto = position.journal(bounds)
        entries = await EntryReader(self._client, shard, after, upto).read(limit, INSPECT_JOURNAL_BYTES)
        found = Findings(
            epoch=bounds.epoch,
            journal=bounds,
            leases_over=int(leases_over),
            quarantined=len(quarantine),
            quarantine=tuple(Quarantined(_MISSED[each[:1]], each[2:].decode()) for each in quarantine[:limit]),
            problems=_problems(problems),
            count_mismatches=_count_mismatches(count_mismatches),
            cursor=_position_of(scan),
        )
        if after < upto and (not entries or entries[0].first_seq > after + 1):
            # Retention may have dropped the next entries since the bounds were read, and more since.
            first_seq = (await self._journal.bounds(shard)).first_seq
            first_seq = min([first_seq, *(entry.first_seq for entry in entries[:1])])
            found = replace(found, journal=replace(bounds, first_seq=max(first_seq, bounds.first_seq)))
        return position.finish(shard, found, entries)

    async def repair(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> RepairResult:
        args = _check_args(read_repair_cursor(shard, cursor, limit), limit, now_ms)
        [answer] = await call_shards(self._client, "integrity_repair", [shard], args)
        if answer is None:
            return RepairResult()
        problems, count_mismatches, cleared, *scan = answer
        return RepairResult(
            problems=_problems(problems),
            count_mismatches=_count_mismatches(count_mismatches),
            cleared=int(cleared),
            cursor=None if (at := _position_of(scan)) is None else write_cursor(shard.index, at),
        )


def _check_args(position: str, limit: int, now_ms: int | None) -> list[Argument]:
    check_int("limit", limit, 1, BATCH_MAX)
    phase, _, at = (position or "1 0").partition(" ")
    if not (phase.isdigit() and at.isdigit() and 1 <= int(phase) <= PHASES):
        raise bad_cursor("a check of this shard")
    return [now_argument(now_ms), int(phase), at, limit]


def _position_of(scan: Sequence[Any]) -> str | None:
    phase, at = scan
    return None if phase == b"" else f"{int(phase)} {at.decode()}"


def _problems(flat: list[bytes]) -> tuple[Problem, ...]:
    # A job may have several problems, and a scan may show one twice.
    found = [Problem(kind.decode(), id.decode()) for kind, id in zip(flat[::2], flat[1::2], strict=True)]  # type: ignore[arg-type]  # the functions name no others
    return tuple(dict.fromkeys(found))


def _count_mismatches(flat: list[bytes]) -> tuple[CountMismatch, ...]:
    found = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return tuple(sorted(CountMismatch(name.decode(), int(stored), int(counted)) for name, stored, counted in found))
