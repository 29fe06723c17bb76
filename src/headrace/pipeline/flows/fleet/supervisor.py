"""The squad: all posts of a fleet, begun, watched, begun again when they fall, and ended in order."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from pyspark.sql import SparkSession

from headrace.client.background import StorePortal
from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError, Refused
from headrace.model.limits import FLEET_FALLS_MAX, FLEET_MARGIN_MS
from headrace.model.names import Queue
from headrace.model.policy import backoff
from headrace.model.results import Counts
from headrace.pipeline.flows.fleet.control import ask_to_stop, forget
from headrace.pipeline.flows.fleet.drained import counts_of
from headrace.pipeline.flows.fleet.orders import Orders
from headrace.pipeline.flows.fleet.post import Post, tag_of, told_of
from headrace.pipeline.flows.fleet.tally import FleetTally
from headrace.stores.contract.store import Store

LOOK_SECONDS = 0.2
PROGRESS_MS = 1_000
PAUSE_MS = 200
PAUSE_MS_MAX = 5_000
"""Between a fall and the next beginning, twice as long after each that follows."""
KILLED_SECONDS = 5.0
"""What Spark takes until the process of a cancelled task is gone: it looks every two seconds whether there is one, and
then waits two more (`spark.python.task.killTimeout`)."""
END_SECONDS = 30.0
"""How long Spark may take to answer that it has cancelled a job."""

Why = Literal["asked", "time", "cancelled"]


class FleetProgress(Struct, frozen=True):
    """How far a fleet is."""

    running: int
    """Slots that Spark has not answered yet."""
    falls: int
    settled: int
    """Deliveries that it has ended, by the journal; those that were `done` and `dead` among them."""
    done: int
    dead: int
    jobs_per_s: float
    """Done, dead and cancelled ones since the last look."""
    waiting: int
    """In its queues, as are `active`."""
    active: int

    @property
    def left(self) -> int:
        """Jobs that have not ended."""
        return self.waiting + self.active


class Squad:
    """Runs the posts of one fleet, on the thread that calls `run`."""

    def __init__(
        self,
        spark: SparkSession,
        orders: Orders,
        workers: int,
        portal: StorePortal,
        tally: FleetTally,
        queues: Sequence[Queue],
    ) -> None:
        self._spark = spark
        self._orders = orders
        self._portal = portal
        self._tally = tally
        self._queues = list(queues)
        self._news = threading.Event()
        self._settled = 0
        self._over = 0
        self._looked_ms = 0
        self._impossible: Exception | None = None
        self.posts = [Post(spark, orders, slot, self._news) for slot in range(workers)]
        self.falls = 0
        self.why: Why | None = None
        """Why it ended before it came to its end by itself."""

    def run(
        self,
        grace_ms: int,
        for_ms: int | None,
        stopping: threading.Event,
        on_progress: Callable[[FleetProgress], None] | None,
    ) -> int:
        """Work until all posts are over, and say how long that took; raises what makes the fleet impossible."""
        began_ms = self._looked_ms = monotonic_ms()
        kill_at_ms: int | None = None
        try:
            while not all(post.is_over for post in self.posts):
                now_ms = monotonic_ms()
                self._begin(now_ms)
                self._news.wait(LOOK_SECONDS)
                self._news.clear()
                for post in self.posts:
                    self._take(post)
                if stopping.is_set():
                    self.why = self.why or "asked"
                elif for_ms is not None and now_ms - began_ms >= for_ms:
                    self.why = self.why or "time"
                if self._is_finished_job and kill_at_ms is None:
                    self._ask_to_stop()
                    kill_at_ms = now_ms + grace_ms + FLEET_MARGIN_MS
                if kill_at_ms is not None and now_ms >= kill_at_ms:
                    break
                if monotonic_ms() - self._looked_ms >= PROGRESS_MS:
                    self._tell(on_progress)
        finally:
            self._end()
        self._tell(on_progress)
        if self._impossible is not None:
            raise told_of(self._impossible) from None
        return monotonic_ms() - began_ms

    @property
    def _is_finished_job(self) -> bool:
        return self.why is not None or self._impossible is not None

    def _begin(self, now_ms: int) -> None:
        for post in self.posts:
            if self._is_finished_job:
                post.begins_at_ms = None
            elif post.begins_at_ms is not None and post.begins_at_ms <= now_ms:
                post.begin()

    def _take(self, post: Post) -> None:
        """See to a post that has ended."""
        fate = post.take_fate()
        if fate is None or fate == "ended":
            return
        assert post.error is not None  # it did not end by itself
        if fate == "cancelled":
            self.why = self.why or "cancelled"
        elif fate == "impossible":
            self._impossible = self._impossible or post.error
        else:
            self.falls += 1
            self._fell(post)

    def _fell(self, post: Post) -> None:
        pause_ms = PAUSE_MS_MAX
        try:
            self._portal.call(self._tally.look)
        except HeadraceError:
            pass  # the store does not answer the driver either: an outage, which says nothing about the worker
        else:
            self._count_fall(post)
            pause_ms = backoff(post.falls, PAUSE_MS, PAUSE_MS_MAX)
        post.begins_at_ms = None if self._is_finished_job else monotonic_ms() + pause_ms

    def _count_fall(self, post: Post) -> None:
        if self._tally.settled > self._settled:
            self._settled = self._tally.settled
            for each in self.posts:
                each.falls = 0
        post.falls += 1
        if post.falls >= FLEET_FALLS_MAX:
            assert post.error is not None
            self._impossible = self._impossible or _hopeless(post.falls, post.error)

    def _ask_to_stop(self) -> None:
        with contextlib.suppress(HeadraceError):  # then Spark ends it, and its leases run out
            self._portal.call(lambda store: ask_to_stop(store, self._orders.feed_tenant, self._orders.fleet))

    def _end(self) -> None:
        """Leave nothing running, whatever the reason is."""
        was_cancelled = self.why == "cancelled" or any(post.is_running for post in self.posts)
        if any(post.is_running for post in self.posts):
            self._ask_to_stop()
            with contextlib.suppress(Exception):  # its session may be gone
                self._spark.interruptTag(tag_of(self._orders.fleet))
            until_ms = monotonic_ms() + int(END_SECONDS * 1_000)
            while any(post.is_running for post in self.posts) and monotonic_ms() < until_ms:
                self._news.wait(LOOK_SECONDS)
                self._news.clear()
        if was_cancelled:
            # Until then its workers may claim and extend.
            threading.Event().wait(KILLED_SECONDS)
        if self._is_finished_job or was_cancelled:
            with contextlib.suppress(HeadraceError):
                self._portal.call(lambda store: forget(store, self._orders.feed_tenant, self._orders.fleet))

    def _tell(self, on_progress: Callable[[FleetProgress], None] | None) -> None:
        if on_progress is None:
            return

        async def look(store: Store) -> Counts:
            await self._tally.look(store)
            return await counts_of(store, self._queues)

        try:
            counts = self._portal.call(look)
        except HeadraceError:
            return  # the store does not answer; the workers wait for it as well
        told, passed_ms = self._tally.counts, max(monotonic_ms() - self._looked_ms, 1)
        over = told["done"] + told["dead"] + told["cancelled"]
        pace = (over - self._over) * 1_000 / passed_ms
        self._over, self._looked_ms = over, monotonic_ms()
        on_progress(
            FleetProgress(
                sum(post.is_running for post in self.posts),
                self.falls,
                self._tally.settled,
                told["done"],
                told["dead"],
                pace,
                counts.waiting + counts.blocked,
                counts.active,
            )
        )


def _hopeless(falls: int, error: Exception) -> Exception:
    said = next((line.strip() for line in reversed(str(told_of(error)).splitlines()) if line.strip()), "nothing")
    return Refused(
        "fleet_fell",
        f"a worker of the fleet fell {falls} times in a row and no job was ended meanwhile; the last time it was:"
        f" {said[:300]}",
    )
