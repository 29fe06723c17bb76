"""The store's clock: what it shows, and that calls without a time go by it."""

from headrace.model.clock import SystemClock
from headrace.stores.contract.store import Store
from tests.support.play import Play


async def test_the_clock_of_a_store_on_this_machine_is_that_of_this_process(store: Store) -> None:
    clock = SystemClock()

    before_ms = clock.now_ms()
    now_ms = await store.now_ms()

    assert before_ms <= now_ms <= clock.now_ms()


async def test_the_clock_does_not_go_back(store: Store) -> None:
    times_ms = [await store.now_ms() for _ in range(20)]

    assert times_ms == sorted(times_ms)


async def test_an_enqueue_without_a_time_happens_by_the_clock(play: Play) -> None:
    store, queue = play.store, play.queue

    before_ms = await store.now_ms()
    await store.jobs.enqueue([play.job("a")])
    after_ms = await store.now_ms()

    [found] = await store.reads.find(queue, ["a"])
    assert found is not None
    assert found.record is not None
    assert before_ms <= found.record.enqueued_at_ms <= after_ms


async def test_asking_for_the_clock_changes_nothing(play: Play) -> None:
    await play.enqueue("a")
    before = await play.snapshot()

    await play.store.now_ms()

    assert await play.snapshot() == before
