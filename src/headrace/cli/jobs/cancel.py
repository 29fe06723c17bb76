"""`headrace jobs cancel` and `remove`: cancels live jobs, and deletes jobs with their results and dead letters."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer
from msgspec.structs import asdict

from headrace.cli import bulk
from headrace.cli.jobs.options import JobOptions, JobSelection, TargetJob, foresee_state
from headrace.cli.options import DryRun, Json, Yes, option_groups
from headrace.cli.output import Output
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

Running = Annotated[bool, typer.Option("--running", help="Also ask active jobs to stop, and drop their blocked jobs.")]
DEFAULT_STATES = (State.WAITING, State.DONE, State.CANCELLED, State.DEAD)
"""Without --state: an active job would lose its lease but not its handler, so it must be selected explicitly."""


@option_groups
def cancel(
    options: JobOptions,
    running: Running = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Cancel waiting jobs by id or by filter.

    With --running, active jobs are asked to stop, too. A filter asks for confirmation first. Exits with 1 if a named
    job could not be cancelled.

    Example: headrace jobs cancel --kind resize --older-than 2d
    """
    selection = JobSelection(
        **asdict(options),
        scanned_states=_scanned_states(options.state, running),
        named_states=frozenset((State.WAITING, State.ACTIVE)),
    )
    action = bulk.BulkAction(
        verb="cancel",
        noun="job",
        apply=partial(_cancel, running=running),
        foresee=foresee_state,
        dry_label="would cancel",
        succeeded=frozenset(("cancelled", "asked", "found")),
        hints={"active": "active jobs were left alone; --running asks them to stop"},
        reports_looked=True,
    )
    return bulk.run(Output(json=json), action, selection, dry_run=dry_run, yes=yes)


def _scanned_states(state: State | None, running: bool) -> tuple[State, ...]:
    if state is State.ACTIVE and not running:
        raise Refused("bad_state", "active jobs can only be asked to stop; add --running")
    if state in (State.DONE, State.CANCELLED, State.DEAD):
        raise Refused("bad_state", f"{state} jobs have ended; cancel waiting, blocked or active ones")
    if state is not None:
        return (state,)
    return (State.WAITING, State.BLOCKED, State.ACTIVE) if running else (State.WAITING, State.BLOCKED)


async def _cancel(store: Store, queue: Queue, jobs: Sequence[TargetJob], *, running: bool) -> list[str]:
    # The active job before a blocked one that matched need not match itself, and is not asked to stop.
    ask = running and jobs[0].state in (None, State.ACTIVE)
    answers = await store.jobs.cancel(queue, [job.id for job in jobs], running=ask)
    return [answer.status for answer in answers]


@option_groups
def remove(
    options: JobOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Remove jobs with their results and dead letters.

    A filter asks for confirmation first, and selects active jobs only with --state active: their handlers run on
    without a lease. A done job that waits again counts as waiting. Exits with 1 if a named job is not known.

    Example: headrace jobs remove --state done --older-than 7d
    """
    if options.state is State.BLOCKED:
        raise Refused("bad_state", "a blocked job is removed with the active one before it; use jobs cancel instead")
    selection = JobSelection(
        **asdict(options),
        scanned_states=DEFAULT_STATES if options.state is None else (options.state,),
        once=True,
    )
    action = bulk.BulkAction(
        verb="remove",
        noun="job",
        apply=_remove,
        foresee=foresee_state,
        dry_label="would remove",
        succeeded=frozenset(("removed", "found")),
        reports_looked=True,
    )
    return bulk.run(Output(json=json), action, selection, dry_run=dry_run, yes=yes)


async def _remove(store: Store, queue: Queue, jobs: Sequence[TargetJob]) -> list[str]:
    return [answer.status for answer in await store.jobs.remove(queue, [job.id for job in jobs])]
