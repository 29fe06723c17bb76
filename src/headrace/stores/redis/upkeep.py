"""The upkeep protocol: bodies, indexes, letters and counts of a shard are walked in parts, each in one step."""

from collections.abc import Sequence
from typing import Any, Literal

from headrace.model.errors import Refused
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Shard
from headrace.model.upkeep import Damage, Findings, Mended, Miscount, Quarantined
from headrace.stores.calls.cursor import write_cursor
from headrace.stores.calls.upkeep import read_place
from headrace.stores.redis.asking import ask, instant
from headrace.stores.redis.journal import bounds_of
from headrace.stores.redis.link import Argument, Link

PHASES = 9
"""The scans of `lua/parts/mending.lua`."""
_MISSED: dict[bytes, Literal["body", "delivery", "letter"]] = {b"b": "body", b"a": "delivery", b"d": "letter"}


class RedisUpkeep:
    """A walk names the key it is at and how far a scan of it has got; what moves meanwhile is seen or is new."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def inspect(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Findings:
        given = _given(shard, cursor, limit, now_ms)
        [answer] = await ask(self._link, "inspect", [shard], given, reads=True)
        if answer is None:
            return Findings()
        journal, leases_over, quarantine, walked = answer
        damages, miscounts, _, *place = walked
        bounds = bounds_of(journal)
        return Findings(
            epoch=bounds.epoch,
            journal=bounds,
            leases_over=int(leases_over),
            quarantined=len(quarantine),
            quarantine=tuple(Quarantined(_MISSED[each[:1]], each[2:].decode()) for each in quarantine[:limit]),
            damages=_damages(damages),
            miscounts=_miscounts(miscounts),
            cursor=_cursor(shard, place),
        )

    async def mend(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Mended:
        [answer] = await ask(self._link, "mend", [shard], _given(shard, cursor, limit, now_ms))
        if answer is None:
            return Mended()
        damages, miscounts, cleared, *place = answer
        return Mended(
            damages=_damages(damages),
            miscounts=_miscounts(miscounts),
            cleared=int(cleared),
            cursor=_cursor(shard, place),
        )


def _given(shard: Shard, cursor: str | None, limit: int, now_ms: int | None) -> list[Argument]:
    place = read_place(shard, cursor, limit)
    phase, _, at = (place or "1 0").partition(" ")
    if not (phase.isdigit() and at.isdigit() and 1 <= int(phase) <= PHASES):
        raise Refused("bad_cursor", "the cursor is not one that a look at this shard gave; start without one")
    return [instant(now_ms), int(phase), at, limit]


def _cursor(shard: Shard, place: Sequence[Any]) -> str | None:
    phase, at = place
    return None if phase == b"" else write_cursor(shard.index, f"{int(phase)} {at.decode()}")


def _damages(flat: list[bytes]) -> tuple[Damage, ...]:
    # A job may be amiss in several places, and a scan may show one twice.
    found = [Damage(flaw.decode(), id.decode()) for flaw, id in zip(flat[::2], flat[1::2], strict=True)]  # type: ignore[arg-type]  # the functions say nothing else
    return tuple(dict.fromkeys(found))


def _miscounts(flat: list[bytes]) -> tuple[Miscount, ...]:
    found = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return tuple(sorted(Miscount(name.decode(), int(kept), int(counted)) for name, kept, counted in found))
