"""Stores that the blocking clients of a process share: one per URL, on the background's event loop."""

import asyncio
import contextlib

from headrace.stores.contract.store import Store
from headrace.stores.open import open_store


class SharedStores:
    """Opens each URL once, whoever asks and how many at the same time; closed when the last user has let go."""

    def __init__(self) -> None:
        self._opening: dict[str, asyncio.Task[Store]] = {}
        self._users: dict[str, int] = {}

    async def take(self, url: str) -> Store:
        """The store at `url`, with one user more; give it back with `let_go`."""
        opening = self._opening.get(url)
        if opening is None or has_failed(opening):
            opening = self._opening[url] = asyncio.create_task(open_store(url))
        self._users[url] = self._users.get(url, 0) + 1
        try:
            return await asyncio.shield(opening)  # others wait for it, too
        except BaseException:
            self._users[url] -= 1
            raise

    async def let_go(self, url: str) -> None:
        """One user less; the last one closes the store."""
        self._users[url] -= 1
        if not self._users[url]:
            del self._users[url]
            await (await self._opening.pop(url)).close()

    async def close(self, seconds: float) -> None:
        """Close all of them, whoever uses them; what cannot be closed in time is left to the end of the process."""
        for opening in self._opening.values():
            with contextlib.suppress(Exception):
                async with asyncio.timeout(seconds):
                    await (await opening).close()
        self._opening, self._users = {}, {}


def has_failed(task: "asyncio.Task[Store]") -> bool:
    """Whether the task is over without a store."""
    return task.done() and (task.cancelled() or task.exception() is not None)
