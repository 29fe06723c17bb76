"""`headrace doctor`: checks the store and every queue, and repairs them on request."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.doctor.checks import Versions, run_checks, worst
from headrace.cli.doctor.facts import StoreFacts, gather, queues_of_all
from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json, Url
from headrace.cli.output import Output, counted
from headrace.cli.program import version_of
from headrace.cli.store_access import with_store
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

COLUMNS = ("check", "", "found", "what to do")
DRIVERS = {"redis": "hiredis", "postgres": "psycopg"}

Repair = Annotated[bool, typer.Option("--repair", help="Release expired leases, and repair records and counters.")]
Full = Annotated[bool, typer.Option("--full", help="Check every record, however many there are.")]
SWEEPS_MAX = 1_000
"""Sweeps of one queue in a row, a thousand leases each: work that grows faster than that needs a worker."""


def command(url: Url = None, repair: Repair = False, full: Full = False, json: Json = False) -> int:
    """Check the store and everything in it, for all tenants.

    Exits with 0 if nothing is wrong, with 1 if something is to be fixed, with 3 if the store cannot be reached. A check
    marked "look" may be on purpose.

    Example: headrace doctor --full
    """
    output = Output(json=json)
    repairs, facts = with_store(url, lambda store: _examine(store, output, repair=repair, full=full))
    checks = run_checks(facts, _versions(facts.health.store))
    status = worst(checks)
    output.document(
        {
            "verdict": status,
            "checks": checks,
            "repairs": repairs,
            "health": facts.health,
            "round_trip_ms": facts.round_trip_ms,
            "queues": len(facts.queues),
            "more_queues": False,
        }
    )
    if repairs is not None:
        output.say(repairs.text)
    output.table(COLUMNS, [(each.check, each.status, each.found, each.todo) for each in checks], empty="")
    return NO if status == "wrong" else OK


class Repairs(Struct, frozen=True):
    """The counts of a repair."""

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
        """The counts as a sentence."""
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


async def _examine(store: Store, output: Output, *, repair: bool, full: bool) -> tuple[Repairs | None, StoreFacts]:
    repairs = await _repair(store, output) if repair else None
    return repairs, await gather(store, full=full)


async def _repair(store: Store, output: Output) -> Repairs:
    queues = await queues_of_all(store)
    with output.progress("repairing shards", sum(queue.shards for queue in queues)) as advance:
        return await repair(store, queues, advance)


def _versions(store: str) -> Versions:
    import platform

    package = DRIVERS.get(store)
    driver = f"{package} {version_of(package)}" if package else None
    return Versions(version_of("headrace"), platform.python_version(), driver)


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
