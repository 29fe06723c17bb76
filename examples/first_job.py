"""A first job: a function, sent from here, run by a worker, and its result back. Jobs are in headrace.db."""

import asyncio

from headrace import App

app = App()  # jobs in the file headrace.db; or App("redis://host"), App("postgres://user@host/database")


@app.job(queue="mail", max_attempts=5, timeout="30s")
async def welcome(user_id: int) -> str:
    return f"welcomed user {user_id}"


async def main() -> None:
    handle = await welcome.enqueue(user_id=42)  # returns once the job is safe in the store
    await app.work(until_idle=True)  # in production a program of its own: headrace worker
    print(await handle.result())  # welcomed user 42


asyncio.run(main())
