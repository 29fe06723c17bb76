"""Singletons: one job per id, whatever is enqueued when; debouncing; and keys against asking twice."""

import asyncio
from itertools import count

from headrace import Claim, ClaimRequest, Done, Job, JobError, Queue, Retry, UpdateRunAt, new_job, open_store
from headrace.model.clock import ManualClock
from headrace.stores.contract.store import Store

PAGES = Queue("pages", tenant="acme")
NONCES = (f"not-so-random-{number}" for number in count())


def render(text: str, *, delay_ms: int | None = None, update_run_at: UpdateRunAt | None = None) -> Job:
    """The one job that renders the home page."""
    payload = text.encode()
    return Job(
        queue=PAGES, id="page/home", kind="render", payload=payload, delay_ms=delay_ms, update_run_at=update_run_at
    )


async def enqueue(store: Store, job: Job) -> None:
    """Enqueue one job and say what became of it."""
    [answer] = await store.jobs.enqueue([job])
    print(f"  enqueue {job.payload.decode():<8} {answer.status}")


async def claim(store: Store) -> list[Claim]:
    """Everything that is due."""
    request = ClaimRequest(queues=[PAGES], worker="worker-1", nonce=next(NONCES), limit=10)
    claims = (await store.jobs.claim(request)).items
    print(f"  claim   {', '.join(claim.record.payload.decode() for claim in claims) or 'nothing'}")
    return claims


async def main() -> None:
    """Four short stories about one id."""
    clock = ManualClock()
    store = await open_store("memory://", clock=clock)

    print("while it waits, the last one wins:")
    await enqueue(store, render("draft 1"))
    await enqueue(store, render("draft 2"))
    [first] = await claim(store)

    print("while it runs, the next one waits behind it:")
    await enqueue(store, render("draft 3"))
    await claim(store)
    await store.jobs.settle([first.settle(Done())])
    [second] = await claim(store)

    print("a retry takes up what was enqueued meanwhile:")
    await enqueue(store, render("draft 4"))
    [retried] = await store.jobs.settle([second.settle(Retry(JobError("Timeout"), delay_ms=1_000))])
    print(f"  settle  {retried.status}, due in {(retried.run_at_ms or 0) - clock.now_ms()} ms")
    clock.advance(1_000)
    [third] = await claim(store)
    await store.jobs.settle([third.settle(Done())])

    print("debounced: each edit moves it later, one second after the last it runs once:")
    for edit in range(1, 4):
        await enqueue(store, render(f"edit {edit}", delay_ms=1_000, update_run_at=UpdateRunAt.IF_LATER))
        clock.advance(500)
    await claim(store)
    clock.advance(500)
    [last] = await claim(store)
    await store.jobs.settle([last.settle(Done())])

    print("with a key, asking twice is noticed, also when the work is done:")
    order = new_job(PAGES, "invoice", b"order 7", fresh_id="unused", idempotency_key="order-7")
    await enqueue(store, order)
    [invoice] = await claim(store)
    await store.jobs.settle([invoice.settle(Done())])
    await enqueue(store, order)
    await enqueue(store, new_job(PAGES, "invoice", b"order 8", fresh_id="unused", idempotency_key="order-7"))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
