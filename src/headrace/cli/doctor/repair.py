"""Repairs queues in bounded steps: sweeps expired leases and records, and repairs damaged records."""

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from headrace.cli.output import counted
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

SWEEPS_MAX = 1_000
"""Sweeps of one queue in a row, a thousand leases each: work that grows faster than that needs a worker."""


class Repairs(Struct, frozen=True):
    """What a repair has done."""

    leases: int
    """Expired leases, whose jobs wait again or are dead."""
    swept: int
    """Finished jobs, keys, dead letters, workers and journal entries after their retention."""
    mended: dict[str, int]
    """Repaired records, by flaw."""
    recounted: int
    cleared: int
    """Entries of quarantines."""

    @property
    def text(self) -> str:
        """What was done, as a sentence."""
        mended = ", ".join(f"{number:,} {flaw}" for flaw, number in self.mended.items())
        parts = [
            (self.leases, f"released {counted(self.leases, 'lease')}"),
            (self.swept, f"swept {counted(self.swept, 'record')} after their retention"),
            (len(self.mended), f"repaired {mended}"),
            (self.recounted, f"corrected {counted(self.recounted, 'counter')}"),
            (self.cleared, f"cleared the quarantine of {counted(self.cleared, 'record')}"),
        ]
        done = [text for number, text in parts if number]
        return f"repaired: {'; '.join(done)}" if done else "nothing to repair"


async def repair(store: Store, queues: list[Queue], advance: Callable[[int], None]) -> Repairs:
    """Sweep and repair every queue; `advance` counts the shards."""
    leases = swept = recounted = cleared = 0
    mended: Counter[str] = Counter()
    for queue in queues:
        for _ in range(SWEEPS_MAX):
            answer = await store.jobs.repair(queue, limit=BATCH_MAX)
            leases, swept = leases + answer.stalled, swept + answer.swept
            if not answer.more:
                break
        for shard in queue.all_shards():
            cursor: str | None = None
            while True:
                step = await store.integrity.repair(shard, cursor=cursor)
                mended.update(each.flaw for each in step.problems)
                recounted, cleared = recounted + len(step.count_mismatches), cleared + step.cleared
                cursor = step.cursor
                if cursor is None:
                    break
            advance(1)
    return Repairs(leases, swept, dict(mended), recounted, cleared)
