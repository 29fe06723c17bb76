"""Without app and worker: open a store, enqueue, claim, settle, and read in the journal what happened.

    python examples/store_level.py [jobs.db]

Without a file, a temporary one is used. Run it twice on the same file: the second run finds what the first left.
"""

import asyncio
import json
import secrets
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from headrace import ClaimRequest, Job, Policy, Queue, open_store
from headrace.model.outcome import Done, JobError, Outcome, Retried

MAIL = Queue("mail", tenant="acme")


def welcome(user: str) -> Outcome:
    """The handler: what it returns is how the delivery ended."""
    if "@" not in user:
        return Retried(JobError("BadAddress", f"{user} is no address"), delay_ms=60_000)
    return Done(json.dumps(f"sent to {user}").encode())


async def main(path: Path) -> None:
    """The way of three jobs."""
    store = await open_store(f"sqlite:///{quote(str(path))}")
    health = await store.health()
    print(f"{health.store}, {health.profile}: {health.promise}")
    [shard] = MAIL.all_shards()
    before = (await store.journal.bounds(shard)).last_seq

    users = {"ann": "ann@example.org", "bob": "bob@example.org", "cy": "nowhere"}
    jobs = [Job(queue=MAIL, id=f"welcome/{id}", kind="welcome", payload=user.encode()) for id, user in users.items()]
    jobs.append(Job(queue=MAIL, id="digest", kind="digest", delay_ms=3_600_000, policy=Policy(priority=1)))
    for enqueued in await store.jobs.enqueue(jobs):
        print(f"enqueue  {enqueued.id:<12} {enqueued.status}")

    # A new secret for every claim: together with the fence it makes the token that only this worker knows.
    request = ClaimRequest(queues=[MAIL], worker="worker-1", nonce=secrets.token_hex(8), limit=10, lease_ms=30_000)
    claims = await store.jobs.claim(request)
    settlements = [claim.settle(welcome(claim.record.payload.decode())) for claim in claims.items]
    for settled in await store.jobs.settle(settlements):
        print(f"settle   {settled.id:<12} {settled.status}")

    finished_job = await store.reads.finished_job(MAIL, "welcome/ann")
    print(
        f"result   welcome/ann  {finished_job.result.decode() if finished_job and finished_job.result else 'none kept'}"
    )
    counts = await store.queues.counts(MAIL)
    print(
        f"counts   waiting {counts.waiting}, {counts.later} of them later; active {counts.active}; done {counts.done}"
    )

    print("journal")
    for entry in await store.journal.read(shard, before, before + 1_000):
        for event in entry.events(shard):
            line = event.line
            print(f"{event.seq:>5}  {line.event:<9} {line.id:<12} {line.worker or ''}".rstrip())
    await store.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(Path(folder) / "jobs.db"))
