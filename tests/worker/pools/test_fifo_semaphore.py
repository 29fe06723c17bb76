"""The FIFO semaphore of the pools."""

import asyncio

import pytest

from headrace.worker.pools.threads import FifoSemaphore
from tests.worker.pools.support import turn_over


async def test_waiters_are_served_in_order() -> None:
    turns, order = FifoSemaphore(2), list[int]()

    async def use(number: int) -> None:
        await turns.acquire()
        order.append(number)

    tasks = [asyncio.create_task(use(number)) for number in range(5)]
    await turn_over()
    at_first, free = list(order), turns.free
    for _ in range(5):
        turns.release()
    await asyncio.gather(*tasks)

    assert at_first == [0, 1]
    assert free == 0
    assert order == [0, 1, 2, 3, 4]
    assert turns.free == 2


async def test_a_slot_granted_in_the_moment_of_a_cancellation_goes_to_the_next() -> None:
    turns = FifoSemaphore(1)
    await turns.acquire()
    second, third = (asyncio.create_task(turns.acquire()) for _ in range(2))
    await turn_over()

    turns.release()
    second.cancel()
    await turn_over()

    assert second.cancelled()
    assert third.done()
    assert turns.free == 0


async def test_a_waiter_that_is_cancelled_takes_no_slot() -> None:
    turns = FifoSemaphore(1)
    await turns.acquire()
    second, third = (asyncio.create_task(turns.acquire()) for _ in range(2))
    await turn_over()

    second.cancel()
    turns.release()
    await turn_over()

    assert second.cancelled()
    assert third.done()
    turns.release()
    assert turns.free == 1


async def test_all_waiters_can_be_cancelled() -> None:
    turns = FifoSemaphore(1)
    await turns.acquire()
    waiting = [asyncio.create_task(turns.acquire()) for _ in range(3)]
    await turn_over()

    turns.cancel_waiters()
    for task in waiting:
        with pytest.raises(asyncio.CancelledError):
            await task

    turns.release()
    assert turns.free == 1
