"""Singletons: one job per id, whatever is sent when; debouncing; and keys against asking twice."""

import asyncio

from headrace import App, Refused

app = App("memory://", queue="pages")
started, go_on = asyncio.Event(), asyncio.Event()


@app.job(id="page/home")
async def render(text: str) -> str:
    """The one job that renders the home page: all of its jobs have the same id."""
    started.set()
    await go_on.wait()
    return f"rendered {text}"


@app.job
async def invoice(order: int) -> str:
    """Must not be written twice."""
    return f"invoice of order {order}"


async def main() -> None:
    """Four short stories."""
    async with app:
        print("while it waits, the last one wins:")
        for draft in ("draft 1", "draft 2"):
            print(f"  {draft} {(await render.enqueue(draft)).status}")

        async with app.worker():
            print("while it runs, the next one waits behind it:")
            await started.wait()
            second = await render.enqueue("draft 3")
            print(f"  draft 3 {second.status}")
            go_on.set()
            print(f"  {await second.result()}")

            print("debounced: each edit moves it later, and it runs once, a moment after the last:")
            edits = [await render.options(delay="200ms").enqueue(f"edit {number}") for number in (1, 2, 3)]
            print(f"  {', '.join(edit.status for edit in edits)}")
            print(f"  {await edits[-1].result()}")

            print("with a key, asking twice is noticed, also when the work is done:")
            once = invoice.options(idempotency_key="order-7")
            handle = await once.enqueue(7)
            print(f"  {handle.status}: {await handle.result()}")
            again = await once.enqueue(7)
            print(f"  {again.status}: {await again.result()}")
            try:
                await once.enqueue(8)
            except Refused as refused:
                print(f"  {refused.reason}: the key was used for other work")


if __name__ == "__main__":
    asyncio.run(main())
