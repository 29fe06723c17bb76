"""The store of a kit: in memory, with a clock that the test moves, callable from any loop and thread, failing on
command."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from headrace.model.clock import SystemClock
from headrace.model.errors import Refused
from headrace.model.feed import FeedName
from headrace.model.names import Queue
from headrace.model.times import Duration, Instant, duration_ms, instant_ms
from headrace.stores.engine.signals import has_work, next_later_ms
from headrace.stores.memory.store import MemoryStore
from headrace.testing.faults import FaultyStore, ForwardingStore, StoreCall
from headrace.testing.loop_thread import LoopThread
from headrace.testing.sent_jobs import CallLog


class KitClock:
    """The clock of a kit's store: starts at `now`, by default the present, and stands still."""

    def __init__(self, now: Instant | None = None) -> None:
        self._now_ms = SystemClock().now_ms() if now is None else instant_ms("now", now)
        self._listeners: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        """The present instant of the test, in milliseconds since 1970 UTC."""
        return self._now_ms

    def advance(self, by: Duration) -> int:
        """Move the clock on: `clock.advance("5m")`, or seconds as a number; returns the new instant."""
        return self.move_to(self._now_ms + duration_ms("by", by))

    def move_to(self, at: Instant) -> int:
        """Move the clock to an instant that is not in its past; returns it in milliseconds."""
        at_ms = instant_ms("at", at)
        if at_ms < self._now_ms:
            raise Refused(
                "bad_at",
                f"the clock stands at {self._now_ms} and was to move to {at_ms}; it goes forward only, so start a new"
                " kit with now=…",
            )
        self._now_ms = at_ms
        for listener in self._listeners:
            listener()
        return at_ms

    def on_move(self, listener: Callable[[], None]) -> None:
        """Call this after every move, on the thread that moves."""
        self._listeners.append(listener)

    def __repr__(self) -> str:
        return f"<KitClock at {self._now_ms}>"


T = TypeVar("T")


class KitStore(FaultyStore):
    """A `FaultyStore` around a store in memory in its own thread, with a log of its calls.

    Use it in a kit (`using(app, store=…)`), or with a `Client` or a `Worker` of your own. Close it with `end`, from any
    thread.
    """

    def __init__(self, clock: KitClock | None = None) -> None:
        self.clock = clock or KitClock()
        self._loop_thread = LoopThread()
        self._memory = MemoryStore(self.clock)
        self._watched: dict[Queue, None] = {}
        self._followed: dict[FeedName, None] = {}
        self._sweeps: set[asyncio.Task[int]] = set()
        self.call_log = CallLog(self._memory, self.clock)
        super().__init__(ForwardingStore(self._memory, self._forward))
        self.is_remote = False
        self.clock.on_move(lambda: self._loop_thread.call_soon(self._wake))

    def query(self, function: Callable[[MemoryStore], Coroutine[Any, Any, T]]) -> T:
        """The result of an async function of the store in memory, without faults; on any thread."""
        return self._loop_thread.call(lambda: function(self._memory))

    async def is_due(self, queues: Sequence[Queue]) -> bool:
        """Whether a worker on these queues would find work."""
        return await self._loop_thread.run(lambda: _async(lambda: has_work(self._memory.signals.tx, queues)))

    async def next_at_ms(self, queues: Sequence[Queue]) -> int | None:
        """When the next job on these queues is due, or a lease expires; None if no job waits."""

        def read() -> int | None:
            tx = self._memory.signals.tx
            shards = [shard for queue in queues for shard in queue.all_shards()]
            ends = [rows.next_lease_end_ms() for shard in shards if (rows := tx.rows(shard)) is not None]
            times = [next_later_ms(tx, queues), *ends]
            return min((each for each in times if each is not None), default=None)

        return await self._loop_thread.run(lambda: _async(read))

    async def close(self) -> None:
        """Do nothing: the test closes this store, not its clients and workers."""

    def end(self) -> None:
        """Close the store, and end its thread."""
        self._loop_thread.close()

    async def _forward(self, call: StoreCall) -> Any:
        async def act() -> Any:
            if call.name == "signals.wait":
                self._watched.update(dict.fromkeys(call.argument(0, "queues")))
            elif call.name == "signals.changed":
                self._followed[call.argument(0, "feed")] = None
            answer = await call.act()
            await self.call_log.record(call, answer)
            return answer

        return await self._loop_thread.run(act)

    def _wake(self) -> None:
        # A worker beside the test sleeps by the real clock until the next job is due; the clock of the test has moved.
        self._memory.signals.wake(self._watched)
        # Items may be over their age now: sweep the feeds that have subscribers.
        for feed in self._followed:
            sweep = asyncio.get_running_loop().create_task(self._memory.feeds.sweep(feed))
            self._sweeps.add(sweep)
            sweep.add_done_callback(self._sweeps.discard)


async def _async(read: Callable[[], T]) -> T:
    return read()
