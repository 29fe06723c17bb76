"""`headrace pipeline backfill`: enqueues past jobs again whose events match a condition in SQL."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import DryRun, Json, Url, Yes
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import ALL, FOLDER, MASTER, Conf, Dir, From, Master, Queues, Tenants, engine
from headrace.cli.pipeline.reprocess import GROUPS_SHOWN, Delay, Most, Spread, confirm_counts
from headrace.cli.pipeline.session import PipelineRequest, open_events, read_backlog

if TYPE_CHECKING:
    from headrace.pipeline.flows.backfill import BackfillReport

COLUMNS = ("jobs#", "without payload#", "queue", "kind", "events#")
Where = Annotated[
    str,
    typer.Option(
        "--where", metavar="SQL", help="Condition on the events, such as: event = 'done' and kind = 'invoice'"
    ),
]
Name = Annotated[str, typer.Option("--name", help="Name of the backfill; under one name, each job is enqueued once.")]
ToQueue = Annotated[
    str | None,
    typer.Option("--to-queue", metavar="NAME", help="Queue of the new jobs; that of the past job by default."),
]
ToKind = Annotated[
    str | None, typer.Option("--to-kind", metavar="KIND", help="Kind of the new jobs; that of the past job by default.")
]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="SQL",
        help="Payload of the new jobs: SQL over tenant, queue, id, life, kind, tag, priority, payload.",
    ),
]
Keep = Annotated[str, typer.Option("--keep", metavar="DURATION", help="Time that keys are remembered: 30d.")]


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
    """Enqueue past jobs again whose events match a condition in SQL.

    Counts the matches, shows them in groups, and asks. Under one name each past job is enqueued once, and the new jobs
    are never selected themselves. The journal has payloads where the queue has journal_payloads on, and a history if it
    is written with --payloads; jobs without a payload are named and left out.

    Example: headrace pipeline backfill --name fix --where "kind = 'invoice'"
    """
    from headrace.pipeline.flows.reprocess import check_name, check_target, check_times

    output = Output(json=json)
    request = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, origin=origin, engine=engine(master, conf))
    delay_time, spread_time = typed_duration(delay), typed_duration(spread)
    check_name(name)
    check_times(delay_time, spread_time)
    check_target(to_queue, to_kind, typed_duration(keep))
    read_backlog(request.store, ALL, ALL)  # a history is read without the store, which takes the jobs
    with open_events(request, output) as work:
        if work is None:
            return
        from headrace.pipeline.flows.backfill import backfill_jobs

        def backfill_matches(*, dry: bool, happened_before_ms: int | None = None) -> "BackfillReport":
            return backfill_jobs(
                work.spark,
                request.store,
                request.data_dir,
                where,
                name=name,
                tenant=tenant,
                queue=queue,
                to_queue=to_queue,
                to_kind=to_kind,
                payload=payload,
                origin=work.events.origin,
                delay=delay_time,
                spread=spread_time,
                keep=typed_duration(keep),
                limit=limit,
                dry_run=dry,
                happened_before_ms=happened_before_ms,
                words=("--where", "--payload"),
                on_stage=work.line.stage,
            )

        report = confirm_counts(
            output,
            work.line,
            count=lambda: backfill_matches(dry=True),
            size=lambda counts: counts.jobs - counts.missing,
            show=lambda counts: _show_groups(output, counts),
            # Only the jobs that were shown, and none of later events.
            write=lambda counts: backfill_matches(
                dry=False, happened_before_ms=None if counts is None else counts.happened_before_ms
            ),
            dry_run=dry_run,
            yes=yes,
        )
    output.document(report)
    output.say(report.sentence())
    if report.missing:
        output.hint(
            "a journal records payloads with headrace queues configure QUEUE journal_payloads=true, and a history with"
            " --payloads; or make them with --payload SQL"
        )
    if report.dry and report.jobs > report.missing:
        output.hint("nothing was changed; run it without --dry-run")


def _show_groups(output: Output, report: "BackfillReport") -> None:
    if not report.groups:
        return
    rows = [
        (each.jobs, each.missing, f"{each.tenant}/{each.queue}", each.kind, each.events)
        for each in report.groups[:GROUPS_SHOWN]
    ]
    output.table(COLUMNS, rows, empty="")
    if len(report.groups) > GROUPS_SHOWN:
        output.say(f"and {len(report.groups) - GROUPS_SHOWN:,} smaller groups; --json has them")
