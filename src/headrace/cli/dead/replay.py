"""`headrace dead replay`: dead letters become jobs again, at once or spread over time."""

from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli.dead.acting import DeadLetterAction
from headrace.cli.dead.group import (
    ErrorClass,
    Everything,
    Kind,
    Meant,
    Names,
    OfId,
    OfReason,
    Since,
    Tag,
    Until,
    commands,
)
from headrace.cli.dead.running import DeadLetterChoice, run
from headrace.cli.options import TENANT, AnyQueue, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output
from headrace.model.errors import BadConfig
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import State
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.times import duration_ms, read_instant_ms
from headrace.stores.contract.store import Store

Spread = Annotated[
    str, typer.Option("--spread", metavar="DURATION", help="Let them be due evenly over this time: 10m, 2h.")
]
Delay = Annotated[str, typer.Option("--delay", metavar="DURATION", help="Let them be due after this time: 10m, 2h.")]
RunAt = Annotated[
    str | None,
    typer.Option("--run-at", metavar="INSTANT", help="Let them be due at this instant: 2030-01-31T12:00:00Z."),
]
KeepCounts = Annotated[
    bool, typer.Option("--keep-counts", help="Keep attempts, stalls and the last error instead of starting anew.")
]


@commands.command("replay")
def replay(
    names: Names = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    id: OfId = None,
    kind: Kind = None,
    tag: Tag = None,
    reason: OfReason = None,
    error_class: ErrorClass = None,
    since: Since = None,
    until: Until = None,
    everything: Everything = False,
    delay: Delay = "0s",
    run_at: RunAt = None,
    spread: Spread = "0s",
    keep_counts: KeepCounts = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Replay dead letters: each becomes a waiting job again, with the id it had.

    A dead letter whose id waits or runs already is kept (id in use). By filter it asks first, and takes what was dead
    when it began: a job that dies again meanwhile is left alone. Exits with 1 when a dead letter that was named was not
    replayed."""
    choice = DeadLetterChoice(
        url=url,
        tenant=tenant,
        queue=queue,
        names=names or [],
        meant=Meant(id=id, kind=kind, tag=tag, reason=reason, error_class=error_class, since=since, until=until),
        everything=everything,
    )
    spread_ms, delay_ms = duration_ms("spread", spread), duration_ms("delay", delay)
    run_at_ms = None if run_at is None else read_instant_ms("run_at", run_at)
    if run_at_ms is not None and delay_ms:
        raise BadConfig("--delay and --run-at both say when the dead letters are due; give one of them")

    async def apply(store: Store, queue: Queue, keys: Sequence[DeadLetterKey]) -> list[str]:
        later_ms = delay_ms if run_at_ms is None else await _until_ms(store, run_at_ms)
        answers = await store.dead.replay(queue, keys, keep_counts=keep_counts, delay_ms=later_ms, spread_ms=spread_ms)
        return [answer.status for answer in answers]

    return run(
        Output(json=json), choice, DeadLetterAction("replay", "replayed", apply, _foreseen), dry_run=dry_run, yes=yes
    )


async def _until_ms(store: Store, run_at_ms: int) -> int:
    later_ms = max(run_at_ms - await store.now_ms(), 0)
    if later_ms > DURATION_MS_MAX:
        raise BadConfig("--run-at is more than a year ahead, and a replay can be for a year from now at most")
    return later_ms


async def _foreseen(store: Store, queue: Queue, dead_letters: Sequence[DeadLetter], ids: set[str]) -> list[str]:
    found = await store.reads.find(queue, [dead_letter.record.id for dead_letter in dead_letters])
    live = {each.id for each in found if each is not None and each.state in (State.WAITING, State.ACTIVE)}
    statuses = []
    for dead_letter in dead_letters:
        taken = dead_letter.record.id in live or dead_letter.record.id in ids
        statuses.append("id_in_use" if taken else "replayed")
        ids.add(dead_letter.record.id)
    return statuses
