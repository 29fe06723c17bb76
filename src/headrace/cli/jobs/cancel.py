"""`headrace jobs cancel`: ends what waits, and asks what runs to stop."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from headrace.cli.jobs.acting import JobAction
from headrace.cli.jobs.group import AnyState, Everything, Ids, Kind, OlderThan, Tag, commands
from headrace.cli.jobs.running import JobChoice, run
from headrace.cli.options import TENANT, AnyQueue, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

Running = Annotated[bool, typer.Option("--running", help="Also ask active jobs to stop, and drop their blocked jobs.")]
_LIVE = frozenset((State.WAITING, State.ACTIVE))


@commands.command("cancel")
def cancel(
    ids: Ids = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    running: Running = False,
    kind: Kind = None,
    tag: Tag = None,
    state: AnyState = None,
    older_than: OlderThan = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Cancel jobs that wait, by id or by filter; with --running also ask active ones to stop.

    By filter it asks first. Exits with 1 when a job that was named could not be cancelled.
    """
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
    deed = JobAction("cancel", partial(_cancelled, running=running), _LIVE, liveliest=False)
    return run(
        Output(json=json), choice, deed, _states(state, running), ("cancelled", "asked"), dry_run=dry_run, yes=yes
    )


def _states(state: State | None, running: bool) -> tuple[State, ...]:
    if state is State.ACTIVE and not running:
        raise Refused("bad_state", "active jobs can only be asked to stop; add --running")
    if state in (State.DONE, State.CANCELLED, State.DEAD):
        raise Refused("bad_state", f"{state} jobs are over; cancel what is waiting, blocked or active")
    if state is not None:
        return (state,)
    return (State.WAITING, State.BLOCKED, State.ACTIVE) if running else (State.WAITING, State.BLOCKED)


async def _cancelled(
    store: Store, queue: Queue, state: State | None, ids: Sequence[str], *, running: bool
) -> list[str]:
    # Of a blocked job that matched, the active one need not match: it is not asked for the blocked job's sake.
    asking = running and state in (None, State.ACTIVE)
    return [answer.status for answer in await store.jobs.cancel(queue, ids, running=asking)]
