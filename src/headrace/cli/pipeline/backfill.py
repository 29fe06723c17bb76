"""`headrace pipeline backfill`: jobs of the past, by the events that tell of them, are enqueued again."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import DryRun, Json, Url, Yes
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import ALL, FOLDER, MASTER, Conf, Dir, From, Master, Queues, Tenants, engine
from headrace.cli.pipeline.reprocess import GROUPS_SHOWN, Delay, Most, Spread, counted_first
from headrace.cli.pipeline.session import PipelineRequest, look, working

if TYPE_CHECKING:
    from headrace.pipeline.flows.backfill import BackfillReport

COLUMNS = ("jobs#", "without payload#", "queue", "kind", "events#")
Where = Annotated[
    str,
    typer.Option("--where", metavar="SQL", help="Which events, as in: event = 'done' and kind = 'invoice'"),
]
Name = Annotated[
    str, typer.Option("--name", help="What this backfill is known by: under one name, a job is made once.")
]
ToQueue = Annotated[str | None, typer.Option("--to-queue", metavar="NAME", help="Another queue than they were in.")]
ToKind = Annotated[str | None, typer.Option("--to-kind", metavar="KIND", help="Another kind than they had.")]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="SQL",
        help="Another payload: SQL over tenant, queue, id, life, kind, tag, priority, payload.",
    ),
]
Keep = Annotated[str, typer.Option("--keep", metavar="DURATION", help="How long jobs are known as made: 30d.")]


def backfill(
    where: Where,
    name: Name,
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    to_queue: ToQueue = None,
    to_kind: ToKind = None,
    payload: Payload = None,
    delay: Delay = "0s",
    spread: Spread = "0s",
    keep: Keep = "30d",
    limit: Most = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Enqueue jobs of the past again: those behind the events for which a condition in SQL is true.

    Counts them, shows groups of them, and asks. Each job is made once under a name, however often this is run, and the
    jobs that it made are not taken themselves. Payloads are in the journal where the queue has journal_payloads on, and
    in a history that is written with --payloads; a job without one is named and left out.
    """
    from headrace.pipeline.flows.reprocess import check_name, check_target, check_times

    output = Output(json=json)
    asked = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, origin=origin, engine=engine(master, conf))
    later, over = typed_duration(delay), typed_duration(spread)
    check_name(name)
    check_times(later, over)
    check_target(to_queue, to_kind, typed_duration(keep))
    look(asked.store, ALL, ALL)  # a history is read without the store, which must be there to take the jobs
    with working(asked, output) as work:
        if work is None:
            return
        from headrace.pipeline.flows.backfill import backfill_jobs

        def run(*, dry: bool, happened_before_ms: int | None = None) -> "BackfillReport":
            return backfill_jobs(
                work.spark,
                asked.store,
                asked.data_dir,
                where,
                name=name,
                tenant=tenant,
                queue=queue,
                to_queue=to_queue,
                to_kind=to_kind,
                payload=payload,
                origin=work.events.origin,
                delay=later,
                spread=over,
                keep=typed_duration(keep),
                limit=limit,
                dry_run=dry,
                happened_before_ms=happened_before_ms,
                words=("--where", "--payload"),
                on_stage=work.line.stage,
            )

        done = counted_first(
            output,
            work.line,
            count=lambda: run(dry=True),
            size=lambda would: would.jobs - would.missing,
            show=lambda would: _show(output, would),
            # The same jobs as were shown: what happened since was not.
            do=lambda would: run(dry=False, happened_before_ms=None if would is None else would.happened_before_ms),
            dry_run=dry_run,
            yes=yes,
        )
    output.document(done)
    output.say(done.sentence())
    if done.missing:
        output.hint(
            "the journal has payloads from when a queue is told to keep them (headrace queues configure QUEUE"
            " journal_payloads=true), and so has a history that is written with --payloads; or make them with"
            " --payload SQL"
        )
    if done.dry and done.jobs > done.missing:
        output.hint("nothing was changed; leave out --dry-run to do it")


def _show(output: Output, found: "BackfillReport") -> None:
    if not found.groups:
        return
    rows = [
        (each.jobs, each.missing, f"{each.tenant}/{each.queue}", each.kind, each.events)
        for each in found.groups[:GROUPS_SHOWN]
    ]
    output.table(COLUMNS, rows, empty="")
    if len(found.groups) > GROUPS_SHOWN:
        output.say(f"and {len(found.groups) - GROUPS_SHOWN:,} smaller groups; --json has them")
