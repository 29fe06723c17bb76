"""Retries and dead letters: a job that fails three times dies, a fail handler hears of it, and it is replayed."""

import asyncio
import logging
from typing import Any

from headrace import App, DeathInfo, Fail, JobFailed, Retry, current

app = App("memory://")
deaths: asyncio.Queue[tuple[str, Any, DeathInfo]] = asyncio.Queue()
answers = ["silence", "silence", "silence", "busy", "updated"]  # what the CRM says, one after the other


@app.job(queue="crm", max_attempts=3, backoff="20ms")
async def sync(customer: int) -> str:
    """Anything that is raised is a failed attempt; the next one comes after a backoff that doubles."""
    answer = answers.pop(0)
    print(f"  attempt {current().attempt}: {answer}")
    if answer == "silence":
        raise TimeoutError("the CRM did not answer")
    if answer == "busy":
        raise Retry("the CRM is busy", delay="50ms")  # it knows better than the backoff when to come again
    return f"customer {customer} {answer}"


@app.job(queue="crm")
async def rename(customer: int, name: str) -> None:
    """`Fail` makes a dead letter at once: no further attempt would help."""
    if not name:
        raise Fail(f"customer {customer} needs a name")


@app.fail_handler(queue="crm")
async def mourn(id: str, payload: Any, error: DeathInfo) -> None:
    """Told of every death on the queue; the telling is a job, too, and as safe as the others."""
    await deaths.put((id, payload, error))


async def main() -> None:
    """From the first failure to the replay."""
    async with app, app.worker():
        print("three attempts:")
        handle = await sync.options(id="sync/7").enqueue(customer=7)
        try:
            await handle.result()
        except JobFailed as failed:
            print(f"  {failed}")
        await rename.options(id="rename/8").enqueue(8, name="")
        print("the fail handler hears of both:")
        for _ in range(2):
            id, payload, error = await deaths.get()
            print(f"  {id} {payload}: {error.cls}, {error.message} ({error.reason})")

        print("the CRM is back, so the first one is replayed:")
        store = (await app.client()).store
        await store.dead.replay(sync.queue, ["sync/7"])
        print(f"  {await handle.result()}")
        left = (await store.dead.list(sync.queue)).rows
        print(f"dead letters left: {', '.join(dead_letter.record.id for dead_letter in left)}")


if __name__ == "__main__":
    logging.getLogger("headrace").setLevel(logging.CRITICAL)  # a worker logs every failed attempt with its traceback
    asyncio.run(main())
