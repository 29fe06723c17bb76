"""Companions that came to be by a death: named and made whole behind the call that met them."""

from collections.abc import Iterable

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.stores.redis.registry import Registry


class Companions:
    """What is left to be named; tried again with the next death, since the call itself has succeeded."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._unnamed: dict[Queue, None] = {}

    async def made(self, queues: Iterable[Queue]) -> None:
        """Deaths on these queues made shards of their companions."""
        self._unnamed.update(dict.fromkeys(queues))
        for queue in list(self._unnamed):
            try:
                await self._registry.companion_made(queue)
            except HeadraceError:
                return
            self._unnamed.pop(queue, None)
