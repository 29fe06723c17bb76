"""Retries and dead letters: a job that fails three times, dies, is looked at by a fail handler, and is replayed.

The clock is moved by hand, so that the backoff of several seconds takes no time.
"""

import asyncio
import json
from itertools import count

from headrace import Claim, ClaimRequest, Done, Job, JobError, Policy, Queue, Retry, open_store
from headrace.model.clock import ManualClock
from headrace.model.outcome import Outcome
from headrace.stores.contract.dead import LetterFilter
from headrace.stores.contract.store import Store

CRM = Queue("crm", tenant="acme")
NONCES = (f"not-so-random-{number}" for number in count())
TIMEOUT = JobError("Timeout", "the CRM did not answer")


async def claim_one(store: Store, queue: Queue) -> Claim | None:
    """The next job that is due, if there is one."""
    request = ClaimRequest(queues=[queue], worker="worker-1", nonce=next(NONCES))
    return next(iter((await store.jobs.claim(request)).items), None)


async def work(store: Store, clock: ManualClock, outcome: Outcome) -> None:
    """Run what is due, and sleep until the store says that it is worth asking again, until nothing is left."""
    while True:
        request = ClaimRequest(queues=[CRM], worker="worker-1", nonce=next(NONCES))
        claims = await store.jobs.claim(request)
        for settled in await store.jobs.settle([claim.settle(outcome) for claim in claims.items]):
            again = "" if settled.run_at_ms is None else f", again at {settled.run_at_ms / 1000:g} s"
            print(f"{clock.now_ms() / 1000:>5g} s  {settled.id} {settled.status}{again}")
        if not claims.items:
            if claims.next_at_ms is None:
                return
            clock.advance(claims.next_at_ms - clock.now_ms())


async def main() -> None:
    """From the first failure to the replay."""
    clock = ManualClock()
    store = await open_store("memory://", clock=clock)
    await store.queues.configure(CRM, {"fail_handler": True, "backoff_ms": 2_000})
    job = Job(queue=CRM, id="sync/7", kind="sync", payload=b'{"customer":7}', policy=Policy(max_attempts=3))
    await store.jobs.enqueue([job])

    print("three attempts, and the backoff doubles:")
    await work(store, clock, Retry(TIMEOUT))

    print("\nthe dead letter:")
    for letter in (await store.dead.list(CRM, where=LetterFilter(error_class="Timeout"))).rows:
        record = letter.record
        print(f"  number {letter.key.number}: {record.id}, reason {letter.reason}, {record.attempts} attempts")
        print(f"  {letter.error.cls}: {letter.error.message}")

    print("\nthe fail handler, on the companion queue:")
    claim = await claim_one(store, CRM.companion)
    assert claim is not None
    id, payload, error = json.loads(claim.record.payload)
    print(f"  {claim.record.id} tells of {id} with {payload}: {error['message']} ({error['reason']})")
    await store.jobs.settle([claim.settle(Done())])

    print("\nthe CRM is back, so the letter is replayed:")
    [replayed] = await store.dead.replay(CRM, ["sync/7"])
    print(f"  {replayed.id} {replayed.status}")
    await work(store, clock, Done())
    counts = await store.queues.counts(CRM)
    print(f"  done {counts.done}, dead {counts.dead}")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
