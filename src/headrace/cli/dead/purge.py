"""`headrace dead purge`: deletes dead letters for good."""

from collections.abc import Sequence

from headrace.cli import bulk
from headrace.cli.dead.options import (
    DeadLetterSelection,
    ErrorClass,
    Everything,
    Kind,
    Names,
    OfId,
    OfReason,
    Since,
    Tag,
    Until,
)
from headrace.cli.options import TENANT, AnyQueue, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output
from headrace.inspect.dead_letters import DeadLetterQuery
from headrace.model.finished import DeadLetter
from headrace.model.names import Queue
from headrace.stores.contract.store import Store


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
    """Delete dead letters and their jobs for good.

    A filter asks for confirmation first. Exits with 1 if a named dead letter is not there.

    Example: headrace dead purge --reason expired --until 7d
    """
    selection = DeadLetterSelection(
        url=url,
        tenant=tenant,
        queue=queue,
        names=names or [],
        query=DeadLetterQuery(
            id=id, kind=kind, tag=tag, reason=reason, error_class=error_class, since=since, until=until
        ),
        everything=everything,
    )
    action = bulk.BulkAction(
        verb="purge",
        noun="dead letter",
        apply=_purge,
        foresee=_foresee,
        dry_label="would be",
        succeeded=frozenset(("purged",)),
    )
    return bulk.run(Output(json=json), action, selection, dry_run=dry_run, yes=yes)


async def _purge(store: Store, queue: Queue, dead_letters: Sequence[DeadLetter]) -> list[str]:
    count = await store.dead.purge(queue, [each.key for each in dead_letters])
    # The store answers with a number: the rest were gone since they were listed.
    return ["purged"] * count + ["not_found"] * (len(dead_letters) - count)


async def _foresee(_: Store, __: Queue, dead_letters: Sequence[DeadLetter]) -> list[str]:
    return ["purged"] * len(dead_letters)
