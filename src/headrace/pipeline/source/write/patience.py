"""Asks a store again that did not answer, where asking twice does no harm."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import WRITE_RETRY_MS, WRITE_TRIES_MAX

T = TypeVar("T")


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` returns; tried a few times, then its error."""
    for tried in range(WRITE_TRIES_MAX - 1):
        try:
            return await ask()
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(WRITE_RETRY_MS * 2**tried / 1_000)
    return await ask()
