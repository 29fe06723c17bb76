"""`headrace pipeline replay`: replays the dead letters that match a condition in SQL."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import DryRun, Json, Url, Yes
from headrace.cli.output import Output, one_line
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import ALL, FOLDER, MASTER, Conf, Master, Queues, Tenants, engine
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.reprocess import GROUPS_SHOWN, Delay, Most, Spread, confirm_counts
from headrace.cli.pipeline.session import NO_EVENTS, PipelineRequest, spark_session
from headrace.model.times import instant_text

if TYPE_CHECKING:
    from headrace.pipeline.flows.replay import ReplayReport

COLUMNS = ("dead letters#", "queue", "kind", "reason", "first died", "last died", "error")
Where = Annotated[
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
    """Replay the dead letters that match a condition in SQL.

    Counts the matches, shows them in groups, and asks. The columns are those of dead letters: tenant, queue, id, kind,
    tag, attempts, reason, error_class, error_message, enqueued_at, died_at, payload and others. Later deaths are left
    out, and so are dead letters whose id is waiting or running (in use).

    Example: headrace pipeline replay --where "error_class = 'Timeout'"
    """
    from headrace.pipeline.flows.reprocess import check_times

    output = Output(json=json)
    request = PipelineRequest(url=url, dir=FOLDER, tenant=tenant, queue=queue, engine=engine(master, conf))
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
            show=lambda counts: _show_groups(output, counts),
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


def _show_groups(output: Output, report: "ReplayReport") -> None:
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
    output.table(COLUMNS, rows, empty="")
    if len(report.groups) > GROUPS_SHOWN:
        output.say(f"and {len(report.groups) - GROUPS_SHOWN:,} smaller groups; --json has them")
