"""`headrace dead replay` and `purge`: turns dead letters into waiting jobs again, or deletes them."""

from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli import bulk
from headrace.cli.dead.options import DeadLetterSelection
from headrace.cli.options import DryRun, Json, Yes, option_groups
from headrace.cli.output import Output
from headrace.model.errors import BadConfig
from headrace.model.finished import DeadLetter
from headrace.model.job import State
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.times import duration_ms, read_instant_ms
from headrace.stores.contract.store import Store

Spread = Annotated[
    str, typer.Option("--spread", metavar="DURATION", help="Spread the jobs evenly over this time: 10m, 2h.")
]
Delay = Annotated[str, typer.Option("--delay", metavar="DURATION", help="Delay the jobs by this time: 10m, 2h.")]
RunAt = Annotated[
    str | None,
    typer.Option("--run-at", metavar="INSTANT", help="Run the jobs at this instant: 2030-01-31T12:00:00Z."),
]
KeepCounts = Annotated[
    bool, typer.Option("--keep-counts", help="Keep attempts, stalls and the last error instead of resetting them.")
]


@option_groups
def replay(
    selection: DeadLetterSelection,
    delay: Delay = "0s",
    run_at: RunAt = None,
    spread: Spread = "0s",
    keep_counts: KeepCounts = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Turn dead letters into waiting jobs again, with their ids.

    A dead letter whose id is waiting or active is kept (id in use). A filter asks for confirmation first, and selects
    what was dead when the command began: a job that dies again is left alone. Exits with 1 if a named dead letter was
    not replayed.

    Example: headrace dead replay --kind send-mail --since 1d --spread 10m
    """
    spread_ms, delay_ms = duration_ms("spread", spread), duration_ms("delay", delay)
    run_at_ms = None if run_at is None else read_instant_ms("run_at", run_at)
    if run_at_ms is not None and delay_ms:
        raise BadConfig("--delay and --run-at both set the time of the jobs; give one")

    async def apply(store: Store, queue: Queue, dead_letters: Sequence[DeadLetter]) -> list[str]:
        later_ms = delay_ms if run_at_ms is None else await _until_ms(store, run_at_ms)
        keys = [each.key for each in dead_letters]
        answers = await store.dead.replay(queue, keys, keep_counts=keep_counts, delay_ms=later_ms, spread_ms=spread_ms)
        return [answer.status for answer in answers]

    action = bulk.BulkAction(
        verb="replay",
        noun="dead letter",
        apply=apply,
        foresee=_Foresight().statuses,
        dry_label="would be",
        succeeded=frozenset(("replayed",)),
    )
    return bulk.run(Output(json=json), action, selection, dry_run=dry_run, yes=yes)


async def _until_ms(store: Store, run_at_ms: int) -> int:
    later_ms = max(run_at_ms - await store.now_ms(), 0)
    if later_ms > DURATION_MS_MAX:
        raise BadConfig("--run-at is more than a year ahead; a replay can be at most a year from now")
    return later_ms


class _Foresight:
    """Predicts the statuses of a replay: an id is replayed once, and not while it is waiting or active."""

    def __init__(self) -> None:
        self._ids: set[tuple[Queue, str]] = set()

    async def statuses(self, store: Store, queue: Queue, dead_letters: Sequence[DeadLetter]) -> list[str]:
        """The statuses of dead letters, after those of earlier calls."""
        ids = [each.record.id for each in dead_letters]
        found = await store.reads.find(queue, ids)
        live = {each.id for each in found if each is not None and each.state in (State.WAITING, State.ACTIVE)}
        statuses = []
        for id in ids:
            statuses.append("id_in_use" if id in live or (queue, id) in self._ids else "replayed")
            self._ids.add((queue, id))
        return statuses


@option_groups
def purge(
    selection: DeadLetterSelection,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Delete dead letters and their jobs for good.

    A filter asks for confirmation first. Exits with 1 if a named dead letter is not there.

    Example: headrace dead purge --reason expired --until 7d
    """
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
    # The store answers with a count: the rest disappeared after the listing.
    return ["purged"] * count + ["not_found"] * (len(dead_letters) - count)


async def _foresee(_: Store, __: Queue, dead_letters: Sequence[DeadLetter]) -> list[str]:
    return ["purged"] * len(dead_letters)
