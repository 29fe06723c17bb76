"""Lets things happen to a queue, late and at one instant, and reads its journal with payloads and results."""

from collections.abc import Awaitable, Callable
from typing import Any

from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import Batch, call_store
from tests.support.play import Play

LATER_MS = 4_000_000_000_000
"""So late that whoever reads with the clock of today finds everything kept. All happens in one millisecond, unless a
story moves on: then only the order of events tells lives apart."""

EventBodies = list[tuple[str, str | None, str | None, str | None]]


def happen(url: str, story: Callable[[Play], Awaitable[Any]], name: str = "mail") -> None:
    """Let something happen, late and at one instant."""

    async def play_story(store: Store) -> None:
        play = Play(store, name=name)
        play.now_ms = LATER_MS
        await story(play)

    call_store(url, play_story)


def event_bodies(rows: list[dict[str, Any]]) -> EventBodies:
    ordered = sorted(rows, key=lambda row: (row["queue"], row["shard"], row["seq"]))
    return [(row["event"], row["id"], row["payload"], row["result"]) for row in ordered]


def read(url: str, *filters: Any, **options: str) -> list[dict[str, Any]]:
    return Batch(*filters, url=url, tenant="acme", payloads="true", **options).rows
