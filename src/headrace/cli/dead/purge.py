"""`headrace dead purge`: throws dead letters away."""

from collections.abc import Sequence

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
from headrace.model.finished import DeadLetterKey
from headrace.model.names import Queue
from headrace.stores.contract.store import Store


@commands.command("purge")
def purge(
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
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Purge dead letters: they are thrown away, and the jobs with them.

    By filter it asks first. Exits with 1 when a dead letter that was named is not there.
    """
    choice = DeadLetterChoice(
        url=url,
        tenant=tenant,
        queue=queue,
        names=names or [],
        meant=Meant(id=id, kind=kind, tag=tag, reason=reason, error_class=error_class, since=since, until=until),
        everything=everything,
    )
    return run(Output(json=json), choice, DeadLetterAction("purge", "purged", _purged), dry_run=dry_run, yes=yes)


async def _purged(store: Store, queue: Queue, keys: Sequence[DeadLetterKey]) -> list[str]:
    count = await store.dead.purge(queue, keys)
    # The store says how many there were and not which: those that were not there had gone since they were listed.
    return ["purged"] * count + ["not_found"] * (len(keys) - count)
