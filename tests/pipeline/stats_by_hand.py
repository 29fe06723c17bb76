"""Statistics by plain Python, straight from a store's own entries: the second opinion on what Spark counts."""

from collections import Counter, defaultdict
from typing import Any

from headrace.model.event import columns
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import call_store

Row = dict[str, Any]
Place = tuple[int, str, str, str | None]
"""Start of the window, tenant, queue, kind."""


def journal_of(url: str, queues: list[Queue]) -> list[Row]:
    """All events that the store holds of some queues."""

    async def read(store: Store) -> list[Row]:
        found: list[Row] = []
        for shard in (shard for queue in queues for shard in queue.all_shards()):
            after, upto = 0, (await store.journal.bounds(shard)).last_seq
            while after < upto:
                for entry in await store.journal.read(shard, after, upto):
                    found += [columns(event) for event in entry.events(shard)]
                    after = entry.last_seq
        return found

    return call_store(url, read)


def stats_by_hand(events: list[Row], window_ms: int) -> dict[Place, Row]:
    """The rows that the table must have, by place, with the backlog of journals that are there from their beginning."""
    groups: dict[Place, list[Row]] = defaultdict(list)
    for event in events:
        if _open_change(event) or _is_end(event):
            start = event["at_ms"] // window_ms * window_ms
            groups[start, event["tenant"], event["queue"], event["kind"]].append(event)
    backlog: Counter[tuple[str, str, str | None]] = Counter()
    rows = {}
    for place in sorted(groups, key=lambda place: (place[0], str(place))):
        group = groups[place]
        row = _row(group, window_ms)
        backlog[place[1:]] += row["opened"] - row["closed"]
        rows[place] = {**row, "backlog": backlog[place[1:]]}
    return rows


def _row(group: list[Row], window_ms: int) -> Row:
    names = Counter(event["event"] for event in group)
    ended = [event for event in group if _is_end(event)]
    expired = sum(1 for event in group if event["event"] == "dead" and event["fence"] is None)
    row = {
        "events": len(group),
        **{
            name: names[name]
            for name in (
                *("enqueued", "unblocked", "replayed", "done", "retried", "released", "stalled", "dead"),
                *("cancelled", "purged", "removed"),
            )
        },
        "expired": expired,
        "opened": sum(1 for event in group if _open_change(event) == 1),
        "closed": sum(1 for event in group if _open_change(event) == -1),
        "deliveries": len(ended),
        "run_ms_sum": sum(event["run_ms"] or 0 for event in group),
        "throughput": names["done"] / (window_ms / 1_000),
        "retry_rate": names["retried"] / len(ended) if ended else None,
        "stall_rate": names["stalled"] / len(ended) if ended else None,
        "death_rate": (names["dead"] - expired) / len(ended) if ended else None,
    }
    for what in ("wait", "run"):
        values = sorted(event[f"{what}_ms"] for event in ended if event[f"{what}_ms"] is not None)
        for percent in (50, 95, 99):
            # By nearest rank: the smallest value that so many percent of all do not exceed.
            rank = (percent * len(values) + 99) // 100 - 1
            row[f"{what}_p{percent}"] = three_digits(values[rank]) if values else None
        row[f"{what}_max"] = values[-1] if values else None
    return row


def three_digits(ms: int) -> int:
    """A time as statistics keep it."""
    unit = int(10 ** max(len(str(ms)) - 3, 0))
    return (ms + unit // 2) // unit * unit


def _open_change(event: Row) -> int:
    """By how much an event changes the number of jobs that wait or run."""
    match event["event"]:
        case "enqueued" | "unblocked" | "replayed":
            return 1
        case "done" | "dead":
            return -1
        case "cancelled":
            return -1 if event["reason"] is None else 0
        case "purged":
            return -1 if event["dead_letter"] is None else 0
        case "removed":
            return -1 if event["reason"] is not None else 0
    return 0


def _is_end(event: Row) -> bool:
    """Whether a delivery ended."""
    if event["event"] in ("retried", "released", "stalled"):
        return True
    return event["event"] in ("done", "dead", "cancelled") and event["fence"] is not None
