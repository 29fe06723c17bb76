"""The store of a kit: in memory, on a clock that is moved, asked from every loop and thread, failing on command."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from headrace.model.feed import FeedName
from headrace.model.names import Queue
from headrace.stores.engine.signals import has_work, next_later_ms
from headrace.stores.memory.store import MemoryStore
from headrace.testing.call_log import CallLog
from headrace.testing.clock import KitClock
from headrace.testing.faults import FaultyStore
from headrace.testing.forwarding import Forwarding, StoreCall
from headrace.testing.loop_thread import LoopThread

T = TypeVar("T")


class KitStore(FaultyStore):
    """A `FaultyStore` around a store in memory that has a thread of its own, and a ledger of what happened there.

    It takes part in a kit (`using(app, store=…)`), and serves a `Client` or a `Worker` of your own. Close it with
    `end`, from any thread.
    """

    def __init__(self, clock: KitClock | None = None) -> None:
        self.clock = clock or KitClock()
        self._home = LoopThread()
        self._memory = MemoryStore(self.clock)
        self._watched: dict[Queue, None] = {}
        self._followed: dict[FeedName, None] = {}
        self._sweeps: set[asyncio.Task[int]] = set()
        self.ledger = CallLog(self._memory, self.clock)
        super().__init__(Forwarding(self._memory, self._at_home))
        self.is_remote = False
        self.clock.on_move(lambda: self._home.tell(self._wake))

    def look(self, ask: Callable[[MemoryStore], Coroutine[Any, Any, T]]) -> T:
        """Ask the store in memory, past all faults, and wait for the answer; on any thread."""
        return self._home.ask(lambda: ask(self._memory))

    async def is_due(self, queues: Sequence[Queue]) -> bool:
        """Whether a worker on these queues would find something to do."""
        return await self._home.run(lambda: _async(lambda: has_work(self._memory.signals.tx, queues)))

    async def next_at_ms(self, queues: Sequence[Queue]) -> int | None:
        """When something on these queues is due next, or a lease runs out; None when nothing waits."""

        def look() -> int | None:
            tx = self._memory.signals.tx
            shards = [shard for queue in queues for shard in queue.all_shards()]
            ends = [rows.next_lease_end_ms() for shard in shards if (rows := tx.rows(shard)) is not None]
            times = [next_later_ms(tx, queues), *ends]
            return min((each for each in times if each is not None), default=None)

        return await self._home.run(lambda: _async(look))

    async def close(self) -> None:
        """Nothing: a client or worker that closes its store leaves this one to the test."""

    def end(self) -> None:
        """Close the store, and end its thread."""
        self._home.close()

    async def _at_home(self, call: StoreCall) -> Any:
        async def act() -> Any:
            if call.name == "signals.wait":
                self._watched.update(dict.fromkeys(call.argument(0, "queues")))
            elif call.name == "signals.changed":
                self._followed[call.argument(0, "feed")] = None
            answer = await call.act()
            await self.ledger.note(call, answer)
            return answer

        return await self._home.run(act)

    def _wake(self) -> None:
        # A worker beside the test sleeps by the real clock until the next job is due, and the test's has moved.
        self._memory.signals.wake(self._watched)
        # Likewise for items that the move has put over their age: whoever follows their feed has them swept.
        for feed in self._followed:
            sweep = asyncio.get_running_loop().create_task(self._memory.feeds.sweep(feed))
            self._sweeps.add(sweep)
            sweep.add_done_callback(self._sweeps.discard)


async def _async(look: Callable[[], T]) -> T:
    return look()
