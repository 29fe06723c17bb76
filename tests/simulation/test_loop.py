"""The virtual loop: time jumps, a crash runs nothing, a pause keeps all callbacks."""

import asyncio
import gc

import pytest

from tests.simulation.loop import Process, Stuck, VirtualLoop, current_process


def test_time_jumps_to_the_next_timer() -> None:
    loop = VirtualLoop()

    async def story() -> float:
        await asyncio.sleep(3_600)
        return asyncio.get_running_loop().time()

    assert loop.run(story()) == 3_600


def test_timers_ring_in_the_order_of_their_times() -> None:
    loop, rang = VirtualLoop(), list[int]()

    async def ring(seconds: int) -> None:
        await asyncio.sleep(seconds)
        rang.append(seconds)

    async def story() -> None:
        await asyncio.gather(*(ring(seconds) for seconds in (5, 1, 3)))

    loop.run(story())

    assert rang == [1, 3, 5]


def test_waiting_for_the_impossible_fails_at_once() -> None:
    loop = VirtualLoop()

    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        loop.run(story())


def test_turning_in_circles_comes_to_an_end() -> None:
    loop = VirtualLoop()

    async def story() -> None:
        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(Stuck):
        loop.run(story())


def test_a_crash_runs_no_finally() -> None:
    loop, process, done = VirtualLoop(), Process("worker"), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            done.append("started")
            await asyncio.sleep(10)
        finally:
            done.append("finally")

    async def story() -> list[str]:
        loop.spawn(process, work())
        await asyncio.sleep(5)
        loop.crash(process)
        gc.collect()
        await asyncio.sleep(100)
        return list(done)

    assert loop.run(story()) == ["started"]


def test_a_crash_takes_along_what_the_process_has_started() -> None:
    loop, process, done = VirtualLoop(), Process("worker"), list[str]()

    async def child() -> None:
        await asyncio.sleep(10)
        done.append("child")

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    async def story() -> None:
        loop.spawn(process, parent())
        await asyncio.sleep(5)
        loop.crash(process)
        await asyncio.sleep(100)

    loop.run(story())

    assert done == []


def test_a_pause_keeps_timers_and_wake_ups_until_it_ends() -> None:
    loop, process, done = VirtualLoop(), Process("worker"), list[tuple[str, float]]()

    async def sleeper() -> None:
        await asyncio.sleep(10)
        done.append(("timer", loop.time()))

    async def listener(event: asyncio.Event) -> None:
        await event.wait()
        done.append(("event", loop.time()))

    async def story() -> None:
        event = asyncio.Event()
        loop.spawn(process, sleeper())
        loop.spawn(process, listener(event))
        await asyncio.sleep(5)
        loop.pause(process)
        event.set()
        await asyncio.sleep(60)
        loop.resume(process)
        await asyncio.sleep(1)

    loop.run(story())

    assert done == [("event", 65), ("timer", 65)]


def test_a_time_out_rings_late_in_a_paused_process() -> None:
    loop, process, done = VirtualLoop(), Process("worker"), list[float]()

    async def impatient() -> None:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(1_000)
        except TimeoutError:
            done.append(loop.time())

    async def story() -> None:
        loop.spawn(process, impatient())
        await asyncio.sleep(0)
        loop.pause(process)
        await asyncio.sleep(30)
        loop.resume(process)
        await asyncio.sleep(1)

    loop.run(story())

    assert done == [30]


def test_callbacks_know_their_process() -> None:
    loop, process, found = VirtualLoop(), Process("worker"), list[Process | None]()

    async def work() -> None:
        await asyncio.sleep(1)
        found.append(current_process())
        asyncio.get_running_loop().call_later(1, lambda: found.append(current_process()))

    async def story() -> None:
        loop.spawn(process, work())
        await asyncio.sleep(10)
        found.append(current_process())

    loop.run(story())

    assert found == [process, process, None]


def test_sets_of_tasks_are_walked_in_the_order_of_their_making() -> None:
    loop = VirtualLoop()

    async def story() -> list[str]:
        tasks = [asyncio.create_task(asyncio.sleep(1), name=str(number)) for number in range(6)]
        done, _ = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    assert loop.run(story()) == ["0", "1", "2", "3", "4", "5"]


def test_an_error_that_was_never_retrieved_is_kept() -> None:
    loop = VirtualLoop()

    async def story() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    loop.run(story())

    assert len(loop.unhandled) == 1
