"""The desk: where the driver of a fleet asks the store, from any thread, inside an event loop or not."""

import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from headrace.client.background import BACKGROUND
from headrace.stores.contract.store import Store

Answer = TypeVar("Answer")


class Desk:
    """Asks the store at `url`, which stays open until the block ends. In a notebook there is an event loop already, so
    it is asked on the thread that the blocking clients of the process share."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> Self:
        BACKGROUND.run(lambda: BACKGROUND.stores.take(self._url))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        BACKGROUND.run(self._let_go)

    def ask(self, question: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """What the store answers."""

        async def asked() -> Answer:
            # After a rest of the background the store is another one.
            store = await BACKGROUND.stores.take(self._url)
            try:
                return await question(store)
            finally:
                await self._let_go()

        return BACKGROUND.run(asked)

    async def _let_go(self) -> None:
        with contextlib.suppress(KeyError):  # a rest of the background has closed it already
            await BACKGROUND.stores.let_go(self._url)
