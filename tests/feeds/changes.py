"""Reads changes from subscriptions, with a time-out."""

import asyncio
from collections.abc import Iterable

from headrace import Change
from headrace.feeds.subscription import ChangeStream

SOON_S = 20
EVERYWHERE = ["memory", "sqlite", "redis", "postgres"]
"""The stores of tests that go from one process to another."""


async def take(stream: ChangeStream, count: int) -> list[Change]:
    """The next changes."""
    async with asyncio.timeout(SOON_S):
        return [await anext(stream) for _ in range(count)]


async def take_until(stream: ChangeStream, event: str) -> list[Change]:
    """The next changes up to one of an event, and that one."""
    changes: list[Change] = []
    async with asyncio.timeout(SOON_S):
        while not changes or changes[-1].event != event:
            changes.append(await anext(stream))
    return changes


async def rest(stream: ChangeStream) -> list[Change]:
    """All changes until the stream ends."""
    async with asyncio.timeout(SOON_S):
        return [change async for change in stream]


def summaries(changes: Iterable[Change]) -> list[str]:
    """Event and id of each."""
    return [f"{change.event} {change.id}".strip() for change in changes]
