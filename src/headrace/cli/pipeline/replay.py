"""`headrace pipeline replay`: the dead letters that fulfil a condition become jobs again."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import DryRun, Json, Url, Yes
from headrace.cli.output import Output, one_line
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import ALL, FOLDER, MASTER, Conf, Master, Queues, Tenants, engine
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.reprocess import GROUPS_SHOWN, Delay, Most, Spread, counted_first
from headrace.cli.pipeline.session import NOTHING, PipelineRequest, sparked
from headrace.model.times import instant_text

if TYPE_CHECKING:
    from headrace.pipeline.flows.replay import ReplayReport

COLUMNS = ("dead letters#", "queue", "kind", "reason", "first died", "last died", "error")
Where = Annotated[
    str,
    typer.Option("--where", metavar="SQL", help="Which dead letters, as in: error_class = 'Timeout' and attempts > 3"),
]
KeepCounts = Annotated[
    bool, typer.Option("--keep-counts", help="Keep attempts, stalls and the last error instead of starting anew.")
]


def replay(
    where: Where,
    url: Url = None,
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    delay: Delay = "0s",
    spread: Spread = "0s",
    keep_counts: KeepCounts = False,
    limit: Most = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Replay the dead letters for which a condition in SQL is true: counts them, shows groups of them, and asks.

    The columns are those of dead letters: tenant, queue, id, kind, tag, attempts, reason, error_class, error_message,
    enqueued_at, died_at, payload and others. It takes what was dead when it began; a dead letter whose id waits or runs
    already is kept (in use).
    """
    from headrace.pipeline.flows.reprocess import check_times

    output = Output(json=json)
    asked = PipelineRequest(url=url, dir=FOLDER, tenant=tenant, queue=queue, engine=engine(master, conf))
    later, over = typed_duration(delay), typed_duration(spread)
    check_times(later, over)
    there = asked.look()
    if not there.queues:
        output.document({"found": 0, "dry": dry_run})
        output.say(NOTHING)
        return
    line = ProgressLine(output)
    with sparked(asked.engine, line, there.events) as spark:
        from headrace.pipeline.flows.replay import replay_dead_letters

        def run(*, dry: bool, died_before_ms: int | None = None) -> "ReplayReport":
            return replay_dead_letters(
                spark,
                asked.store,
                where,
                tenant=tenant,
                queue=queue,
                delay=later,
                spread=over,
                keep_counts=keep_counts,
                limit=limit,
                dry_run=dry,
                died_before_ms=died_before_ms,
                what="--where",
                on_stage=line.stage,
            )

        done = counted_first(
            output,
            line,
            count=lambda: run(dry=True),
            size=lambda would: would.found,
            show=lambda would: _show(output, would),
            # The same dead letters as were shown: what died since was not.
            do=lambda would: run(dry=False, died_before_ms=None if would is None else would.died_before_ms),
            dry_run=dry_run,
            yes=yes,
        )
    output.document(done)
    output.say(done.sentence())
    if done.dry and done.found:
        output.hint("nothing was changed; leave out --dry-run to do it")


def _show(output: Output, found: "ReplayReport") -> None:
    if not found.groups:
        return
    rows = [
        (
            *(each.dead_letters, f"{each.tenant}/{each.queue}", each.kind, each.reason),
            *(instant_text(each.first_died_at_ms), instant_text(each.last_died_at_ms)),
            None if each.error_class is None else one_line(each.error_class),
        )
        for each in found.groups[:GROUPS_SHOWN]
    ]
    output.table(COLUMNS, rows, empty="")
    if len(found.groups) > GROUPS_SHOWN:
        output.say(f"and {len(found.groups) - GROUPS_SHOWN:,} smaller groups; --json has them")
