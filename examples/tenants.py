"""Tenants: two customers with queues of the same name, and one worker that serves both by their shares."""

import asyncio

from headrace import App, Queue, current

app = App("memory://")
ran: list[str] = []


@app.job(queue="mail")
async def newsletter(reader: int) -> None:
    """The same code for every tenant; the job knows whose it is."""
    ran.append(f"{current().job.tenant} {reader}")


async def main() -> None:
    """Acme floods its queue, globex has a few letters to send; neither can see the other's jobs."""
    async with app:
        acme, globex = newsletter.options(tenant="acme"), newsletter.options(tenant="globex")
        await acme.enqueue_many({"reader": number} for number in range(60))
        await globex.enqueue_many({"reader": number} for number in range(10))

        client = await app.client()
        for queue in (acme.queue, globex.queue):
            counts = await client.store.queues.counts(queue)
            print(f"{queue.tenant}/{queue.name}: {counts.waiting} waiting")

        # Three of acme's for each of globex's while both have work; one at a time here, so that the order shows.
        await app.work(until_idle=True, queues={Queue("mail", "acme"): 3, Queue("mail", "globex"): 1}, capacity=1)

        print(f"the first eight: {', '.join(ran[:8])}")
        print(f"in the end {len(ran)} were sent")


if __name__ == "__main__":
    asyncio.run(main())
