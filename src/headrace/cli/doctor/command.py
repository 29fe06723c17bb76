"""`headrace doctor`: checks the store and every queue, and repairs them on request."""

from typing import Annotated

import typer

from headrace.cli.doctor.checks import Versions, run_checks, worst
from headrace.cli.doctor.facts import StoreFacts, gather, queues_of_all
from headrace.cli.doctor.repair import Repairs, repair
from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json, Url
from headrace.cli.output import Output
from headrace.cli.program import version_of
from headrace.cli.store_access import with_store
from headrace.stores.contract.store import Store

COLUMNS = ("check", "", "found", "what to do")
DRIVERS = {"redis": "hiredis", "postgres": "psycopg"}

Repair = Annotated[bool, typer.Option("--repair", help="Release expired leases, and repair records and counters.")]
Full = Annotated[bool, typer.Option("--full", help="Look at every record, however many there are.")]


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
