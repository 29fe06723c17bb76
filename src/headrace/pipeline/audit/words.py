"""Flaws of the journal in words."""

from typing import Any

from headrace.model.event import Bounds
from headrace.model.names import Shard
from headrace.pipeline.audit.findings import Finding, What
from headrace.pipeline.audit.frames import StoredRecords

_RESTORED = "readers of this journal miss events; compare with the history, and find out who deletes entries"
_HINTS: dict[str, str] = {
    "gap": _RESTORED,
    "doubled": "readers of this journal may take them for one; find out who writes to the store besides Headrace",
    "backwards": "windows over time may have missed it; find out who writes to the store besides Headrace",
    "impossible": "an event is missing or was made up; headrace doctor shows whether the store is damaged",
    "fence": "outside resources may turn away the newer delivery; find out whether a part of the store was restored",
}


def flaw_finding(row: Any) -> Finding:
    """A row of `flaws` as a finding."""
    what: What = row["what"]
    return Finding(
        what=what,
        tenant=row["tenant"],
        queue=row["queue"],
        shard=row["shard"],
        id=row["id"],
        journal=_said(row),
        store="",
        seq=row["seq"],
        hint=_HINTS[what],
    )


def _said(row: Any) -> str:
    before, after = row["before"], row["after"]
    match row["what"]:
        case "gap":
            return f"seq {before} is followed by {after}; {int(after) - int(before) - 1:,} events are missing"
        case "doubled" if row["event"] == "dead" and int(after) != row["seq"]:
            return f"dead letter {after} was given to {before} deaths"
        case "doubled":
            return f"seq {after} is there twice"
        case "backwards":
            return f"{row['event']} at {after}, after an event at {before}"
        case "fence":
            return f"{row['event']} with fence {after}, after fence {before}"
        case _:
            return f"{row['event']} of a job that was {before}"


def missing_finding(shard: Shard, bounds: Bounds, held: StoredRecords | None, last_seq: int) -> Finding | None:
    """A finding where a journal does not hold what it says: from `bounds.first_seq` to `last_seq`."""
    if last_seq < bounds.first_seq:
        return None
    if held is not None and held.first_seq <= bounds.first_seq and held.last_seq >= last_seq:
        return None
    has = "no event" if held is None else f"seq {held.first_seq} to {held.last_seq}"
    return Finding(
        what="gap",
        tenant=shard.queue.tenant,
        queue=shard.queue.full_name,
        shard=shard.index,
        journal=f"says that it holds seq {bounds.first_seq} to {last_seq}, and has {has}",
        store="",
        seq=bounds.first_seq,
        hint=_RESTORED,
    )
