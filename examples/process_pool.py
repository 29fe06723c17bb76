"""Processes: work that keeps a core busy, and work that hangs and is killed while its neighbours go on."""

import asyncio
import os

from headrace import App, JobFailed

app = App("memory://", queue="numbers")


@app.job(process=True)
def primes_below(limit: int) -> int:
    """Plain Python that would block an event loop, and share one core with other threads."""
    sieve = bytearray([1]) * limit
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, limit, number)))
    return sum(sieve[2:])


@app.job(process=True)
def whoami() -> int:
    """The process that does it."""
    return os.getpid()


@app.job(process=True, timeout="500ms", max_attempts=1)
def hang() -> None:
    """Nobody can stop a thread that does this. A process can be killed."""
    while True:
        pass


async def main() -> None:
    """One that hangs, and neighbours that do not notice."""
    async with app:
        stuck = await hang.enqueue()
        neighbours = [await primes_below.enqueue(limit) for limit in (10, 1_000, 100_000)]
        async with app.worker(pool_size=2):
            print("primes:", *[await each.result() for each in neighbours])
            elsewhere = await (await whoami.enqueue()).result()
            print("in a process of its own:", elsewhere != os.getpid())
            try:
                await stuck.result()
            except JobFailed as failed:
                print(f"{failed.error.cls}: {failed.error.message}")
            print("and the pool is whole again:", await (await primes_below.enqueue(100)).result())


# Processes import this program to find their functions, and must not run it.
if __name__ == "__main__":
    asyncio.run(main())
