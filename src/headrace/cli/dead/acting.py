"""Does something to many dead letters: those that are named, or by filter in steps of one call each."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from headrace.cli.bulk import StepTally, batches, telling
from headrace.cli.dead.group import Meant
from headrace.cli.dead.lookup import dead_letters_named
from headrace.cli.job_scan import JobScan
from headrace.cli.output import Advance
from headrace.cli.queue_lookup import queues_of
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import State
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

Apply = Callable[[Store, Queue, Sequence[DeadLetterKey]], Awaitable[list[str]]]
"""Does it to dead letters of a queue, at most a batch, and gives a status for each."""
Foresee = Callable[[Store, Queue, Sequence[DeadLetter], set[str]], Awaitable[list[str]]]
"""The statuses that it would give; the ids are those of dead letters that were foreseen before, and are added to."""


class DeadLetterAction(Struct, frozen=True):
    """Something that can be done to dead letters."""

    verb: str
    done: str
    """The status of a dead letter to which it was done."""
    apply: Apply
    foresee: Foresee | None = None
    """None where it can always be done."""

    async def would(self, store: Store, queue: Queue, dead_letters: Sequence[DeadLetter], ids: set[str]) -> list[str]:
        """The statuses of a dry run."""
        if self.foresee is None:
            return [self.done] * len(dead_letters)
        return await self.foresee(store, queue, dead_letters, ids)


class DeadLetterAnswer(Struct, frozen=True):
    """What became of one dead letter that was named."""

    name: str
    queue: str | None
    dead_letter: str | None
    id: str | None
    status: str


async def by_names(
    store: Store, tenant: str, queue_name: str | None, names: Sequence[str], deed: DeadLetterAction, *, dry_run: bool
) -> list[DeadLetterAnswer]:
    """Do it to the dead letters that are named."""
    named = await dead_letters_named(store, tenant, queue_name, names)
    statuses: dict[str, str] = {}
    tally = StepTally()
    with telling(tally):
        for queue in dict.fromkeys(each.queue for each in named if each.queue is not None):
            own = [
                (each.name, each.dead_letter) for each in named if each.queue == queue and each.dead_letter is not None
            ]
            foreseen: set[str] = set()
            for part in batches(own):
                dead_letters = [dead_letter for _, dead_letter in part]
                if dry_run:
                    told = await deed.would(store, queue, dead_letters, foreseen)
                else:
                    told = await deed.apply(store, queue, [dead_letter.key for dead_letter in dead_letters])
                statuses.update(zip((name for name, _ in part), told, strict=True))
                tally.add(told)
    return [
        DeadLetterAnswer(
            each.name,
            None if each.queue is None else each.queue.full_name,
            each.key,
            None if each.dead_letter is None else each.dead_letter.record.id,
            statuses.get(each.name, "not_found"),
        )
        for each in named
    ]


async def by_filter(
    store: Store,
    tenant: str,
    queue_name: str | None,
    meant: Meant,
    deed: DeadLetterAction,
    *,
    dry_run: bool,
    advance: Advance,
) -> StepTally:
    """Do it to the dead letters that match and were there before: a job that dies again is left alone."""
    tally = StepTally()
    begun_at_ms = await store.now_ms()
    # Before and not at this instant: what is replayed now may die again within the same millisecond.
    where = meant.where(begun_at_ms, died_before_ms=begun_at_ms - 1)
    with telling(tally):
        for queue in await queues_of(store, tenant, queue_name):
            walk = JobScan(store, [queue], (State.DEAD,), where=where)
            pending: list[DeadLetterKey] = []
            foreseen: set[str] = set()
            while not walk.over:
                dead_letters = [seen.dead_letter for seen in await walk.take() if seen.dead_letter is not None]
                if dry_run:
                    tally.add(await deed.would(store, queue, dead_letters, foreseen))
                    advance(len(dead_letters))
                    continue
                # Gathered to full batches: each is spread over the whole time, and a dead letter alone would not be.
                pending += [dead_letter.key for dead_letter in dead_letters]
                while len(pending) >= BATCH_MAX or (pending and walk.over):
                    part, pending = pending[:BATCH_MAX], pending[BATCH_MAX:]
                    tally.add(await deed.apply(store, queue, part))
                    advance(len(part))
    return tally
