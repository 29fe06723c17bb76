"""`headrace jobs remove`: deletes everything of jobs."""

from collections.abc import Sequence

from headrace.cli.jobs.acting import JobAction
from headrace.cli.jobs.group import AnyState, Everything, Ids, Kind, OlderThan, Tag, commands
from headrace.cli.jobs.running import JobChoice, run
from headrace.cli.options import TENANT, AnyQueue, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

STATES = (State.WAITING, State.DONE, State.CANCELLED, State.DEAD)
"""What is removed when no state is named: an active job loses its lease and not its handler, so that must be meant."""


@commands.command("remove")
def remove(
    ids: Ids = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    kind: Kind = None,
    tag: Tag = None,
    state: AnyState = None,
    older_than: OlderThan = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Remove jobs with their results and dead letters, by id or by filter.

    By filter it asks first, and takes active jobs only with --state active: their handlers run on without a lease.
    An id that is done but waits anew counts as waiting. Exits with 1 when a job that was named is not known.
    """
    if state is State.BLOCKED:
        raise Refused("bad_state", "to remove a blocked job is to remove the active one before it; use jobs cancel")
    choice = JobChoice(
        url=url,
        tenant=tenant,
        queue=queue,
        ids=ids or [],
        kind=kind,
        tag=tag,
        state=state,
        older_than=older_than,
        everything=everything,
    )
    states = STATES if state is None else (state,)
    deed = JobAction("remove", _removed, frozenset(State), liveliest=True)
    return run(Output(json=json), choice, deed, states, ("removed",), dry_run=dry_run, yes=yes)


async def _removed(store: Store, queue: Queue, _: State | None, ids: Sequence[str]) -> list[str]:
    return [answer.status for answer in await store.jobs.remove(queue, ids)]
