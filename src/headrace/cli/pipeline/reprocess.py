"""`headrace pipeline replay` and `backfill`: enqueues dead letters or past jobs again that match a condition in SQL."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer

from headrace.cli.options import ALL, DryRun, Json, Url, Yes, option_groups
from headrace.cli.output import Output, one_line
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import (
    FOLDER,
    EventOptions,
    Queues,
    SparkOptions,
    Tenants,
)
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import NO_EVENTS, PipelineRequest, open_events, read_backlog, spark_session
from headrace.model.times import instant_text

if TYPE_CHECKING:
    from headrace.pipeline.flows.backfill import BackfillReport
    from headrace.pipeline.flows.replay import ReplayReport

REPLAY_COLUMNS = ("dead letters#", "queue", "kind", "reason", "first died", "last died", "error")
DeadWhere = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Condition on the dead letters, such as: error_class = 'Timeout' and attempts > 3",
    ),
]
KeepCounts = Annotated[
    bool, typer.Option("--keep-counts", help="Keep attempts, stalls and the last error instead of resetting them.")
]
BACKFILL_COLUMNS = ("jobs#", "without payload#", "queue", "kind", "events#")
EventWhere = Annotated[
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
        help="Payload of the new jobs: SQL over tenant, queue, id, generation, kind, tag, priority, payload.",
    ),
]
Keep = Annotated[str, typer.Option("--keep", metavar="DURATION", help="Time that keys are remembered: 30d.")]
Delay = Annotated[str, typer.Option("--delay", metavar="DURATION", help="Delay until the jobs are due: 10m, 2h.")]
Spread = Annotated[
    str, typer.Option("--spread", metavar="DURATION", help="Time over which the jobs are due evenly: 10m, 2h.")
]
Most = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Number to take at most, the oldest first.")]
GROUPS_SHOWN = 20
"""Groups in the table that a user decides by, the largest first."""


@option_groups
def replay(
    *,
    where: DeadWhere,
    url: Url = None,
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    delay: Delay = "0s",
    spread: Spread = "0s",
    keep_counts: KeepCounts = False,
    limit: Most = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    spark_options: SparkOptions,
    json: Json = False,
) -> None:
    """Replay the dead letters that match a condition in SQL.

    Counts the matches, shows them in groups, and asks. The columns are those of dead letters: tenant, queue, id, kind,
    tag, attempts, reason, error_class, error_message, enqueued_at, died_at, payload and others. Later deaths are left
    out, and so are dead letters whose id is waiting or running (in use).

    Example: headrace pipeline replay --where "error_class = 'Timeout'"
    """
    from headrace.pipeline.flows.reprocess import check_times

    output = Output(json=json)
    request = PipelineRequest(url=url, dir=FOLDER, tenant=tenant, queue=queue, engine=spark_options.engine)
    delay_time, spread_time = typed_duration(delay), typed_duration(spread)
    check_times(delay_time, spread_time)
    backlog = request.read_backlog()
    if not backlog.queues:
        output.document({"found": 0, "dry": dry_run})
        output.say(NO_EVENTS)
        return
    line = ProgressLine(output)
    with spark_session(request.engine, line, backlog.events) as spark:
        from headrace.pipeline.flows.replay import replay_dead_letters

        def replay_matches(*, dry: bool, died_before_ms: int | None = None) -> "ReplayReport":
            return replay_dead_letters(
                spark,
                request.store,
                where,
                tenant=tenant,
                queue=queue,
                delay=delay_time,
                spread=spread_time,
                keep_counts=keep_counts,
                limit=limit,
                dry_run=dry,
                died_before_ms=died_before_ms,
                what="--where",
                on_stage=line.stage,
            )

        report = confirm_counts(
            output,
            line,
            count=lambda: replay_matches(dry=True),
            size=lambda counts: counts.found,
            show=lambda counts: _show_dead_letters(output, counts),
            # Only the dead letters that were shown, and no later ones.
            write=lambda counts: replay_matches(
                dry=False, died_before_ms=None if counts is None else counts.died_before_ms
            ),
            dry_run=dry_run,
            yes=yes,
        )
    output.document(report)
    output.say(report.sentence())
    if report.dry and report.found:
        output.hint("nothing was changed; run it without --dry-run")


def _show_dead_letters(output: Output, report: "ReplayReport") -> None:
    if not report.groups:
        return
    rows = [
        (
            *(each.dead_letters, f"{each.tenant}/{each.queue}", each.kind, each.reason),
            *(instant_text(each.first_died_at_ms), instant_text(each.last_died_at_ms)),
            None if each.error_class is None else one_line(each.error_class),
        )
        for each in report.groups[:GROUPS_SHOWN]
    ]
    output.table(REPLAY_COLUMNS, rows, empty="")
    if len(report.groups) > GROUPS_SHOWN:
        output.say(f"and {len(report.groups) - GROUPS_SHOWN:,} smaller groups; --json has them")


@option_groups
def backfill(
    *,
    where: EventWhere,
    name: Name,
    source: EventOptions,
    to_queue: ToQueue = None,
    to_kind: ToKind = None,
    payload: Payload = None,
    delay: Delay = "0s",
    spread: Spread = "0s",
    keep: Keep = "30d",
    limit: Most = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    spark_options: SparkOptions,
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
    request = PipelineRequest.of(source, spark_options)
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
                tenant=request.tenant,
                queue=request.queue,
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
            show=lambda counts: _show_jobs(output, counts),
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


def _show_jobs(output: Output, report: "BackfillReport") -> None:
    if not report.groups:
        return
    rows = [
        (each.jobs, each.missing, f"{each.tenant}/{each.queue}", each.kind, each.events)
        for each in report.groups[:GROUPS_SHOWN]
    ]
    output.table(BACKFILL_COLUMNS, rows, empty="")
    if len(report.groups) > GROUPS_SHOWN:
        output.say(f"and {len(report.groups) - GROUPS_SHOWN:,} smaller groups; --json has them")


class ReprocessReport(Protocol):
    """The counts of a write or a dry run."""

    def sentence(self) -> str:
        """The counts in one sentence."""


R = TypeVar("R", bound=ReprocessReport)


def confirm_counts(
    output: Output,
    line: ProgressLine,
    *,
    count: Callable[[], R],
    size: Callable[[R], int],
    show: Callable[[R], None],
    write: Callable[[R | None], R],
    dry_run: bool,
    yes: bool,
) -> R:
    """Count, show the counts, ask, and then write; with `yes`, write at once. `write` gets the counts, if any.

    A dry run ends with the counts, and so does a run without matches (`size`). Without a terminal it exits with code 2
    and names the option to add.
    """
    if yes and not dry_run:
        report = write(None)
        with line.aside():
            show(report)
        return report
    counts = count()
    with line.aside():
        show(counts)
        if dry_run or not size(counts):
            return counts
        try:
            output.confirm(f"{counts.sentence()}. Do it?", yes=False)
        except Exception:
            output.document(counts)  # no other one follows
            raise
    return write(counts)
