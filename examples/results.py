"""Results: fan out, wait for all of them, and meet a failure where it is waited for."""

import asyncio

from msgspec import Struct

from headrace import App, Fail, JobCancelled, JobFailed

app = App("memory://", queue="pages")
SITE = {"/": "home about", "/about": "about", "/news": "home news news"}


class Count(Struct):
    """Results may be structs, dataclasses, or any JSON value; they come back as what they were."""

    path: str
    words: int


@app.job(result_ttl="1h")
async def count(path: str) -> Count:
    """The words on a page; its result is kept for an hour, however many others end meanwhile."""
    if path not in SITE:
        raise Fail(f"there is no page {path}")
    return Count(path, len(SITE[path].split()))


async def main() -> None:
    """Three pages, one that is missing, and one that nobody wants any more."""
    async with app, app.worker():
        handles = await count.enqueue_many({"path": path} for path in SITE)
        counts = await asyncio.gather(*(handle.result(timeout="10s") for handle in handles))
        for each in sorted(counts, key=lambda each: each.path):
            print(f"{each.path:<7} {each.words}")
        print("together", sum(each.words for each in counts))

        missing = await count.options(id="count/nowhere").enqueue("/nowhere")
        try:
            await missing.result()
        except JobFailed as failed:
            print(failed)

        later = await count.options(id="count/later", delay="1h").enqueue("/")
        try:
            await later.result(timeout="10ms")
        except TimeoutError:
            print(f"job '{later.id}' has not ended in time:", (await later.cancel()).status)
        try:
            await later.result()
        except JobCancelled as cancelled:
            print(cancelled)


if __name__ == "__main__":
    asyncio.run(main())
